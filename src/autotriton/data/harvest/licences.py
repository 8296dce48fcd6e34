"""Which licence a package is under: small and conservative. Only MIT, BSD and Apache-2.0 are permissive enough here.

What counts is what the package says of itself: the metadata of its distribution, then the text of its LICENSE file.
Two statements that disagree, or none that is understood, are a refusal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

PERMISSIVE = ("MIT", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0")
_MOST_BYTES = 1 << 20
_NAMES = ("LICENSE", "LICENCE", "LICENSE.txt", "LICENSE.md", "LICENCE.txt", "COPYING", "LICENSE-MIT", "LICENSE-APACHE")
# What metadata writes, after lower-casing and taking punctuation out.
_WORDS = {
    "mit": "MIT",
    "mit license": "MIT",
    "the mit license": "MIT",
    "osi approved mit license": "MIT",
    "apache 2 0": "Apache-2.0",
    "apache license 2 0": "Apache-2.0",
    "apache 2 0 license": "Apache-2.0",
    "apache2": "Apache-2.0",
    "apache license version 2 0": "Apache-2.0",
    "osi approved apache software license": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd 3 clause": "BSD-3-Clause",
    "bsd 3 clause license": "BSD-3-Clause",
    "new bsd": "BSD-3-Clause",
    "modified bsd": "BSD-3-Clause",
    "bsd": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "osi approved bsd license": "BSD-3-Clause",
    "bsd 2 clause": "BSD-2-Clause",
    "bsd 2 clause license": "BSD-2-Clause",
    "simplified bsd": "BSD-2-Clause",
}
_FOREIGN = re.compile(
    r"gnu (lesser |affero )?general public|mozilla public|creative commons|non-?commercial|research purposes|"
    r"llama .{0,20}license|responsible ai",
    re.I,
)


@dataclass(frozen=True)
class Licence:
    """`spdx` is None where the package may not be used; `why` names what was read."""

    spdx: str | None
    why: str


def licence_of(folder: Path, metadata: Path | None = None) -> Licence:
    """The licence of a package in `folder`, with the METADATA file of its distribution where there is one."""
    told = _from_metadata(metadata) if metadata is not None else None
    if told is not None and told.spdx is None:
        return told
    places = [folder, folder.parent] if metadata is None else [metadata.parent, metadata.parent / "licenses", folder]
    read = next((found for place in places for found in _from_files(place)), None)
    if read is not None and read.spdx is None:
        return read
    if told is not None and read is not None and told.spdx != read.spdx and not _both_bsd(told, read):
        return Licence(None, f"{told.why}, but {read.why}")
    return told or read or Licence(None, "no licence is stated")


def _both_bsd(one: Licence, two: Licence) -> bool:
    """Metadata says just `BSD`; the file says which."""
    return bool(one.spdx and two.spdx and one.spdx.startswith("BSD") and two.spdx.startswith("BSD"))


def _from_metadata(path: Path) -> Licence | None:
    try:
        fields = HeaderParser().parsestr(path.read_bytes()[:_MOST_BYTES].decode("utf-8", "replace"))
    except OSError:
        return None
    stated = [*fields.get_all("License-Expression", []), *fields.get_all("License", [])]
    stated += [text.partition("::")[2] for text in fields.get_all("Classifier", []) if text.startswith("License ::")]
    stated = [text for text in stated if text.strip() and len(text) < 200]
    if not stated:
        return None
    for text in stated:
        name = text.strip()
        spdx = name if name in PERMISSIVE else _WORDS.get(_plain(name))
        if spdx is None:
            return Licence(None, f"its metadata says {name!r}")
    spdx = stated[0].strip() if stated[0].strip() in PERMISSIVE else _WORDS[_plain(stated[0])]
    return Licence(spdx, f"its metadata says {stated[0].strip()!r}")


def _from_files(folder: Path) -> list[Licence]:
    found = []
    for name in _NAMES:
        path = folder / name
        if path.is_file():
            found.append(read_text(path.read_bytes()[:_MOST_BYTES].decode("utf-8", "replace"), name))
    return found


def read_text(text: str, name: str) -> Licence:
    """The licence a text is, by the sentences only that licence has."""
    flat = " ".join(text.split())
    if _FOREIGN.search(flat[:4000]):
        return Licence(None, f"its {name} is not a permissive licence")
    if "Apache License" in flat and "Version 2.0" in flat:
        return Licence("Apache-2.0", f"its {name} is Apache-2.0")
    if "Permission is hereby granted, free of charge, to any person obtaining a copy" in flat:
        return Licence("MIT", f"its {name} is MIT")
    if "Redistribution and use in source and binary forms" in flat:
        three = "endorse or promote products" in flat
        return Licence("BSD-3-Clause" if three else "BSD-2-Clause", f"its {name} is BSD")
    return Licence(None, f"its {name} is not understood")


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[^a-z0-9]+", " ", text.lower()).split())
