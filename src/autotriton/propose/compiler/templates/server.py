"""The templates engine for many tasks in one process: one JSON line in per task, one line out. Torch is imported once.

`python -m autotriton.propose.compiler.templates.server`. Tasks run in this process one after another, so the parent
ends it when one hangs, and now and then anyway: what tasks leave behind stays bounded.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import warnings

from autotriton.propose.compiler.templates.engine import answered


def main() -> None:
    # Tasks print; what reaches the parent must be ours alone.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    import torch

    torch.set_num_threads(1)
    for number, line in enumerate(sys.stdin):
        out.write(json.dumps(answered(json.loads(line))) + "\n")
        out.flush()
        _tidy()
        if number == 0:
            gc.freeze()  # torch is loaded whole by now: looking through it after every task took longer than the tasks


def _tidy() -> None:
    """A task may have changed what the next one finds."""
    import torch

    torch._dynamo.reset()
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    gc.collect()


if __name__ == "__main__":
    main()
