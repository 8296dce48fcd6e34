"""The table behind `kernelbench_speed.py`: from lines of results to counts, geometric means and lists. Pure, no torch.

A problem without a correct kernel counts as run eagerly: compiled time over eager time against torch.compile, and 1
against eager. Problems whose own reference is random cannot be judged; they are named and left out of every count.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = dict[str, Any]
CORRECT, FAILED, EXCLUDED, ERROR = "correct", "failed", "excluded", "error"
"""What became of a problem; `error`: the judge or the machine broke, and it is tried again."""
BASELINES = ("compile", "eager")
_FAMILIES: tuple[tuple[str, str], ...] = (
    ("recurrent", r"LSTM|GRU|RNN|LSTMCell|GRUCell|RNNCell|h2o|i2h"),
    ("attention", r"scaled_dot_product_attention|MultiheadAttention|\w*Attention\w*|\w*Transformer\w*"),
    ("transposed convolution", r"ConvTranspose\dd|conv_transpose\dd"),
    ("convolution", r"Conv\dd|conv\dd"),
    ("matmul", r"matmul|mm|bmm|einsum|Linear|linear|addmm|baddbmm|@"),
    ("norm", r"\w*Norm\w*|\w*_norm|norm"),
    ("pooling", r"\w*Pool\dd|\w*_pool\dd"),
    ("scan", r"cumsum|cumprod|logcumsumexp|cummax|cummin"),
    ("loss", r"\w*Loss|cross_entropy|mse_loss|kl_div|smooth_l1_loss|huber_loss|cosine_similarity"),
    ("softmax", r"(log_)?softmax|(Log)?Softmax"),
    ("arg-reduction", r"argmax|argmin|topk|sort"),
    ("reduction", r"sum|mean|max|min|prod|amax|amin|var|std|logsumexp"),
)
_REASON_WIDTH = 200


def family(name: str, source: str) -> str:
    """The kind of operation a problem is about: the first of the list that its name or its code mentions."""
    words = {re.sub(r"^\d+_|_+$", "", name), *_words(source)}
    for kind, pattern in _FAMILIES:
        if any(re.fullmatch(pattern, word) for word in words):
            return kind
    return "pointwise"


def _words(source: str) -> set[str]:
    """Names the code uses; comments and strings do not count."""
    words: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            words.add(node.attr)
        elif isinstance(node, ast.Name):
            words.add(node.id)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            words.add("@")
    return words


def load(path: Path) -> list[Row]:
    """The last line of every problem and engine; lines that are torn or something else are left out."""
    rows: dict[tuple[str, int, str], Row] = {}
    if not path.exists():
        return []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
            rows[str(row["engine"]), int(row["level"]), str(row["name"])] = row
        except (ValueError, KeyError, TypeError):
            continue
    return list(rows.values())


def pending(
    problems: Iterable[tuple[int, str]], rows: Iterable[Row], engine: str, *, retry_failed: bool
) -> list[tuple[int, str]]:
    """Problems that still have to be done: a verdict counts, a judge that broke does not."""
    settled = {CORRECT, EXCLUDED} | (set() if retry_failed else {FAILED})
    done = {(row["level"], row["name"]) for row in rows if row["engine"] == engine and row["status"] in settled}
    return [problem for problem in problems if problem not in done]


def ratio(row: Row, baseline: str) -> float | None:
    """Baseline's time over ours; None where the baseline was not measured or the problem does not count."""
    if row["status"] == EXCLUDED:
        return None
    if row["status"] == CORRECT:
        found = (row.get("speedups") or {}).get(baseline)
        return float(found["ratio"]) if found else None
    times = row.get("baselines_ms") or {}
    if "eager" not in times or baseline not in times:
        return None
    return float(times[baseline]) / float(times["eager"])


def faster(row: Row, baseline: str) -> bool:
    """The interval's lower end is above one."""
    found = (row.get("speedups") or {}).get(baseline)
    return row["status"] == CORRECT and found is not None and float(found["low"]) > 1.0


def geometric_mean(values: Sequence[float]) -> float | None:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


@dataclass(frozen=True)
class Summary:
    """Some problems together."""

    count: int
    correct: int
    excluded: tuple[str, ...]
    means: Mapping[str, float | None]
    """Geometric mean by baseline, over those with a measured baseline."""
    counted: Mapping[str, int]
    faster: Mapping[str, int]

    @staticmethod
    def of(rows: Sequence[Row]) -> Summary:
        ratios = {name: [r for row in rows if (r := ratio(row, name)) is not None] for name in BASELINES}
        excluded = tuple(row["name"] for row in rows if row["status"] == EXCLUDED)
        return Summary(
            count=len(rows) - len(excluded),
            correct=sum(row["status"] == CORRECT for row in rows),
            excluded=excluded,
            means={name: geometric_mean(values) for name, values in ratios.items()},
            counted={name: len(values) for name, values in ratios.items()},
            faster={name: sum(faster(row, name) for row in rows) for name in BASELINES},
        )


def report(rows: Sequence[Row]) -> str:
    """Everything a reader of the results wants to know, as Markdown."""
    if not rows:
        return "no results"
    parts = [part for engine in sorted({row["engine"] for row in rows}) for part in _engine(engine, rows)]
    return "\n".join(parts)


def _engine(engine: str, rows: Sequence[Row]) -> list[str]:
    own = [row for row in rows if row["engine"] == engine]
    levels = sorted({row["level"] for row in own})
    by_level = {level: sorted((r for r in own if r["level"] == level), key=_number) for level in levels}
    lines = [f"# engine {engine}", "", *_levels(by_level), ""]
    for level, found in by_level.items():
        lines += [f"## Level {level}, by family", "", *_families(found), ""]
    return [*lines, *_lists(own)]


def _levels(by_level: Mapping[int, Sequence[Row]]) -> list[str]:
    lines = [
        "| level | correct | templates alone | over compile | over eager | faster than compile | faster than eager "
        "| memory over eager |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for level, rows in by_level.items():
        one = Summary.of(rows)
        means = " | ".join(f"{_x(one.means[name])} (of {one.counted[name]})" for name in BASELINES)
        wins = " | ".join(str(one.faster[name]) for name in BASELINES)
        own = sum(map(templates_correct, rows))
        lines.append(f"| {level} | {one.correct} of {one.count} | {own} | {means} | {wins} | {_memory(rows)} |")
    return lines


def templates_correct(row: Row) -> bool:
    """The templates engine had a correct kernel, whoever won."""
    return any(
        str(one["proposer"]).startswith("compiler:templates") and one.get("outcome") == CORRECT
        for one in row.get("attempts", ())
    )


def _memory(rows: Sequence[Row]) -> str:
    """The middle one of our peaks over eager's."""
    known = sorted(found for row in rows if (found := memory_ratio(row)) is not None)
    return f"{_x(known[len(known) // 2])} (of {len(known)})" if known else "-"


def memory_ratio(row: Row) -> float | None:
    """Our peak memory over eager's; None where it was not measured."""
    own, eager = row.get("peak_memory_bytes"), (row.get("baseline_memory_bytes") or {}).get("eager")
    return float(own) / float(eager) if row["status"] == CORRECT and own is not None and eager else None


def lost(rows: Sequence[Row], count: int) -> float:
    """By how much the mean over compile of `count` problems would rise if none of these were slower than compile."""
    slower = [math.log(found) for row in rows if (found := ratio(row, "compile")) is not None and found < 1.0]
    return math.expm1(-sum(slower) / count) if count else 0.0


def _families(rows: Sequence[Row]) -> list[str]:
    lines = [
        "| family | problems | correct | over compile | over eager | faster than compile | lost | slowest |",
        "|---|---|---|---|---|---|---|---|",
    ]
    counted = Summary.of(rows).counted["compile"]
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["family"], []).append(row)
    for kind, group in sorted(groups.items(), key=lambda item: -len(item[1])):
        one = Summary.of(group)
        known = [(found, row["name"]) for row in group if (found := ratio(row, "compile")) is not None]
        worst = f"{min(known)[1]} ({_x(min(known)[0])})" if known else "-"
        means = " | ".join(_x(one.means[name]) for name in BASELINES)
        wins = f"{one.faster['compile']} | {lost(group, counted):.1%}"
        lines.append(f"| {kind} | {one.count} | {one.correct} | {means} | {wins} | {worst} |")
    return [*lines, "", "lost: how much higher the level's mean would be if no problem of the family were slower."]


def _lists(rows: Sequence[Row]) -> list[str]:
    """What a table hides: failures, exclusions, degenerate tasks, missing baselines, memory."""
    counted = [row for row in rows if row["status"] != EXCLUDED]
    timed = any(ratio(row, "compile") is not None for row in counted)
    lacking = [row for row in counted if timed and ratio(row, "compile") is None]
    sections: dict[str, list[tuple[Row, Any]]] = {
        "Not correct": [(row, row.get("reason")) for row in rows if row["status"] in (FAILED, ERROR)],
        "Left out": [(row, row.get("reason")) for row in rows if row["status"] == EXCLUDED],
        "No time of torch.compile, so in no mean over it": [(row, _missing(row)) for row in lacking],
        "Times of torch.compile from an earlier run": [
            (row, "by its ratio to eager") for row in counted if row.get("cached_baselines")
        ],
        "Degenerate tasks, judged anyway": [(row, note) for row in counted if (note := _note(row, "degenerate"))],
        "Peak memory above eager's by more than 10%": [
            (row, note) for row in counted if (note := _note(row, "peak memory"))
        ],
    }
    lines: list[str] = []
    for title, items in sections.items():
        if items:
            lines += [f"## {title}: {len(items)}", ""]
            lines += [f"- L{row['level']} {row['name']}: {_short(reason)}" for row, reason in _by_place(items)]
            lines.append("")
    return lines


def _missing(row: Row) -> str:
    return _note(row, "baseline compile") or "not timed"


def _note(row: Row, start: str) -> str | None:
    return next((str(note) for note in row.get("notes") or () if str(note).startswith(start)), None)


def _by_place(items: Sequence[tuple[Row, Any]]) -> list[tuple[Row, Any]]:
    return sorted(items, key=lambda item: (item[0]["level"], _number(item[0])))


def _number(row: Row) -> tuple[int, str]:
    return number_of(str(row["name"])), str(row["name"])


def number_of(name: str) -> int:
    """KernelBench's files begin with their number."""
    match = re.match(r"\d+", name)
    return int(match[0]) if match else 1 << 30


def _short(text: Any) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= _REASON_WIDTH else line[:_REASON_WIDTH] + " ..."


def _x(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"
