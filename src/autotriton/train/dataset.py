"""Rows for training, read and checked before a model is loaded."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from autotriton.data.build.routes import WRAPPERS
from autotriton.data.pairs.reasoning import plan_only
from autotriton.data.quality.sizes import sizes_are_fixed
from autotriton.data.rows import PROSE, Example, TaskRow
from autotriton.errors import PrerequisiteError, UsageError
from autotriton.propose.compiler.templates.options import PLAIN
from autotriton.train.config import DataPart

AnyRow = TypeVar("AnyRow", bound=TaskRow)


def read(kind: type[AnyRow], files: Sequence[Path], limit: int | None = None) -> list[AnyRow]:
    """The rows of all files in order. A missing column or a damaged row is one line that names it."""
    rows: list[AnyRow] = []
    for path in files:
        for number, values in enumerate(_values(path, kind), start=1):
            if limit is not None and len(rows) == limit:
                return rows
            rows.append(_row(kind, values, path, number))
    if not rows:
        raise UsageError(f"no rows in {', '.join(map(str, files))}", hint="build them with `autotriton data build`")
    return rows


def chosen(examples: Iterable[Example], part: DataPart) -> Iterator[Example]:
    """Those the config wants to be taught."""
    plain = {(family,) for family in part.plain}
    for example in examples:
        form = example.id.rpartition("-")[2]
        many = part.forms is not None and form.isdecimal() and int(form) >= part.forms
        described = example.style == PROSE and example.route != WRAPPERS
        other = example.way != PLAIN.name and example.route != WRAPPERS and example.families[:1] in plain
        fixed = example.way == PLAIN.name and sizes_are_fixed(example.code)
        if not many and not other and not fixed and (part.prose or not described):
            yield example if part.reasoning == "full" else _planned(example)


def _planned(example: Example) -> Example:
    return example.model_copy(update={"completion": plan_only(example.completion)})


def apart(rows: Sequence[AnyRow], held_out: Path | None) -> list[AnyRow]:
    """Those that share no program, at any size, with a held-out task; data sets split differently may be mixed."""
    if not rows:
        raise UsageError("the config leaves out every row", hint="data.forms, data.prose and data.plain say which stay")
    if held_out is None:
        return list(rows)
    graphs = {row.graph for row in read(TaskRow, [held_out]) if row.graph}
    kept = [row for row in rows if row.graph not in graphs]
    if not kept:
        raise UsageError(f"all {len(rows)} rows share a program with a task of {held_out}", hint="train on others")
    return kept


def write(rows: Iterable[TaskRow], path: Path) -> None:
    """JSON lines, one row each."""
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(row.model_dump_json() + "\n")


def conversation(example: Example) -> list[dict[str, str]]:
    """Question and answer."""
    return [{"role": "user", "content": example.prompt}, {"role": "assistant", "content": example.completion}]


def _values(path: Path, kind: type[TaskRow]) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        raise UsageError(f"the data file {path} does not exist", hint="build it with `autotriton data build`")
    if path.suffix.lower() != ".parquet":
        yield from _lines(path)
        return
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise PrerequisiteError("Parquet files need pyarrow", hint="pip install 'autotriton[data]'") from None
    try:
        table = parquet.ParquetFile(path)
    except Exception as error:  # noqa: BLE001 - pyarrow's own errors share no base
        raise UsageError(f"{path} is no Parquet file: {error}") from None
    needed = [name for name, field in kind.model_fields.items() if field.is_required()]
    if missing := [name for name in needed if name not in table.schema_arrow.names]:
        raise UsageError(f"{path} lacks the column {missing[0]}", hint=f"needed: {', '.join(needed)}")
    known = [name for name in table.schema_arrow.names if name in kind.model_fields]
    try:
        for batch in table.iter_batches(columns=known):
            yield from batch.to_pylist()
    except (OSError, ValueError) as error:  # pyarrow's own are among these
        text = " ".join(str(error).split())[:300]
        raise UsageError(f"{path} is damaged: {text}", hint="copy it again, or build it again") from None


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                values = json.loads(line.decode())
            except ValueError as error:
                raise UsageError(f"{path}, line {number} is no JSON: {error}") from None
            if not isinstance(values, dict):
                raise UsageError(f"{path}, line {number} is no row: {' '.join(str(values).split())[:80]}")
            yield values


def _row(kind: type[AnyRow], values: dict[str, Any], path: Path, number: int) -> AnyRow:
    try:
        return kind.model_validate({name: value for name, value in values.items() if name in kind.model_fields})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        if first["type"] == "missing":
            raise UsageError(f"{path} lacks the column {where} (row {number})") from None
        raise UsageError(f"{path}, row {number}: {where}: {first['msg']}") from None
