"""What a language model is asked: templates (files in `prompts/`, or the user's own) filled in for a task.

Must stay true: a template with an unknown placeholder, or without one it needs, is an error and not a worse prompt.
What goes back to the model about an attempt is the verdict's words, in which no value of the reference appears.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template

from autotriton.errors import UsageError
from autotriton.propose.extract import parses
from autotriton.propose.signatures import is_script, needed
from autotriton.syntax import parse_source
from autotriton.types import Attempt, Mode, Severity, Task, Verdict

AVAILABLE = """program_id num_programs arange load store zeros full where maximum minimum abs exp exp2 log log2 sqrt
rsqrt sin cos erf sigmoid floor ceil clamp fma sum max min argmax argmin cumsum cumprod sort dot trans reshape
broadcast_to expand_dims cdiv static_range atomic_add"""
INVENTED = "relu gelu tanh norm mean var std pow matmul mm linear conv2d size shape float inf any all round"
"""Names of `triton.language` that models like to make up; tests hold both lists against Triton itself."""
PROMPT_FILE = "prompt.md"
"""Beside a trained model's weights: how it is used to being asked, a template like `rewrite.md`."""
SCRIPT_FILE = "prompt-script.md"
"""The same for functions that are described in words, a template like `script.md`."""
TRAINED_ON = {PROMPT_FILE: "brief.md", SCRIPT_FILE: "brief-script.md"}
"""One of the wordings training rows are asked in; the others say the same."""
_COMMON = frozenset(("task", "wanted", "knowledge", "rules", "example"))
_SCRIPT = _COMMON | {"instruction", "exactly"}
_MOST_FEEDBACK = 4000
"""Characters. Compilers can fill pages; the cause is at the start."""
_MOST_FINDINGS = 8


@dataclass(frozen=True)
class Wanted:
    """What the answer has to define."""

    name: str
    is_function: bool
    accepted: tuple[str, ...]
    """Names the judge takes, `name` first."""


class Prompts:
    """The templates of a proposer, read and checked once. Script tasks have a first question of their own."""

    def __init__(self, rewrite: Path | None = None, refine: Path | None = None, script: Path | None = None) -> None:
        self._rewrite = _template(rewrite, "rewrite.md", required={"task"}, allowed=_COMMON)
        attempt = {"task", "code", "feedback"}
        self._refine = _template(refine, "refine.md", required=attempt, allowed=_COMMON | attempt)
        shipped = script is None
        asked = {"instruction", "wanted"} if shipped else {"instruction"}
        self._script = _template(script, "script.md", required=asked, allowed=_SCRIPT)

    def rewrite(self, task: Task) -> str:
        """The first question about a task."""
        if is_script(task):
            return self._script.substitute(
                _values(task), instruction=(task.instruction or "").strip(), exactly=_exactly(task)
            )
        return self._rewrite.substitute(_values(task))

    def refine(self, task: Task, attempt: Attempt) -> str:
        """The question after an attempt that was not accepted."""
        code = attempt.candidate.code
        shown = fenced(code) if code.strip() else "(your answer held no code)"
        verdict = feedback(attempt.verdict, code) if attempt.verdict is not None else "(it could not be judged)"
        return self._refine.substitute(_values(task), code=shown, feedback=verdict)


def wanted(task: Task) -> Wanted:
    """The name and kind the replacement has to have."""
    entry = task.entry
    if is_script(task):
        names = tuple(item.name for item in needed(task))
        return Wanted(names[0] if names else entry, True, names or (entry,))
    if entry == "Model":
        return Wanted("ModelNew", False, ("ModelNew",))
    names = ("ModelNew", f"{entry}New", f"{entry}_new", entry)
    defined = parse_source(task.source).body if parses(task.source) else []
    is_function = any(isinstance(node, ast.FunctionDef) and node.name == entry for node in defined)
    name = f"{entry}_new" if is_function else "ModelNew"
    return Wanted(name, is_function, (name, *(other for other in names if other != name)))


def feedback(verdict: Verdict, code: str) -> str:
    """The verdict in words for the model: what failed, where, and what to write instead."""
    lines = [f"Outcome: {verdict.outcome.value}.", _quoting(verdict.message, code)]
    errors = [finding for finding in verdict.findings if finding.severity is Severity.ERROR]
    for finding in errors[:_MOST_FINDINGS]:
        where = f"line {finding.line}: " if finding.line is not None else ""
        if f"{where}{finding.message}" not in verdict.message:
            lines.append("- " + _quoting(f"{where}{finding.message}", code))
    passed = [check.inputs for check in verdict.checks if check.passed]
    for check in verdict.checks:
        if not check.passed and check.max_error is not None and check.allowed_error is not None:
            sizes = f"largest error {check.max_error:.3g}, at most {check.allowed_error:.3g} is accepted"
            lines.append(f"- case {check.inputs}: {sizes}")
    if passed:
        lines.append(f"- cases that passed: {', '.join(passed)}")
    return _shortened("\n".join(lines))


def fenced(code: str) -> str:
    """The code as a Markdown block; the fence is longer than any inside it."""
    longest = max((len(run) for run in re.findall(r"`{3,}", code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}python\n{code.strip()}\n{fence}"


def shipped_prompt(name: str) -> str:
    """A template of this package."""
    return (resources.files("autotriton.propose") / "prompts" / name).read_text(encoding="utf-8").strip()


def _values(task: Task) -> dict[str, str]:
    lists = {"available": _names(AVAILABLE), "invented": _names(INVENTED)}
    return {
        # A script task's source is the answer; what is asked for is its instruction.
        "task": (task.instruction or "") if is_script(task) else fenced(task.source),
        "wanted": _request(task),
        "knowledge": Template(shipped_prompt("knowledge.md")).substitute(lists),
        "rules": Template(shipped_prompt("rules.md")).substitute(precision=_precision(task)),
        "example": shipped_prompt("example.md"),
    }


def _request(task: Task) -> str:
    if is_script(task):
        return fenced("\n\n".join(item.text for item in needed(task)))
    want = wanted(task)
    if want.is_function:
        text = f"Write a function `{want.name}` that takes the arguments of `{task.entry}` and returns what it returns."
    else:
        text = f"Write a class `{want.name}`, an `nn.Module` that is constructed and called like `{task.entry}`."
        text += f" It is judged in {'training' if task.mode is Mode.TRAIN else 'evaluation'} mode."
    return f"{text}\n\n{task.instruction}" if task.instruction else text


def _exactly(task: Task) -> str:
    """The names and signatures a script task needs, as training rows say them."""
    items = needed(task)
    if any("\n" in item.text or not item.text.startswith("def ") for item in items):
        return f"Define exactly these names, with these parameters:\n\n{_request(task)}\n\n"
    said = (f"Define `{item.name}` with exactly this signature: `{item.text.removesuffix(': ...')}`." for item in items)
    return " ".join(said)


def _precision(task: Task) -> str:
    if task.tf32:
        return "TF32 is permitted in matrix products; everything else is computed in fp32."
    return (
        "an fp32 task needs fp32 accuracy (no TF32, no 16-bit shortcuts), a 16-bit task needs fp32 accumulators. "
        "Variances come from centred values, exponentials from values with the maximum subtracted."
    )


def _quoting(text: str, code: str) -> str:
    """`line 18: ...` with the line it speaks of: the model sees its code without numbers."""
    place = re.match(r"line (\d+): ", text)
    lines = code.split("\n")
    if place is None or not 0 < int(place[1]) <= len(lines):
        return text
    return f"line {place[1]} (`{lines[int(place[1]) - 1].strip()}`): {text[place.end() :]}"


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_FEEDBACK else text[:_MOST_FEEDBACK] + " [...]"


def _names(names: str) -> str:
    return ", ".join(f"`tl.{name}`" for name in names.split())


def _template(path: Path | None, shipped: str, *, required: set[str], allowed: frozenset[str]) -> Template:
    where = f"the prompt template {path or shipped}"
    try:
        template = Template(
            path.expanduser().read_text(encoding="utf-8") if path is not None else shipped_prompt(shipped)
        )
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"{where} cannot be read: {reason}", hint="check the path") from None
    known = ", ".join(f"${name}" for name in sorted(allowed))
    if not template.is_valid():
        raise UsageError(
            f"{where} has a `$` that starts no placeholder", hint=f"write `$$` for a dollar; known: {known}"
        )
    found = set(template.get_identifiers())
    if unknown := sorted(found - allowed):
        raise UsageError(f"{where} has the unknown placeholder ${unknown[0]}", hint=f"known: {known}")
    if missing := sorted(required - found):
        raise UsageError(f"{where} lacks the placeholder ${missing[0]}", hint="without it the model cannot answer")
    return template
