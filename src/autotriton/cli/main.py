"""The `autotriton` command: verbs, and how an error becomes one line and an exit code.

Must stay true: no torch here or in a verb's module level, so that `--help` answers at once. Other programs rely on the
exit codes: 0 accepted, 1 rejected, 2 usage, 3 prerequisite missing or the judge broke, 4 task not admissible, 130
interrupted.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from autotriton import __version__
from autotriton.cli import bench, data, doctor, judge, model, optimize, report, train
from autotriton.errors import AutoTritonError
from autotriton.report.text import visible

USAGE, INTERNAL, INTERRUPTED = 2, 3, 130

app = typer.Typer(
    name="autotriton",
    help="Turns PyTorch programs into verified Triton programs.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(name="judge")(judge.judge)
app.command(name="optimize")(optimize.optimize)
app.command(name="bench", cls=bench.SuiteOrCompare)(bench.bench)
app.command(name="report")(report.report)
app.add_typer(data.app, name="data")
app.add_typer(train.app, name="train")
app.add_typer(model.app, name="model")
app.command(name="doctor")(doctor.doctor)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"autotriton {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Turns PyTorch programs into verified Triton programs."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb and returns its exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in args
    try:
        code = int(app(args=args or ["--help"], prog_name="autotriton", standalone_mode=False) or 0)
    except AutoTritonError as error:
        return _fail(str(error.args[0]), error.hint, error.exit_code, as_json)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", None, INTERRUPTED, as_json)
    except Exception as error:  # noqa: BLE001 - the top of the program: whatever it is, it becomes one line
        message = getattr(error, "format_message", None)
        if message is not None:  # how typer, and click below it, report a wrong call
            return _fail(str(message()).replace("Value error, ", ""), "see --help", USAGE, as_json)
        return _internal(error, as_json)
    # Some versions of typer turn the interrupt into this exit code themselves, without a word.
    return _fail("interrupted", None, code, as_json) if code == INTERRUPTED else code


def _internal(error: Exception, as_json: bool) -> int:
    hint = "run with AUTOTRITON_DEBUG=1 for the traceback"
    if os.environ.get("AUTOTRITON_DEBUG", "0") not in ("", "0"):
        traceback.print_exception(error)
        hint = "please report it with the traceback above"
    return _fail(f"internal error: {type(error).__name__}: {error}", hint, INTERNAL, as_json)


def _fail(message: str, hint: str | None, code: int, as_json: bool) -> int:
    message = visible(" ".join(message.split()))
    prefix = "" if message.startswith("internal error:") else "error: "
    print(prefix + message + (f" ({hint})" if hint else ""), file=sys.stderr)
    if as_json:
        print(json.dumps({"error": message, "hint": hint, "exit_code": code}))
    return code
