"""Imports: only modules of the allow-list, and only the names each of them offers.

Covers every spelling of `import`. Does not cover imports made at run time: `names.py` closes `__import__` and friends,
and modules reached as attributes of other modules are closed in `attributes.py` with the same tables.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotriton.judge.rules.attributes import denied_path
from autotriton.judge.rules.modules import MODULES, STAR_IMPORTS, WHY_NOT_IMPORTED
from autotriton.judge.rules.scopes import known_module
from autotriton.judge.rules.source import Source, error
from autotriton.types import Finding


def check(source: Source) -> Iterator[Finding]:
    for node in source.nodes:
        if isinstance(node, ast.Import | ast.ImportFrom) and source.scopes[node].is_class:
            yield error(
                "import", node, "an import inside a class body makes the module an attribute; move it to the top"
            )
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module(node, alias.name)
        elif isinstance(node, ast.ImportFrom):
            yield from _from(node, source)


def _module(node: ast.stmt, name: str) -> Iterator[Finding]:
    if not known_module(name):
        yield error(
            "import", node, f"`{name}` may not be imported{_why(name)}; use torch, triton and the standard maths"
        )
    elif name == "torch.ops":
        yield error("import", node, "`torch.ops` may not be imported; call torch functions by their public names")


def _from(node: ast.ImportFrom, source: Source) -> Iterator[Finding]:
    module = node.module or ""
    if node.level:
        yield error("import", node, "relative imports are not possible: a candidate is one self-contained file")
        return
    if not known_module(module):
        yield from _module(node, module)
        return
    for alias in node.names:
        if alias.name == "*":
            if module not in STAR_IMPORTS:
                yield error("import", node, f"`from {module} import *` hides what is used; import the names you need")
        elif (reason := denied_path(module, alias.name, source.policy)) is not None:
            yield error("import", node, reason)


def _why(name: str) -> str:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if (reason := WHY_NOT_IMPORTED.get(".".join(parts[:length]))) is not None:
            return f" (it {reason})"
    return "" if parts[0] in MODULES else " (not on the allow-list)"
