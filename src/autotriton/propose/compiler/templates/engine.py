"""Entry of the capturing child process for the templates: `python -m ...engine REQUEST ANSWER`, both JSON."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

from autotriton.propose.compiler.inductor.capture import reason
from autotriton.propose.compiler.inductor.program import refuse_random
from autotriton.propose.compiler.inductor.record import Request
from autotriton.propose.compiler.templates.export import export
from autotriton.propose.compiler.templates.expressions import Inexpressible
from autotriton.propose.compiler.templates.file import Emitted, emit
from autotriton.propose.compiler.templates.sizes import Unreadable


def main(request_path: str, answer_path: str) -> None:
    warnings.filterwarnings("ignore")
    text = json.loads(Path(request_path).read_text(encoding="utf-8"))
    title = text.pop("title")
    request = Request.model_validate(text)
    try:
        found = emitted(request, title)
        answer = {"code": found.code, "choices": found.choices}
    except Inexpressible as error:
        answer = {"error": f"{error} is not supported by the templates"}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the task's code may raise anything
        answer = {"error": reason(error)}
    Path(answer_path).write_text(json.dumps(answer), encoding="utf-8")


def emitted(request: Request, title: str) -> Emitted:
    """With symbolic leading dimensions if every kernel can read its sizes off its tensors, else for the example's."""
    try:
        exported = export(request)
        refuse_random(exported.graph)
        return emit(exported, request.source, request.entry, title, request.tf32)
    except Unreadable:
        return emit(export(request, symbolic=False), request.source, request.entry, title, request.tf32)


if __name__ == "__main__":
    main(*sys.argv[1:])
