"""Entry of the capturing child process for the templates: `python -m ...engine REQUEST ANSWER`, both JSON."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

from autotriton.propose.compiler.inductor.capture import reason
from autotriton.propose.compiler.inductor.record import Request
from autotriton.propose.compiler.templates.export import export
from autotriton.propose.compiler.templates.expressions import Inexpressible
from autotriton.propose.compiler.templates.file import emit


def main(request_path: str, answer_path: str) -> None:
    warnings.filterwarnings("ignore")
    text = json.loads(Path(request_path).read_text(encoding="utf-8"))
    title = text.pop("title")
    request = Request.model_validate(text)
    try:
        emitted = emit(export(request), request.source, request.entry, title, request.tf32)
        answer = {"code": emitted.code, "choices": emitted.choices}
    except Inexpressible as error:
        answer = {"error": f"{error} is not supported by the templates"}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the task's code may raise anything
        answer = {"error": reason(error)}
    Path(answer_path).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
