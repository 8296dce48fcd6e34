"""Settings out of TOML files: frozen tables, checked whole before anything is loaded.

Must stay true: an unknown key is an error that names the nearest known one, never a silently ignored wish.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from autotriton.errors import UsageError


class Part(BaseModel):
    """One table of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")


AnyConfig = TypeVar("AnyConfig", bound=Part)


def load(kind: type[AnyConfig], path: Path, changes: Sequence[str] = ()) -> AnyConfig:
    """The file with `a.b=c` changes applied, checked. Paths in it are relative to the current folder."""
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"the config {path} cannot be read: {error.strerror}", hint="check the path") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"the config {path} is no TOML: {error}") from None
    for change in changes:
        _change(values, change)
    return checked(kind, values, str(path))


def checked(kind: type[AnyConfig], values: dict[str, Any], where: str = "the config") -> AnyConfig:
    """The config, or one line about the first thing that is wrong with it."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise UsageError(f"{where} has the unknown key {key}", hint=_nearest_key(kind, first["loc"])) from None
        text = str(first["msg"]).removeprefix("Value error, ").replace("valid tuple", "valid list")
        raise UsageError(f"{where}: {key}: {text}" if key else f"{where}: {text}") from None


def plain(config: Part) -> dict[str, Any]:
    """As JSON values, to be kept beside what it made."""
    return dict(json.loads(config.model_dump_json()))


def nearest(wrong: str, known: Sequence[str]) -> str:
    """A hint: what was meant, where that can be told, else all there is."""
    near = difflib.get_close_matches(wrong, known, n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"


def _change(values: dict[str, Any], change: str) -> None:
    """`a.b=c`: c is TOML where it parses as such, else text."""
    name, equals, text = change.partition("=")
    if not equals or not all(name.split(".")):
        raise UsageError(f"--set {change}: not of the form a.b=c")
    *tables, key = name.split(".")
    place = values
    for table in tables:
        place = place.setdefault(table, {})
        if not isinstance(place, dict):
            raise UsageError(f"--set {change}: {table} is no table")
    try:
        place[key] = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        place[key] = text


def _nearest_key(kind: type[BaseModel], location: tuple[int | str, ...]) -> str:
    """Known keys of the table the wrong one stands in, the likeliest first."""
    for part in location[:-1]:
        field = kind.model_fields.get(str(part))
        if field is None or not isinstance(field.annotation, type) or not issubclass(field.annotation, BaseModel):
            break
        kind = field.annotation
    return nearest(str(location[-1]), sorted(kind.model_fields))
