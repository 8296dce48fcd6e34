"""Licences are read conservatively: what is not understood is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotriton.data.harvest.licences import licence_of, read_text

MIT = "MIT License\n\nPermission is hereby granted, free of charge, to any person obtaining a copy of this software"
BSD = "Redistribution and use in source and binary forms, with or without modification, are permitted"
THREE = BSD + " ... may be used to endorse or promote products derived from this software"
APACHE = "Apache License\n Version 2.0, January 2004\n http://www.apache.org/licenses/"
GPL = "GNU GENERAL PUBLIC LICENSE\n Version 3, 29 June 2007"


@pytest.mark.parametrize(
    ("text", "spdx"),
    [(MIT, "MIT"), (BSD, "BSD-2-Clause"), (THREE, "BSD-3-Clause"), (APACHE, "Apache-2.0"), (GPL, None), ("mine", None)],
)
def test_texts_are_told_apart(text: str, spdx: str | None) -> None:
    assert read_text(text, "LICENSE").spdx == spdx


def _package(folder: Path, metadata: str | None, licence: str | None) -> tuple[Path, Path | None]:
    package = folder / "thing"
    package.mkdir()
    info = folder / "thing-1.0.dist-info"
    info.mkdir()
    path = None
    if metadata is not None:
        path = info / "METADATA"
        path.write_text(f"Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n{metadata}\n\nDescription\n")
    if licence is not None:
        (info / "LICENSE").write_text(licence) if path else (package / "LICENSE").write_text(licence)
    return package, path


@pytest.mark.parametrize(
    ("metadata", "licence", "spdx"),
    [
        ("License: MIT", None, "MIT"),
        ("License-Expression: Apache-2.0", APACHE, "Apache-2.0"),
        ("Classifier: License :: OSI Approved :: Apache Software License", None, "Apache-2.0"),
        ("License: BSD", BSD, "BSD-3-Clause"),
        (None, MIT, "MIT"),
        ("License: MIT", GPL, None),
        ("License: MIT", APACHE, None),
        ("License: GPL-3.0-only", None, None),
        ("License-Expression: MIT OR GPL-2.0", None, None),
        ("License: MIT\nClassifier: License :: Other/Proprietary License", None, None),
        ("Summary: nothing said", None, None),
    ],
)
def test_what_a_package_says_of_itself_decides(
    tmp_path: Path, metadata: str | None, licence: str | None, spdx: str | None
) -> None:
    package, path = _package(tmp_path, metadata, licence)
    found = licence_of(package, path)
    assert found.spdx == spdx
    assert found.why
