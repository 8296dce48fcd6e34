"""`model[:PATH]`: a language model on this machine, through transformers. PATH is a folder, an adapter's folder, a GGUF
file or the model's name on the hub.

The model lives in a child process that is started with the first question and kept, so that this process, which goes on
to judge, never imports torch. Between two calls of `propose` it is idle and holds the weights only.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import queue
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from autotriton.adapters import SHIPPED, is_compressed
from autotriton.child import LineChild
from autotriton.errors import PrerequisiteError, ProposerError
from autotriton.places import DEFAULT_MODEL, model_folder
from autotriton.propose import refine
from autotriton.propose.generate import CHILD
from autotriton.propose.prompt import PROMPT_FILE, SCRIPT_FILE, Prompts
from autotriton.propose.refine import Ask
from autotriton.propose.settings import ModelSettings, checked
from autotriton.types import Attempt, Candidate, Task, TokenUsage

FORM = "model[:PATH]"
VARIABLE = "AUTOTRITON_MODEL"
DEFAULT = str(model_folder())
_LOAD_S = 1800.0
"""A large model from a network disk, or from the hub."""
_GRACE_S = 60.0
"""Beyond `timeout_s`, which the child keeps by itself: prompts are read and kernels compiled too."""
_MOST_TEXT = 400
_log = logging.getLogger(__name__)


class ModelProposer:
    """Asks for `samples` programs per task, then for corrections of those the judge refused, for `turns` turns."""

    def __init__(self, path: str | os.PathLike[str] | None = None, **settings: Any) -> None:
        self.settings = checked(ModelSettings, settings)
        self.path = ready(None if path is None else os.fspath(path))
        shipped = Path(self.path).parent == SHIPPED
        self.name = f"model:{Path(self.path).name} (shipped)" if shipped else f"model:{self.path}"
        own, given = Path(self.path), self.settings
        self._prompts = Prompts(
            given.template or _there(own / PROMPT_FILE), given.refine_template, _there(own / SCRIPT_FILE)
        )
        self._child: Child | None = None

    def propose(self, task: Task, history: Sequence[Attempt]) -> Iterator[Candidate]:
        questions = refine.asks(task, history, self.name, self.settings, self._prompts)
        # All of them before the first is judged: while kernels are timed the child has to be idle.
        answers = {answer["index"]: answer for answer in self._answers(questions)}
        for index, ask in enumerate(questions):
            answer = answers[index]
            if "error" in answer:
                raise ProposerError(f"the model {self.path} failed: {answer['error']}")
            yield self._candidate(task, ask, answer)

    def propose_many(self, tasks: Iterable[Task]) -> Iterator[Candidate]:
        """First answers for many tasks, `samples` each, in one continuous batch; candidates come as they are ready.

        A prompt the model has no room for is an empty candidate, and a line in the log: it does not end the others. The
        child goes on generating while candidates are taken, so nothing should be timed on its GPU meanwhile.
        """
        pairs = [
            (task, ask) for task in tasks for ask in refine.asks(task, (), self.name, self.settings, self._prompts)
        ]
        for answer in self._answers([ask for _, ask in pairs]):
            task, ask = pairs[answer["index"]]
            if "error" in answer:
                _log.warning("%s: no answer for %s: %s", self.name, task.id, answer["error"])
            yield self._candidate(task, ask, {"text": "", "completion_tokens": 0, **answer})

    def _candidate(self, task: Task, ask: Ask, answer: dict[str, Any]) -> Candidate:
        usage = TokenUsage(prompt=answer["prompt_tokens"], completion=answer["completion_tokens"])
        return refine.candidate(task, self.name, ask, answer["text"], usage)

    def close(self) -> None:
        """Ends the child and frees its memory; the next question starts another."""
        if self._child is not None:
            self._child.close()
        self._child = None

    def _answers(self, questions: Sequence[Ask]) -> Iterator[dict[str, Any]]:
        """The child's answers as they come, each with the index of its question."""
        if not questions:
            return
        settings = self.settings
        if self._child is None:
            self._child = Child()
            load = {"path": self.path, "device": settings.device}
            loaded = next(self._told(self._child, load, _LOAD_S, "cannot be loaded"))
            if loaded.get("note"):
                _log.warning("%s is decoded by transformers' generate, slowly: %s", self.name, loaded["note"])
            if loaded.get("slow"):
                _log.warning("%s: %s; a GPU or `endpoint:URL#MODEL` is faster", self.name, loaded["slow"])
        request = {
            "prompts": [ask.prompt for ask in questions],
            "seeds": [ask.seed for ask in questions],
            **settings.model_dump(include={"temperature", "top_p", "max_tokens", "timeout_s", "batch"}),
        }
        # Between two answers: one that used up its time, and one before it that did not fit into memory.
        patience_s = 2 * settings.timeout_s + _GRACE_S
        for line in self._told(self._child, request, patience_s, "failed"):
            if "answer" in line:
                yield line["answer"]

    def _told(self, child: Child, message: dict[str, Any], patience_s: float, trouble: str) -> Iterator[dict[str, Any]]:
        try:
            for answer in child.ask(message, patience_s):
                if "error" in answer:
                    text = " ".join(str(answer["error"]).split())
                    raise ProposerError(f"the model {self.path} {trouble}: {text[:_MOST_TEXT]}", hint=_advice(text))
                yield answer
        finally:
            if not child.usable:
                self.close()


class Child:
    """The process of `generate.py`: one line out, one or more back."""

    def __init__(self) -> None:
        self._process = LineChild(CHILD, {"TOKENIZERS_PARALLELISM": "false"})
        self.usable = True
        """Loaded, and not owing an answer to a question nobody waits for any more."""

    def ask(self, message: dict[str, Any], patience_s: float) -> Iterator[dict[str, Any]]:
        """Its lines, to the last; whatever keeps it from giving one is a line with an `error`."""
        self.usable = False
        self._process.send(json.dumps(message))
        while True:
            answer = self._line(patience_s)
            last = "answer" not in answer
            self.usable = last and bool(answer.get("loaded"))
            yield answer
            if last:
                return

    def _line(self, patience_s: float) -> dict[str, Any]:
        try:
            line = self._process.line(patience_s)
        except queue.Empty:
            return {"error": f"no answer within {patience_s:g} s"}
        return dict(json.loads(line)) if line else {"error": f"its process ended: {self._last_words()}"}

    def close(self) -> None:
        self._process.close()

    def _last_words(self) -> str:
        code, last = self._process.ending()
        return f"code {code}{', ' + last if last else ''}"


def ready(path: str | None) -> str:
    """The model a spec means; raises where it is not there, or a package that it needs."""
    found = located(path)
    _require_packages(found)
    return found


def located(path: str | None) -> str:
    """The model a spec means; a folder that is not there is one clear line, not a long try at the hub."""
    if path is None:
        path = os.environ.get(VARIABLE) or (_trained() if Path(DEFAULT).is_dir() else None)
        if path is None:
            raise ProposerError(
                f"no model is named, {VARIABLE} is not set and {DEFAULT} does not exist",
                hint=f"autotriton model pull {DEFAULT_MODEL} fetches it; or name a folder or a model on the hub",
            )
    place = Path(path).expanduser()
    if place.is_dir():
        if not any((place / name).is_file() for name in ("config.json", "adapter_config.json")):
            raise ProposerError(f"{place} holds no model", hint="a config.json or adapter_config.json belongs there")
        return str(place)
    if place.is_file() and place.suffix == ".gguf":
        return str(place)
    if place.exists() or not re.fullmatch(r"[\w.-]*\w(/[\w.-]+)?", path) or path.startswith("."):
        what = "is no model" if place.exists() else "does not exist"
        raise ProposerError(f"the model {place} {what}", hint="name a folder, a .gguf file or a model on the hub")
    return path


def _trained() -> str:
    """The default model with the adapter that comes with the package, where one does."""
    adapter = SHIPPED / DEFAULT_MODEL
    return str(adapter) if is_compressed(adapter) else DEFAULT


def _there(template: Path) -> Path | None:
    """The question this model was trained on, where one lies beside its weights."""
    return template if template.is_file() else None


def _require_packages(path: str) -> None:
    needed = ["torch", "transformers"]
    needed += ["peft", "accelerate"] if Path(path, "adapter_config.json").is_file() else []
    needed += ["gguf"] if path.endswith(".gguf") else []
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise PrerequisiteError(
            f"the model proposer needs the `{missing[0]}` package", hint="pip install 'autotriton[train]'"
        )


def _advice(text: str) -> str | None:
    if "OutOfMemoryError" in text:
        return "lower batch or max_tokens"
    if "no answer within" in text:
        return "raise timeout_s, or lower max_tokens"
    if any(word in text for word in ("huggingface.co", "Hub", "hub", "connect")):
        return "it is no folder here, and the hub could not deliver it"
    return None
