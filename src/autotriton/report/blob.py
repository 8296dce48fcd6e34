"""Everything the page shows on demand: each text once, as compressed JSON that a browser unpacks by itself.

Must stay true: what candidates wrote reaches the page only as base64, so no text can close a tag or start a script.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from typing import Any

from autotriton.bench.tally import Row
from autotriton.report.numbers import finite
from autotriton.types import Attempt

MOST_CHARS = 40_000
"""Of one text; what is longer is cut, and the page says so."""
MOST_BYTES = 6_000_000
"""Of the blob; beyond it only the best sample of each task keeps its code."""
_LEFT_OUT = {"machine", "judge_version", "policy", "stage_seconds"}


def blob(runs: Sequence[Sequence[Row]]) -> str:
    """Base64 of gzip of the JSON that the page's script reads."""
    packed = _pack(runs, everything=True)
    return packed if len(packed) <= MOST_BYTES else _pack(runs, everything=False)


def _pack(runs: Sequence[Sequence[Row]], *, everything: bool) -> str:
    texts: dict[str, int] = {}
    data = {"runs": [[_task(row, texts, everything) for row in rows] for rows in runs], "texts": list(texts)}
    plain = json.dumps(finite(data), allow_nan=False, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(plain, 9, mtime=0)).decode()


def _task(row: Row, texts: dict[str, int], everything: bool) -> dict[str, Any]:
    best = row.best
    kept = [_attempt(attempt, texts, everything or attempt is best) for attempt in row.attempts]
    about: dict[str, Any] = {"reference": _text(row.task.source, texts), "attempts": kept}
    if best is not None:
        about["best"] = row.attempts.index(best)
    return about


def _attempt(attempt: Attempt, texts: dict[str, int], with_code: bool) -> dict[str, Any]:
    about: dict[str, Any] = {"sample": attempt.sample, "candidate": attempt.candidate.id}
    if with_code:
        about["code"] = _text(attempt.candidate.code, texts)
    if attempt.error is not None:
        about["error"] = attempt.error[:MOST_CHARS]
    if attempt.official is not None:
        about["official"] = attempt.official.model_dump(mode="json")
    if attempt.verdict is not None:
        about["verdict"] = _short(attempt.verdict.model_dump(mode="json", exclude=_LEFT_OUT, exclude_defaults=True))
    return about


def _short(value: Any) -> Any:
    """The same value with long texts cut: a candidate may raise an exception of many megabytes."""
    if isinstance(value, str):
        return value if len(value) <= 2000 else f"{value[:2000]} … ({len(value)} characters)"
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    return [_short(item) for item in value] if isinstance(value, list) else value


def _text(text: str, texts: dict[str, int]) -> int:
    cut = text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}\n# … cut here: {len(text)} characters in all\n"
    return texts.setdefault(cut, len(texts))
