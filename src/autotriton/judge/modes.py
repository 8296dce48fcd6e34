"""The base of the judge's dispatch modes: they watch single operators and never meet a compiler."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class EagerMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode that keeps torch._dynamo out of the process."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else the first op imports all of torch._dynamo, two seconds
