"""Rows as Parquet: typed by the record, compressed, whole or not at all."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from autotriton.data.build.folder import clear
from autotriton.data.rows import Example, TaskRow
from autotriton.errors import PrerequisiteError, UsageError

FILES: dict[str, type[TaskRow]] = {"sft": Example, "rl": TaskRow, "held_out": TaskRow}
AnyRow = TypeVar("AnyRow", bound=TaskRow)


def write(rows: Sequence[TaskRow], kind: type[TaskRow], path: Path) -> None:
    arrow, parquet = library("pyarrow"), library("pyarrow.parquet")
    table = arrow.Table.from_pylist([row.model_dump(mode="json") for row in rows], schema=_schema(kind, arrow))
    write_table(table, path, parquet)


def write_table(table: Any, path: Path, parquet: Any = None) -> None:
    parquet = parquet or library("pyarrow.parquet")
    new = path.with_name(path.name + ".new")
    with clear(path):
        parquet.write_table(table, new, compression="zstd", compression_level=19)
        new.replace(path)


def read(folder: Path, name: str, kind: type[AnyRow]) -> list[AnyRow]:
    """The rows of one file of a data set."""
    path = folder / f"{name}.parquet"
    if not path.is_file():
        raise UsageError(f"{folder} holds no {name}.parquet", hint="name a data set made by `autotriton data build`")
    parquet = library("pyarrow.parquet")
    try:
        values = parquet.read_table(path).to_pylist()
        return [kind.model_validate(row) for row in values]
    except Exception as error:  # noqa: BLE001 - pyarrow's own errors share no base
        raise UsageError(f"{path} is damaged: {str(error).splitlines()[0]}") from None


def place_of(folder: Path) -> Path:
    """A data set's folder, or the build's it lies in."""
    return folder / "dataset" if (folder / "dataset" / "sft.parquet").is_file() else folder


def _schema(kind: type[TaskRow], arrow: Any) -> Any:
    hints = get_type_hints(kind)
    return arrow.schema([(name, _type(hints[name], arrow)) for name in kind.model_fields])


def _type(hint: Any, arrow: Any) -> Any:
    if get_origin(hint) is tuple:
        return arrow.list_(_type(get_args(hint)[0], arrow))
    if isinstance(hint, UnionType):
        hint = next(part for part in get_args(hint) if part is not type(None))
    if hint is int:
        return arrow.int64()
    return arrow.float64() if hint is float else arrow.string()


def library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise PrerequisiteError("Parquet files need pyarrow", hint="pip install 'autotriton[data]'") from None
