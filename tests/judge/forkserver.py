"""Runs functions of test files in forked children, with Triton's interpreter on: the judge's patches are for good.

One JSON line in, one out: {"file", "name", "args"} -> {"result"} or {"failed": traceback}.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback

import torch
import triton


def call(request: dict[str, object]) -> dict[str, object]:
    path = str(request["file"])
    spec = importlib.util.spec_from_file_location("candidate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["candidate"] = module
    spec.loader.exec_module(module)
    try:
        return {"result": getattr(module, str(request["name"]))(*request["args"])}
    except BaseException:  # noqa: BLE001 - whatever a test's function raises is the test's failure
        return {"failed": traceback.format_exc()}


def main() -> None:
    assert triton.knobs.runtime.interpret
    torch.set_num_threads(1)
    for line in sys.stdin:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            os.dup2(2, 1)
            with os.fdopen(write, "w") as answer:
                json.dump(call(json.loads(line)), answer)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as answer:
            text = answer.read()
        _, status = os.waitpid(child, 0)
        print(text or json.dumps({"failed": f"the child ended with status {status}"}), flush=True)


if __name__ == "__main__":
    main()
