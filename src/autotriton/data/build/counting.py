"""What a data set holds, in numbers: counts by source, route, family and difficulty, lengths with their spread."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from autotriton.data.rows import Example, TaskRow

_BANDS = ("easy", "medium", "hard")


def describe(sft: Sequence[Example], rl: Sequence[TaskRow], held_out: Sequence[TaskRow]) -> dict[str, Any]:
    """JSON values."""
    files: dict[str, Sequence[TaskRow]] = {"sft": sft, "rl": rl, "held_out": held_out}
    found: dict[str, Any] = {name: _about(rows) for name, rows in files.items()}
    found["sft"] |= {
        "tasks": len({(row.source, row.entry) for row in sft}),
        "routes": _counted(row.route.partition(":")[0] for row in sft),
        "styles": _counted(row.style for row in sft),
        "answer_characters": spread([len(row.completion) for row in sft]),
        "code_lines": spread([row.code.count("\n") + 1 for row in sft]),
        "kernels": spread([row.kernels for row in sft]),
    }
    level = statistics.median([row.difficulty or 0.0 for row in sft]) if sft else 0.0
    harder = sum((row.difficulty or 0.0) > level for row in rl)
    found["rl"]["harder_than_median_sft"] = round(harder / len(rl), 3) if rl else None
    taught = {row.graph for row in (*sft, *rl)}
    found["held_out"]["graphs_also_in_training"] = sum(row.graph in taught for row in held_out)
    return found


def spread(values: Sequence[int]) -> dict[str, int] | None:
    """Median, and the values a tenth and nine tenths lie below."""
    if not values:
        return None
    ordered = sorted(values)
    at = {"p10": 0.1, "median": 0.5, "p90": 0.9}
    return {name: ordered[min(len(ordered) - 1, int(share * len(ordered)))] for name, share in at.items()} | {
        "least": ordered[0],
        "most": ordered[-1],
    }


def band(difficulty: float | None) -> str:
    """`easy`, `medium` or `hard`."""
    return _BANDS[min(2, int(3 * (difficulty or 0.0)))]


def _about(rows: Sequence[TaskRow]) -> dict[str, Any]:
    families = Counter(row.families[0] if row.families else "none" for row in rows)
    return {
        "rows": len(rows),
        "ops": len({op for row in rows for op in row.ops}),
        "graphs": len({row.graph for row in rows}),
        "sources": _counted(row.origin.partition(":")[0] for row in rows),
        "licences": _counted(row.licence for row in rows),
        "families": dict(families.most_common()),
        "largest_family_share": round(max(families.values()) / len(rows), 3) if rows else None,
        "difficulty": _counted(band(row.difficulty) for row in rows),
        "depth": spread([row.depth for row in rows]),
        "prompt_characters": spread([len(row.prompt) for row in rows]),
    }


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())
