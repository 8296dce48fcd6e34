"""Text that others wrote, as it may be shown: on the pages and on a terminal.

Must stay true: no character that hides, moves, colours or reverses the text around it reaches the reader as such.
"""

from __future__ import annotations

import html
import re

_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters but for tabs and ends of lines, and those that change the direction of writing."""


def visible(text: str) -> str:
    r"""With such characters written out: `\x1b`, `\u202e`."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def escape(text: str) -> str:
    """As part of a page."""
    return html.escape(visible(text))
