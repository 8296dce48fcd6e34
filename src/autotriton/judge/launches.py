"""One kernel launch as plain JSON data, so that it can be seen in one process and compiled in another.

`describe` runs where the kernel was launched (in Triton's interpreter, meta-parameters already chosen); `rebuild` runs
where it is compiled. A description says what Triton itself would specialise on and nothing else: types, constants,
alignment, options. Two launches that would share one binary have the same `launch_key`.

Covered: tensors, scalars, None, tuples and named tuples, tensor descriptors, dtypes and jit functions as constants.
Not covered: constants of other types (an enum, an object); `rebuild` then raises `CannotRebuild`.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import math
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

Launch = dict[str, Any]

_COMMON_OPTIONS = ("num_warps", "num_stages", "num_ctas")
_NOT_OPTIONS = ("grid", "warmup", "stream", *_COMMON_OPTIONS)
_MAX_INT_32 = 2**31 - 1


class CannotRebuild(Exception):
    """The description lacks what the compiler needs. A limit of ours, never a fault of the kernel."""


def describe(
    kernel_name: str,
    arg_names: Iterable[str],
    constexpr_names: Iterable[str],
    bound_args: Mapping[str, object],
    options: Mapping[str, object],
) -> Launch:
    """The launch as JSON data.

    `attrs` holds Triton's own letters: "D" divisible by 16, "S" a pointer whose storage spans less than 2 GB, and "1"
    for an integer equal to one. `num_warps`, `num_stages` and `num_ctas` are None when left to the backend.
    """
    declared = frozenset(constexpr_names)
    signature: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    attrs: dict[str, Any] = {}
    for name in arg_names:
        if name not in bound_args:
            continue  # left to its default, which the compiling side knows
        argument = _constant(bound_args[name]) if name in declared else _argument(bound_args[name])
        signature[name] = argument.type
        if argument.constant is not _NOTHING:
            constants[name] = argument.constant
        if argument.attr:
            attrs[name] = argument.attr
    return {
        "kernel": kernel_name,
        "signature": signature,
        "constants": constants,
        "attrs": attrs,
        **{name: _plain(options.get(name)) for name in _COMMON_OPTIONS},
        "options": {name: _plain(value) for name, value in sorted(options.items()) if name not in _NOT_OPTIONS},
    }


def launch_key(launch: Launch) -> str:
    """Equal for launches that would share a binary."""
    text = json.dumps(launch, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def options_of(launch: Launch) -> dict[str, Any]:
    """Compiler options the launch named, without those it left to the backend."""
    common = {name: launch.get(name) for name in _COMMON_OPTIONS}
    named = {**common, **launch.get("options", {})}
    return {name: decode(value, _no_functions) for name, value in named.items() if value is not None}


def refuse_unknown(kwargs: Mapping[str, object], parameters: Iterable[str]) -> None:
    """The interpreter drops keywords it does not know; the compiler refuses them, so a launch must fail here too."""
    unknown = [key for key in kwargs if key not in frozenset(parameters) and key not in _launch_options()]
    if unknown:
        raise KeyError(f"Keyword argument {unknown[0]} was specified but unrecognised")


@dataclass(frozen=True)
class SourceArgs:
    """What `triton.compiler.ASTSource` takes besides the function."""

    signature: dict[str, Any] = field(default_factory=dict)
    constexprs: dict[tuple[int, ...], Any] = field(default_factory=dict)
    attrs: dict[tuple[int, ...], str] = field(default_factory=dict)


def rebuild(jit_function: Any, launch: Launch, resolve: Callable[[str], object]) -> SourceArgs:
    """The launch in the compiler's terms, for a `JITFunction`; `resolve` finds a jit function by its name.

    The function's own declarations come last, as in Triton's launcher: an annotated type wins over the value's,
    and `do_not_specialize` drops what was seen of the value.
    """
    source = SourceArgs()
    for index, param in enumerate(jit_function.params):
        type_, constant, attr = _seen(param, launch)
        if param.is_constexpr and type_ != "constexpr":
            raise CannotRebuild(f"the value of the constant {param.name} was not recorded")
        if param.annotation_type and type_ != "constexpr":
            type_, attr = param.annotation_type, "" if attr == "1" else attr
            if type_ == "u1" or type_[:2] in ("fp", "bf"):
                attr = ""
        elif param.is_const and isinstance(type_, str) and type_.startswith("*"):
            type_ = "*k" + type_[1:]
        if param.do_not_specialize:
            attr = ""
        elif param.do_not_specialize_on_alignment and isinstance(attr, str):
            attr = attr.replace("D", "")
        source.signature[param.name] = _place(source, (index,), type_, constant, attr, resolve)
    return source


def decode(value: Any, resolve: Callable[[str], object]) -> Any:
    """The constant that `describe` wrote down."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "float":
        return float(content)
    if kind == "tuple":
        return tuple(decode(item, resolve) for item in content)
    if kind == "namedtuple":
        return _named({name: decode(item, resolve) for name, item in content.items()})
    if kind == "jit":
        return resolve(content)
    if kind == "dtype":
        import triton.language as tl

        return tl.dtype(content)
    if kind == "torch_dtype":
        import torch

        return getattr(torch, content)
    raise CannotRebuild(f"a constant of type {content} cannot be carried to the compiler")


_NOTHING = object()


@dataclass(frozen=True)
class _Argument:
    type: Any
    """A type string; a list for a tuple; a dict for a named tuple; {"unsupported type": name} if Triton refuses it."""
    constant: Any = _NOTHING
    attr: Any = ""


def _constant(value: object) -> _Argument:
    return _Argument("constexpr", _plain(value))


def _argument(value: object) -> _Argument:
    """How Triton's launcher would type a value that is not declared constexpr."""
    if value is None or _is_jit(value) or type(value).__name__ == "constexpr":
        return _constant(value)
    if isinstance(value, tuple):
        return _tuple_argument(value)
    from triton._C.libtriton import native_specialize_impl
    from triton.backends.compiler import BaseBackend

    try:
        type_, _ = native_specialize_impl(BaseBackend, value, False, False, True)
        _, attr = native_specialize_impl(BaseBackend, value, False, True, True)
    except (TypeError, KeyError, ValueError, AttributeError):
        dtype = f" of {value.dtype}" if hasattr(value, "dtype") else ""
        return _Argument({"unsupported type": f"{type(value).__name__}{dtype}"})
    letters = "1" if attr == 1 else attr or ""
    if type_.startswith("*") and _storage_bytes(value) <= _MAX_INT_32:
        letters += "S"
    return _Argument(type_, attr=letters)


def _tuple_argument(value: tuple[object, ...]) -> _Argument:
    items = [_argument(item) for item in value]
    types = [item.type for item in items]
    constants = [None if item.constant is _NOTHING else item.constant for item in items]
    names = getattr(value, "_fields", None)
    return _Argument(
        dict(zip(names, types, strict=True)) if names else types,
        constants if any(item.constant is not _NOTHING for item in items) else _NOTHING,
        [item.attr for item in items] if any(item.attr for item in items) else "",
    )


def _plain(value: object) -> Any:
    """A constant as JSON; what JSON lacks is a dict with one key that names its kind."""
    if type(value).__name__ == "constexpr" and hasattr(value, "value"):
        return _plain(value.value)
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(float(value))}
    for plain in (bool, int, float, str):
        if isinstance(value, plain):
            return plain(value)  # an enum of strings or a NumPy double would not survive as such
    if value is None:
        return None
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {"namedtuple": {name: _plain(item) for name, item in zip(value._fields, value, strict=True)}}
    if isinstance(value, list | tuple):
        return {"tuple": [_plain(item) for item in value]}
    if _is_jit(value):
        return {"jit": getattr(value, "__name__", "")}
    kind = type(value)
    if kind.__name__ == "dtype" and kind.__module__.startswith("triton"):
        return {"dtype": str(getattr(value, "name", value))}
    if kind.__name__ == "dtype" and kind.__module__.startswith("torch"):
        return {"torch_dtype": str(value).removeprefix("torch.")}
    if kind.__module__ == "numpy" and hasattr(value, "item"):
        return _plain(value.item())
    return {"unsupported type": kind.__name__}


def _is_jit(value: object) -> bool:
    """A jit function, compiled or interpreted; told by name, so that no private class has to be imported."""
    return any(kind.__name__ in ("JITCallable", "JITFunction", "InterpretedFunction") for kind in type(value).__mro__)


def _storage_bytes(value: Any) -> int:
    base = getattr(value, "base", value)  # triton.reinterpret wraps a tensor
    if not hasattr(base, "untyped_storage"):
        return _MAX_INT_32 + 1
    import torch

    if isinstance(base, torch.Tensor):  # past the candidate's process, where the method itself is closed
        # Under a function mode torch would look the method up on `Tensor`, where the blocks have closed it.
        with torch._C.DisableTorchFunction():
            return int(torch._C.TensorBase.untyped_storage(base).nbytes())
    return int(base.untyped_storage().nbytes())


def _seen(param: Any, launch: Launch) -> tuple[Any, Any, Any]:
    """Type, constant and attribute of one parameter; a parameter the launch left out has its default."""
    name = param.name
    if name in launch["signature"]:
        return launch["signature"][name], launch["constants"].get(name), launch["attrs"].get(name, "")
    if not param.has_default:
        raise CannotRebuild(f"the argument {name} was not recorded")
    default = _constant(param.default) if param.is_constexpr else _argument(param.default)
    return default.type, None if default.constant is _NOTHING else default.constant, default.attr


def _place(source: SourceArgs, path: tuple[int, ...], type_: Any, constant: Any, attr: Any, resolve: Any) -> Any:
    """Enters one argument into `source` and returns its type as the compiler wants it."""
    if isinstance(type_, dict) and "unsupported type" in type_:
        raise TypeError(f"Triton cannot pass an argument of type {type_['unsupported type']} to a kernel")
    if isinstance(type_, list | dict):
        inner = list(type_.values()) if isinstance(type_, dict) else type_
        constants, attrs = constant or [None] * len(inner), attr or [""] * len(inner)
        types = [
            _place(source, (*path, i), *item, resolve)
            for i, item in enumerate(zip(inner, constants, attrs, strict=True))
        ]
        return _named(dict(zip(type_, types, strict=True))) if isinstance(type_, dict) else tuple(types)
    if type_ == "constexpr" or attr == "1":
        source.constexprs[path] = 1 if attr == "1" else decode(constant, resolve)
        return "constexpr"
    if attr:
        source.attrs[path] = attr
    return type_


def _named(fields: dict[str, Any]) -> Any:
    return namedtuple("Arguments", list(fields))(**fields)


def _no_functions(name: str) -> object:
    raise CannotRebuild(f"the function {name} is not a compiler option")


@functools.cache
def _launch_options() -> frozenset[str]:
    """Every keyword a real launch understands besides the kernel's own parameters."""
    names = {
        "grid",
        "warmup",
        "num_warps",
        "num_stages",
        "num_ctas",
        "debug",
        "sanitize_overflow",
        "instrumentation_mode",
    }
    for backend, options in (("nvidia", "CUDAOptions"), ("amd", "HIPOptions")):
        module = importlib.import_module(f"triton.backends.{backend}.compiler")
        names |= {entry.name for entry in fields(getattr(module, options))}
    return frozenset(names)
