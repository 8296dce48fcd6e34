"""Python source as HTML with the kinds of its tokens marked. Whatever the text is, the page shows exactly it."""

from __future__ import annotations

import io
import keyword
import tokenize
from html import escape

_CLASSES = {tokenize.COMMENT: "c", tokenize.STRING: "s", tokenize.NUMBER: "n"}
_STRING_PARTS = {"FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END"}


def highlight(code: str) -> str:
    """Escaped HTML; plain where the code cannot be read as Python."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(code).readline))
    except (tokenize.TokenError, SyntaxError):
        return escape(code)
    lines = io.StringIO(code).readlines()  # as the tokenizer counts them
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    parts: list[str] = []
    position, before = 0, ""
    for token in tokens:
        begin, end = (starts[min(row - 1, len(lines))] + column for row, column in (token.start, token.end))
        if end <= position or begin < position:
            continue
        kind = _kind(token, before)
        text = escape(code[begin:end])
        parts += [escape(code[position:begin]), f'<span class="{kind}">{text}</span>' if kind else text]
        position = end
        before = token.string if token.string.strip() else before
    return "".join([*parts, escape(code[position:])])


def _kind(token: tokenize.TokenInfo, before: str) -> str | None:
    if token.type in _CLASSES:
        return _CLASSES[token.type]
    if tokenize.tok_name[token.type] in _STRING_PARTS:
        return "s"
    if token.type == tokenize.NAME and keyword.iskeyword(token.string):
        return "k"
    if token.type == tokenize.NAME and before in ("def", "class"):
        return "d"
    return "a" if before == "@" or token.string == "@" else None
