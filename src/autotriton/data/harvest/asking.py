"""Constructor arguments and inputs written by a language model, where an endpoint is configured.

The endpoint proposer asks, with a question of our own; an answer counts only when it parses and defines what it must,
and only running it in the sandbox proves it right. A server that fails costs its definition, never the harvest.
"""

from __future__ import annotations

import ast
import logging
import tempfile
from pathlib import Path

from autotriton.errors import ProposerError
from autotriton.propose.endpoint import EndpointProposer
from autotriton.propose.extract import extract
from autotriton.syntax import parse_source
from autotriton.types import Task

_QUESTION = """Here is a PyTorch program:

$task

Write two Python functions for it: `get_init_inputs()`, which returns the list of positional arguments that construct it
(an empty list for a function), and `get_inputs()`, which returns the list of arguments of one forward call. Use small
sizes (batch 2, at most 64 per axis), `torch.randn` for floating tensors and `torch.randint` for indices. Answer with
one fenced `python` block that holds these two functions and nothing else.
"""
_log = logging.getLogger(__name__)


class EndpointAsker:
    """Called with a definition's text and name; gives the maker functions of every usable answer."""

    def __init__(self, url: str, model: str, *, samples: int = 1, **settings: object) -> None:
        with tempfile.TemporaryDirectory(prefix="autotriton-") as folder:
            template = Path(folder, "harvest.md")
            template.write_text(_QUESTION, encoding="utf-8")
            temperature = {"temperature": 0.0} if samples == 1 else {}
            self._proposer = EndpointProposer(
                url, model, template=template, samples=samples, turns=1, **{**temperature, **settings}
            )
        self.failed = 0

    def __call__(self, text: str, name: str) -> list[str]:
        task = Task(id=f"harvest-{name}", source=text, entry=name)
        answers = []
        try:
            for candidate in self._proposer.propose(task, ()):
                code = extract(candidate.completion or "", ("get_inputs",))
                if _usable(code):
                    answers.append(code.strip())
        except ProposerError as error:
            self.failed += 1
            _log.warning("%s: %s", name, error)
        return answers


def _usable(code: str) -> bool:
    try:
        body = parse_source(code).body
    except (SyntaxError, ValueError, RecursionError):
        return False
    return any(isinstance(node, ast.FunctionDef) and node.name == "get_inputs" for node in body)
