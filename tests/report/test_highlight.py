"""Highlighted source: exactly the source, with its kinds marked."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from autotriton.report.highlight import highlight

CHEATS = sorted((Path(__file__).parents[1] / "cheats" / "cheats").glob("*.py"))


def text_of(html):
    return unescape(re.sub(r"</?span[^>]*>", "", html))


def test_kinds_are_marked():
    html = highlight('@triton.jit\ndef f(x):  # why\n    return "s" if x else 1.5\n')
    for part in (
        '<span class="a">@</span>',
        '<span class="k">def</span> <span class="d">f</span>',
        '<span class="c"># why</span>',
        '<span class="s">&quot;s&quot;</span>',
        '<span class="n">1.5</span>',
    ):
        assert part in html


@pytest.mark.parametrize("path", CHEATS[:: max(1, len(CHEATS) // 12)], ids=lambda path: path.stem)
def test_page_shows_exactly_the_code(path):
    code = path.read_text(encoding="utf-8")
    assert text_of(highlight(code)) == code


@pytest.mark.parametrize(
    "code",
    [
        "",
        "def f(:",
        "'''never closed",
        "x = (1,\n",
        "\tif x:\n  y\n",
        "</pre><script>alert(1)</script>",
        "ü = 'é'\r\n",
        "a\fb",
    ],
)
def test_what_is_no_python_is_shown_as_it_is(code):
    html = highlight(code)
    assert text_of(html) == code
    assert "<script" not in html


def test_f_strings_are_strings_and_whole():
    code = 'print(f"{x!r:>{width}} {{}} <b>")\n'
    assert text_of(highlight(code)) == code
