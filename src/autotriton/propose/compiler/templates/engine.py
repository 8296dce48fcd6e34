"""Entry of the capturing child process for the templates: `python -m ...engine REQUEST ANSWER`, both JSON."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

from autotriton.propose.compiler.inductor.capture import reason
from autotriton.propose.compiler.inductor.program import Unsupported, refuse_random
from autotriton.propose.compiler.inductor.record import Request
from autotriton.propose.compiler.templates.export import Exported, export
from autotriton.propose.compiler.templates.expressions import Inexpressible
from autotriton.propose.compiler.templates.file import Emitted, emit, written
from autotriton.propose.compiler.templates.options import DEFAULT, VARIANTS, WAYS, Options
from autotriton.propose.compiler.templates.sizes import Unreadable


def main(request_path: str, answer_path: str) -> None:
    warnings.filterwarnings("ignore")
    question = json.loads(Path(request_path).read_text(encoding="utf-8"))
    Path(answer_path).write_text(json.dumps(answered(question)), encoding="utf-8")


def answered(question: dict[str, Any]) -> dict[str, Any]:
    """Code and choices of one `way` (the engine's own), or with `more` those of the others by name; or an error."""
    title, more = question.pop("title"), question.pop("more", "no") == "yes"
    options = WAYS[question.pop("way", DEFAULT.name)]
    try:
        request = Request.model_validate(question)
        if more:
            return {name: _told(found) for name, found in alternatives(request, title).items()}
        return _told(emitted(request, title, options))
    except Inexpressible as error:
        return {"error": f"{error} is not supported by the templates"}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the task's code may raise anything
        return {"error": reason(error)}


def emitted(request: Request, title: str, options: Options = DEFAULT) -> Emitted:
    return _first(request, title, options)[1]


def alternatives(request: Request, title: str) -> dict[str, Emitted]:
    """The other ways to write the task, by the variant's name: those whose text differs from the ones before."""
    exported, first = _first(request, title)
    seen, found = {first.code}, {}
    for options in VARIANTS:
        try:
            other = written(exported, request.source, request.entry, title, request.tf32, options)
        except (Inexpressible, Unsupported, Unreadable):  # what the first choice avoids
            continue
        if other.code not in seen:
            seen.add(other.code)
            found[options.name] = other
    return found


def _first(request: Request, title: str, options: Options = DEFAULT) -> tuple[Exported, Emitted]:
    """With symbolic leading dimensions if every kernel can read its sizes off its tensors, else for the example's."""
    try:
        exported = export(request)
        refuse_random(exported.graph)
        return exported, emit(exported, request.source, request.entry, title, request.tf32, options)
    except Unreadable:
        exported = export(request, symbolic=False)
        return exported, emit(exported, request.source, request.entry, title, request.tf32, options)


def _told(found: Emitted) -> dict[str, Any]:
    return {"code": found.code, "choices": found.choices}


if __name__ == "__main__":
    main(*sys.argv[1:])
