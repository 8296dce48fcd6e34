"""The child process of `opinfo.py`: walks `op_db` and writes one JSON line per sample that can be written as text.

Tensors are redrawn by shape, type and range, never copied: a task's inputs must be random. What cannot be written
(callables, sparse tensors, generators, views with odd strides) is left out.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import sys
import unittest
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch

# Random, structural, or returning nothing a kernel could compute.
_SKIPPED = re.compile(
    r"^(_|empty|new_|zeros|ones|full|rand|normal|bernoulli|multinomial|uniform|exponential|geometric|log_normal|cauchy|"
    r"linalg\.(?!vector_norm|vecdot|cross|multi_dot|diagonal)|fft\.|sparse|jiterator|masked\.|nn\.functional\.(.*dropout|fractional|ctc|rrelu|gumbel|scaled_dot)|"
    r"item|equal|is_|allclose|resize|as_strided|set_|cov|corrcoef|svd|qr|lu|geqrf|ormqr|cholesky|eig|symeig|pca|stft|istft|"
    r"to_sparse|nonzero|unique|argwhere|histogram|tensor_split|to$|cauchy|torch\.ops|ops\.|arange|linspace|logspace|eye|scalar_tensor|complex|polar|view_as|real|imag|conj|angle)"
)
_MOST_ELEMENTS = 1 << 16
_KINDS = frozenset(
    (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
)


class Unwritable(Exception):
    """This sample has no faithful text."""


def main() -> None:
    request = json.loads(sys.stdin.read())
    torch.manual_seed(int(request["seed"]))
    _stand_in_for_expecttest()
    from torch.testing._internal.common_methods_invocations import op_db

    print(json.dumps({"torch": torch.__version__}))
    seen: set[str] = set()
    for operator in op_db:
        name = operator.name + (f".{operator.variant_test_name}" if operator.variant_test_name else "")
        if (request["only"] and operator.name not in request["only"]) or _SKIPPED.match(operator.name):
            continue
        for dtype in request["dtypes"]:
            for line in _samples(operator, name, getattr(torch, dtype), int(request["per_operator"]), seen):
                print(json.dumps(line))


def _stand_in_for_expecttest() -> None:
    """torch.testing derives a test class from this package's; the database itself does not need it."""
    if importlib.util.find_spec("expecttest") is None:
        module = ModuleType("expecttest")
        module.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = module


def _samples(operator: Any, name: str, dtype: torch.dtype, most: int, seen: set[str]) -> Iterator[dict[str, Any]]:
    """Different samples, largest inputs first: the tiny ones test corners that no kernel is about."""
    supported = operator.supported_dtypes("cpu")
    if dtype not in supported:
        dtype = torch.int64  # bit operations
    if dtype not in supported:
        return
    try:
        drawn = list(operator.sample_inputs("cpu", dtype, requires_grad=False))
    except Exception as error:  # noqa: BLE001 - PyTorch's test code: an operator without this type raises anything
        print(f"{name}: {type(error).__name__}", file=sys.stderr)
        return
    order = sorted(range(len(drawn)), key=lambda place: -_elements(drawn[place]))
    written = 0
    for place in order:
        if written >= most:
            return
        try:
            source = text_of(operator, drawn[place])
        except Unwritable:
            continue
        key = hashlib.sha256(source.encode()).hexdigest()[:12]
        if key in seen:
            continue
        seen.add(key)
        written += 1
        yield {"operator": name, "sample": place, "id": f"{name.replace('.', '-')}-{key}", "source": source}


def _elements(sample: Any) -> int:
    return sum(leaf.numel() for leaf in _leaves((sample.input, sample.args)) if isinstance(leaf, torch.Tensor))


def _leaves(obj: Any) -> list[Any]:
    if isinstance(obj, list | tuple):
        return [leaf for item in obj for leaf in _leaves(item)]
    return [obj]


def text_of(operator: Any, sample: Any) -> str:
    """A task text that calls the operator as the sample does, on inputs drawn anew."""
    called = _called(operator)
    inputs: list[str] = []
    arguments = [_written(value, inputs) for value in (sample.input, *sample.args)]
    arguments += [f"{key}={_written(value, inputs)}" for key, value in sample.kwargs.items()]
    if not inputs:
        raise Unwritable
    names = ", ".join(f"x{number}" for number in range(len(inputs)))
    body = f"{called}({', '.join(arguments)})"
    makers = "".join(f"        {line},\n" for line in inputs)
    return (
        f"import torch\nimport torch.nn.functional as F\n\n\ndef op_task({names}):\n    return {body}\n\n\n"
        f"def get_inputs():\n    return [\n{makers}    ]\n"
    )


def _called(operator: Any) -> str:
    """The public name of the operator."""
    name = str(operator.name)
    if name.startswith("nn.functional."):
        candidate = name.removeprefix("nn.functional.")
        if hasattr(torch.nn.functional, candidate):
            return f"F.{candidate}"
        raise Unwritable
    found: Any = torch
    for part in name.split("."):
        found = getattr(found, part, None)
    if callable(found):
        return f"torch.{name}"
    if callable(getattr(torch.Tensor, name, None)) and not name.startswith("__"):
        return f"torch.Tensor.{name}"
    raise Unwritable


def _written(value: Any, inputs: list[str]) -> str:
    """The text of one argument; tensors become inputs."""
    if isinstance(value, torch.Tensor):
        inputs.append(_drawn(value))
        return f"x{len(inputs) - 1}"
    if isinstance(value, torch.dtype):
        return str(value)
    if value is None or isinstance(value, bool | int | str):
        return repr(value)
    if isinstance(value, float):
        return f"float('{value}')" if value != value or value in (float("inf"), float("-inf")) else repr(value)
    if isinstance(value, torch.Size | tuple | list):
        inner = ", ".join(_written(item, inputs) for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    if isinstance(value, slice):
        return f"slice({value.start!r}, {value.stop!r}, {value.step!r})"
    raise Unwritable


def _drawn(tensor: torch.Tensor) -> str:
    if (
        tensor.layout is not torch.strided
        or tensor.is_quantized
        or tensor.is_complex()
        or tensor.numel() > _MOST_ELEMENTS
    ):
        raise Unwritable
    if tensor.numel() == 0 or tensor.dtype not in _KINDS:
        raise Unwritable
    shape = tuple(tensor.shape)
    if tensor.dtype is torch.bool:
        return f"torch.rand({shape}) > 0.5"
    if not tensor.dtype.is_floating_point:
        low, high = int(tensor.min()), int(tensor.max())
        return f"torch.randint({low}, {high + 1}, {shape}, dtype={tensor.dtype})"
    return _floats(tensor, shape)


def _floats(tensor: torch.Tensor, shape: tuple[int, ...]) -> str:
    """Drawn from the range the sample has: operators with a domain keep it."""
    kind = "" if tensor.dtype is torch.float32 else f", dtype={tensor.dtype}"
    low, high = float(tensor.min()), float(tensor.max())
    if not (abs(low) < 1e4 and abs(high) < 1e4):
        raise Unwritable
    if low < -0.05:
        return f"torch.randn({shape}{kind})" if max(-low, high) > 2 else f"torch.rand({shape}{kind}) * 2 - 1"
    if high <= 1.0:
        return f"torch.rand({shape}{kind}) * 0.98 + 0.01"
    return f"torch.rand({shape}{kind}) * {max(high, 1.0):.3g} + 0.01"


if __name__ == "__main__":
    main()
