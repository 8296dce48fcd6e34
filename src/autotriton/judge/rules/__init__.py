"""The judge's first tier: read a candidate's source and name what it may not do. Nothing is executed or imported.

What must stay true: `scan` never raises, whatever the text, and an error finding means no candidate code may run. The
later tiers trust that instrumentation inside the candidate's process has not been tampered with.

Covers: imports, dynamic code, reflection, private and internal names, monkeypatching, tensor subclasses, callbacks,
streams, async, and that a Triton kernel is reachable from the entry. Modules and sensitive classes can only be written
as dotted names, so aliases cannot hide them.
Does not cover: computing with public torch functions, wrong answers, memoised answers, hangs. Later tiers do.

The loader must never run a candidate under the name `__main__`: findings inside `if __name__ == "__main__":` are only
warnings.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from autotriton.judge.rules import attributes, classes, imports, kernels, names, stores, values
from autotriton.judge.rules.facts import Facts
from autotriton.judge.rules.source import Source, TooComplex
from autotriton.syntax import parse_source
from autotriton.types import Finding, Policy, Severity

__all__ = ["has_code", "scan"]

MAX_CHARS = 1_000_000
_MAX_FINDINGS = 50
_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")


def scan(code: str, policy: Policy, entry: str | tuple[str, ...] = "ModelNew") -> list[Finding]:
    """Everything the rules see in the source, by line; any error means the candidate is rejected.

    Of several entries each must be defined, and one of them must reach a kernel.
    """
    if (unreadable := _unreadable(code)) is not None:
        return [unreadable]
    try:
        tree = _parse(code)
        source = Source(tree, policy, (entry,) if isinstance(entry, str) else entry)
        found = [_demoted(finding, _main_lines(tree)) for finding in _run(source)]
    except SyntaxError as problem:
        return [_syntax(f"the file does not parse: {problem.msg}", problem.lineno)]
    except (RecursionError, MemoryError, TooComplex):
        return [_syntax("the file is nested too deeply or too long to be followed; write simpler code")]
    except ValueError as problem:  # lone surrogates, over-long integers
        return [_syntax(f"the file does not parse: {problem}")]
    return sorted(dict.fromkeys(found), key=lambda f: (f.severity is not Severity.ERROR, f.line or 0, f.rule))[
        :_MAX_FINDINGS
    ]


def has_code(code: str) -> bool:
    """Whether there is anything besides blanks, comments and a lone docstring."""
    try:
        return any(not _is_text(statement) for statement in _parse(code).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return any(line.strip() and not line.strip().startswith("#") for line in code.splitlines())


def _run(source: Source) -> Iterator[Finding]:
    facts = Facts(source)
    yield from imports.check(source)
    yield from names.check(source)
    yield from values.check(source)
    yield from attributes.check(source, facts)
    yield from stores.check(source, facts)
    yield from classes.check(source)
    yield from kernels.check(source, facts)


def _unreadable(code: str) -> Finding | None:
    if len(code) > MAX_CHARS:
        return _syntax(f"the file has {len(code)} characters; at most {MAX_CHARS} are read")
    if (odd := _CONTROL.search(code)) is not None:
        line = code.count("\n", 0, odd.start()) + 1
        return _syntax(f"the file contains the control character {odd.group()!r}; write plain text", line)
    for number, line_text in enumerate(re.split(r"\r\n|\r|\n", code, maxsplit=2)[:2], start=1):
        cookie = _COOKIE.match(line_text)
        if cookie and cookie.group(1).lower().replace("_", "-") not in {"utf-8", "utf8", "ascii", "us-ascii"}:
            # With another encoding, the interpreter would read other code than this scan did.
            return _syntax(f"the file declares the encoding `{cookie.group(1)}`; only utf-8 is read", number)
    return None


def _parse(code: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return parse_source(code)


def _syntax(message: str, line: int | None = None) -> Finding:
    return Finding(rule="syntax", severity=Severity.ERROR, message=message, line=line)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _main_lines(tree: ast.Module) -> list[range]:
    """Lines of top-level `if __name__ == "__main__":` bodies, which never run when the candidate is loaded."""
    return [
        range(statement.body[0].lineno, (statement.body[-1].end_lineno or 0) + 1)
        for statement in tree.body
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'"
    ]


def _demoted(finding: Finding, main: list[range]) -> Finding:
    if finding.line is not None and any(finding.line in lines for lines in main):
        return finding.model_copy(update={"severity": Severity.WARNING})
    return finding
