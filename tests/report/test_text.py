"""Text that others wrote, on pages and terminals."""

from __future__ import annotations

import pytest

from autotriton.report.text import escape, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("\x00\x07\x7f\x9b", "\\x00\\x07\\x7f\\x9b"),
        ("\u202egnp.exe\u2066", "\\u202egnp.exe\\u2066"),
        ("over\rwritten", "over\\rwritten"),
        ("tab\tline\n naïve 漢字 🙂 \u2028", "tab\tline\n naïve 漢字 🙂 \u2028"),
    ],
)
def test_what_would_hide_or_move_text_is_written_out(text, shown):
    assert visible(text) == shown


def test_a_page_gets_neither_markup_nor_control_characters():
    assert escape("<b>\"'&\x1b") == "&lt;b&gt;&quot;&#x27;&amp;\\x1b"
