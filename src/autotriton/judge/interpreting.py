"""Triton's interpreter, made into a witness: bounds, precision, launches, no-op, autotuning, libdevice.

Patches `triton.runtime.interpreter` in the candidate's process (triton 3.6 to 3.9). Every pointer argument gets an
address space of its own, so an access is checked against the tensor it came from, however far it strays; tensor-core
dots round their operands as the hardware does, so that a TF32 kernel is as wrong here as it is on a GPU.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
import triton.runtime.interpreter as interpreter
from triton.runtime.autotuner import Autotuner

from autotriton.judge import launches, libdevice
from autotriton.judge.blocking import candidate_line
from autotriton.judge.emulation import patch_arithmetic
from autotriton.judge.watching import Ranges

_SPACE_BITS = 48  # above every user-space address, so that real and virtual pointers never meet
_REWRITTEN = ("interpreter_semantic", "_InterpreterComparison")
"""Names the interpreter writes into a kernel's code."""
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


class OutOfBounds(Exception):
    """A load, store or atomic outside the tensor its pointer came from."""


@dataclasses.dataclass(frozen=True)
class _Space:
    """One pointer argument: its virtual base, real address, and the allocation it may touch."""

    name: str
    base: int
    address: int
    start: int
    end: int
    itemsize: int
    shape: tuple[int, ...]


def _as_tuple(grid: Any) -> Any:
    """A grid may be a list on a GPU; the interpreter wants a tuple."""
    if callable(grid):
        return lambda meta: _as_tuple(grid(meta))
    return tuple(grid) if isinstance(grid, list) else grid


class Interpreter:
    """Installed once per process; `ranges` and `noop` are set before each run."""

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.ranges = Ranges()
        self.noop = False
        self.config_index = 0
        self.launches: dict[str, dict[str, Any]] = {}
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self.unsupported: str | None = None
        self._spaces: dict[int, _Space] = {}
        self._kernel = ""
        self._install()

    # --- installation -----------------------------------------------------------------------------------

    def _install(self) -> None:
        executor: Any = interpreter.GridExecutor
        executor._init_args_hst = lambda _, args, kwargs: (list(args), dict(kwargs))
        executor._restore_args_dev = lambda *_: None
        self._original_convert = interpreter._implicit_cvt
        interpreter._implicit_cvt = self._convert
        self._wrap_run()
        self._wrap_memory()
        patch_arithmetic()
        self._keep_globals_clean()
        Autotuner.run = self._autotuned()
        libdevice.patch_libdevice()

    def _wrap_run(self) -> None:
        original = interpreter.InterpretedFunction.run
        witness = self

        def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            if warmup:
                return None
            launches.refuse_unknown(kwargs, inspect.signature(self.fn).parameters)
            witness._note_launch(self, args, kwargs)
            if witness.noop:
                return None
            witness._kernel, outer = self.fn.__name__, witness._kernel
            witness._spaces = {}
            try:
                return original(self, *args, grid=_as_tuple(grid), warmup=warmup, **kwargs)
            except Exception as error:
                witness._note_unsupported(error)
                raise
            finally:
                witness._kernel = outer

        interpreter.InterpretedFunction.run = run

    def _note_launch(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        name = function.fn.__name__
        self.counts[name] += 1
        parameters = inspect.signature(function.fn).parameters
        known = {key: value for key, value in kwargs.items() if key in parameters}
        try:
            bound = inspect.signature(function.fn).bind(*args, **known)
        except TypeError:
            return  # the launch itself will raise, with Triton's own message
        bound.apply_defaults()
        constexprs = [key for key, p in parameters.items() if "constexpr" in str(p.annotation)]
        options = {key: kwargs[key] for key in _OPTIONS if kwargs.get(key) is not None}
        launch = launches.describe(name, list(parameters), constexprs, dict(bound.arguments), options)
        self.launches.setdefault(launches.launch_key(launch), launch)

    def _note_unsupported(self, error: BaseException | None) -> None:
        """The interpreter lacks something (inline assembly, an extern call): no verdict on the kernel."""
        while error is not None:
            if isinstance(error, NotImplementedError) and error.__traceback__ is not None:
                trace = error.__traceback__
                while trace.tb_next is not None:
                    trace = trace.tb_next
                if trace.tb_frame.f_code.co_filename in (interpreter.__file__, libdevice.__file__):
                    self.unsupported = str(error)
            error = error.__cause__

    def _keep_globals_clean(self) -> None:
        """The interpreter pours its globals (numpy, inspect) into the candidate's module; give it what it needs."""
        needed = {name: vars(interpreter)[name] for name in _REWRITTEN if name in vars(interpreter)}

        def compile_and_exec(self: Any, transformed: Any) -> Any:
            code = compile(transformed, filename=self.filename, mode="exec")
            scope = {**self.fn.__globals__, **needed}
            local = {**self.kwargs}
            exec(code, scope, local)
            return local[self.fn.__name__]

        interpreter.FunctionRewriter._compile_and_exec = compile_and_exec

    # --- memory -----------------------------------------------------------------------------------------

    def _convert(self, arg: Any) -> Any:
        """A tensor argument becomes a pointer into an address space of its own."""
        converted = self._original_convert(arg)
        tensor = getattr(arg, "base", arg) if isinstance(arg, triton.runtime.jit.TensorWrapper) else arg
        if isinstance(tensor, torch.Tensor):
            space = self._space(tensor)
            converted.handle.data = np.array([space.base], dtype=np.uint64)
        return converted

    def _space(self, tensor: torch.Tensor) -> _Space:
        address = tensor.data_ptr()
        for space in self._spaces.values():
            if space.address == address and space.shape == tuple(tensor.shape):
                return space
        found = self.ranges.find(address)
        if found is None:
            with torch._C.DisableTorchFunction():  # else a function mode finds the method the blocks have closed
                storage = torch._C.TensorBase.untyped_storage(tensor)
            found = (storage.data_ptr(), storage.data_ptr() + storage.nbytes())
        tag = len(self._spaces) + 1
        # Keeping the low bits keeps what a kernel may know of alignment.
        base = (tag << _SPACE_BITS) + (1 << 40) + address % (1 << 20)
        space = _Space(f"argument {tag}", base, address, found[0], found[1], tensor.element_size(), tuple(tensor.shape))
        self._spaces[tag] = space
        return space

    def _wrap_memory(self) -> None:
        builder: Any = interpreter.InterpreterBuilder
        for name, value_at in (("create_masked_load", 1), ("create_masked_store", 2), ("create_atomic_rmw", 3)):
            setattr(builder, name, self._checked(getattr(builder, name), name, value_at))
        builder.create_atomic_cas = self._checked(builder.create_atomic_cas, "create_atomic_cas", None)

    def _checked(self, original: Callable[..., Any], name: str, mask_at: int | None) -> Callable[..., Any]:
        pointer_at = 1 if name == "create_atomic_rmw" else 0
        verb = name.removeprefix("create_").removeprefix("masked_").replace("_", " ")
        witness = self

        def access(builder: Any, *args: Any, **more: Any) -> Any:
            pointers = args[pointer_at]
            changed = list(args)
            mask = None
            if mask_at is not None:
                # A vector mask & a scalar condition comes as integers; triton 3.6 passes descriptors' masks bare.
                given = args[mask_at]
                mask = (given if isinstance(given, np.ndarray) else given.data).astype(np.bool_, copy=False)
                changed[mask_at] = interpreter.TensorHandle(mask, tl.int1)
            itemsize = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
            real = witness._translate(pointers.data, mask, itemsize, verb)
            changed[pointer_at] = interpreter.TensorHandle(real, pointers.dtype)
            return original(builder, *changed, **more)

        return access

    def _translate(self, pointers: Any, mask: Any, itemsize: int, verb: str) -> Any:
        """Virtual to real addresses; raises where an active lane leaves its tensor. Inactive lanes go anywhere."""
        active = pointers if mask is None else pointers[np.broadcast_to(mask, pointers.shape).astype(bool)]
        if active.size == 0:
            return np.zeros_like(pointers)
        tags = active >> np.uint64(_SPACE_BITS)
        # Negative offsets borrow from the tag below; the middle of each space keeps them inside it (base + 2^40).
        if tags.min() != tags.max():
            return self._translate_mixed(pointers, mask, itemsize, verb)
        space = self._spaces.get(int(tags.flat[0]))
        if space is None:
            return self._check_real(pointers, active, itemsize, verb)
        shift = space.base - space.address
        low, high = int(active.min()) - shift, int(active.max()) - shift + itemsize
        if low < space.start or high > space.end:
            self._violate(space, active, shift, itemsize, verb)
        return pointers - np.uint64(shift)

    def _translate_mixed(self, pointers: Any, mask: Any, itemsize: int, verb: str) -> Any:
        result = np.zeros_like(pointers)
        lanes = np.ones(pointers.shape, bool) if mask is None else np.broadcast_to(mask, pointers.shape).astype(bool)
        tags = pointers >> np.uint64(_SPACE_BITS)
        for tag in np.unique(tags[lanes]):
            chosen = lanes & (tags == tag)
            result[chosen] = self._translate(pointers[chosen], None, itemsize, verb)
        return result

    def _check_real(self, pointers: Any, active: Any, itemsize: int, verb: str) -> Any:
        """Addresses the candidate took with `data_ptr()` itself: inside some known tensor, or refused."""
        low, high = int(active.min()), int(active.max()) + itemsize
        found = self.ranges.find(low)
        if found is None or high > found[1]:
            self._refuse(f"{verb} through an address that belongs to no tensor of this launch")
        return pointers

    def _violate(self, space: _Space, active: Any, shift: int, itemsize: int, verb: str) -> None:
        real = active.astype(np.int64) - np.int64(shift)
        bad = (real < space.start) | (real + itemsize > space.end)
        worst = int(real[bad].min() if (real[bad] < space.start).any() else real[bad].max())
        offset, size = (worst - space.start) // space.itemsize, (space.end - space.start) // space.itemsize
        name = self._argument_name(space)
        where = f"element {offset} of a tensor of {size} elements (shape {list(space.shape)})"
        self._refuse(f"{verb} out of bounds: `{name}`, {where}, {int(bad.sum())} of {active.size} active lanes")

    def _argument_name(self, space: _Space) -> str:
        """The kernel parameter whose value is this space's base."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_name == self._kernel and frame.f_code.co_filename == self.filename:
                for name in frame.f_code.co_varnames[: frame.f_code.co_argcount]:
                    handle = getattr(frame.f_locals.get(name), "handle", None)
                    data = getattr(handle, "data", None)
                    if isinstance(data, np.ndarray) and data.size == 1 and int(data.flat[0]) == space.base:
                        return str(name)
            frame = frame.f_back
        return space.name

    def _refuse(self, what: str) -> None:
        line = candidate_line(self.filename)
        message = f"kernel `{self._kernel}`, line {line}: {what}"
        self.violations.append(message)
        raise OutOfBounds(message)

    # --- arithmetic and choices --------------------------------------------------------------------------

    def _autotuned(self) -> Callable[..., Any]:
        """Without a GPU there is nothing to time: use another of the configurations in every case."""
        witness = self

        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            self.nargs = dict(zip(self.arg_names, args, strict=False))
            configs = self.prune_configs(kwargs) if len(self.configs) > 1 else self.configs
            config = self.best_config = configs[witness.config_index % len(configs)]
            if config.pre_hook is not None:
                config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
            result = self.fn.run(*args, **{**kwargs, **config.all_kwargs()})
            self.nargs = None
            return result

        return run
