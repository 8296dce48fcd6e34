"""The data set in the shapes trainers read: TRL's conversations, verl's Parquet, or plain JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from autotriton.data.build import tables
from autotriton.data.build.folder import clear, write_whole_file
from autotriton.data.rows import Example, TaskRow
from autotriton.errors import UsageError

DATA_SOURCE = "autotriton"


def export(kind: str, folder: Path, out: Path) -> list[Path]:
    """Writes every file of the data set; returns what was written."""
    if kind not in FORMS:
        raise UsageError(f"unknown form {kind!r}", hint=f"known: {', '.join(FORMS)}")
    place = tables.place_of(folder)
    with clear(out):
        out.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, record in tables.FILES.items():
        written.append(FORMS[kind](tables.read(place, name, record), name, out))
    return written


def trl_row(row: TaskRow) -> dict[str, Any]:
    """Prompt (and completion) as conversations; what a reward needs stays beside them."""
    about = {"id": row.id, "prompt": [{"role": "user", "content": row.prompt}]}
    if isinstance(row, Example):
        return {**about, "completion": [{"role": "assistant", "content": row.completion}]}
    return {**about, "source": row.source, "entry": row.entry, "mode": row.mode.value, "difficulty": row.difficulty}


def verl_row(row: TaskRow, split: str, index: int) -> dict[str, Any]:
    """For RL as verl's `RLHFDataset` reads it; for SFT with `messages`, as its multi-turn data set does."""
    user = {"role": "user", "content": row.prompt}
    if isinstance(row, Example):
        return {"messages": [user, {"role": "assistant", "content": row.completion}], "data_source": DATA_SOURCE}
    return {
        "data_source": DATA_SOURCE,
        "prompt": [user],
        "ability": "triton",
        "reward_model": {"style": "rule", "ground_truth": row.source},
        "extra_info": {"split": split, "index": index, "id": row.id, "entry": row.entry, "mode": row.mode.value},
    }


def _trl(rows: Sequence[TaskRow], name: str, out: Path) -> Path:
    return _lines([trl_row(row) for row in rows], out / f"{name}.jsonl")


def _jsonl(rows: Sequence[TaskRow], name: str, out: Path) -> Path:
    return _lines([row.model_dump(mode="json") for row in rows], out / f"{name}.jsonl")


def _verl(rows: Sequence[TaskRow], name: str, out: Path) -> Path:
    arrow = tables.library("pyarrow")
    split = "test" if name == "held_out" else "train"
    path = out / f"{name}.parquet"
    table = arrow.Table.from_pylist([verl_row(row, split, number) for number, row in enumerate(rows)])
    tables.write_table(table, path)
    return path


def _lines(rows: Sequence[dict[str, Any]], path: Path) -> Path:
    write_whole_file(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


FORMS: dict[str, Callable[[Sequence[TaskRow], str, Path], Path]] = {"trl": _trl, "verl": _verl, "jsonl": _jsonl}
