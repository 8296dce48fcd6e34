"""Whoever judges script tasks: one verdict and one official result per candidate, from processes kept between them.

Thread-safe. A gold file's process is shared by the candidates of its task and ended when it has not been used for a
while; a candidate's processes are its own.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from autotriton.errors import AutoTritonError, TaskError
from autotriton.judge.channel import ChannelError
from autotriton.judge.options import JudgeOptions
from autotriton.judge.processes import Processes
from autotriton.judge.scripts import trial
from autotriton.judge.scripts.official import Ran, failed
from autotriton.judge.scripts.official import run as run_script
from autotriton.judge.scripts.opening import Faulted, ScriptClient, open_reference
from autotriton.judge.scripts.parts import script, split
from autotriton.judge.trial import Decided, Trial
from autotriton.types import Official, Task, Tier, Verdict

_SHORTAGE = ("OutOfMemoryError", "out of memory", "CUDACachingAllocator")
"""What `Official.detail` says where memory ran out; the last where PyTorch cannot ask NVML about it."""


def ends(outcome: Official) -> bool:
    """Whether the test as it stands ends a candidate, for reasons of its own: a full GPU may be its neighbours'."""
    return not outcome.called and not any(words in outcome.detail for words in _SHORTAGE)


@dataclass(frozen=True)
class Finding:
    """`verdict` is None where the gold gives no answers on this machine; `error` then says why."""

    verdict: Verdict | None
    official: Official
    error: str | None = None


@dataclass
class _Entry:
    """One task's gold process. `lock` is held while it is being started."""

    lock: threading.Lock
    client: ScriptClient | None = None
    failure: AutoTritonError | None = None
    users: int = 0
    settles: bool = True
    """Until that has cost a process its device."""


class ScriptCourt:
    """Holds the processes. `close` ends them."""

    def __init__(self, options: JudgeOptions, *, kept: int = 4) -> None:
        """`kept`: gold processes that stay when nobody uses them; each holds its answers in the device's memory."""
        self.options = options
        self.processes = Processes(options.sandbox)
        self.device = self.processes.device(options.device)
        self.seed = options.seed if options.seed is not None else secrets.randbelow(2**31)
        """Secret: the inputs follow from it."""
        self._kept = kept
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._golds: dict[str, Ran] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            entries = list(self._entries.values())
            self._entries.clear()
        for entry in entries:
            if entry.client is not None:
                entry.client.process.end()
        self.processes.close()

    def judge(self, task: Task, code: str) -> Finding:
        """Both protocols for one candidate. Raises JudgeError when we break, never for the candidate."""
        outcome = self.official(task, code)
        try:
            try:
                return Finding(self._checked(task, code, outcome), outcome)
            except Faulted:  # while it was run again to be sure; the next process of it is not
                return Finding(self._checked(task, code, outcome), outcome)
        except TaskError as error:
            return Finding(None, outcome, str(error))

    def _checked(self, task: Task, code: str, outcome: Official) -> Verdict:
        """What ends in the test as it stands, where the gold does not, is not called again: it would end there too."""
        one = Trial(task, code, self.options, self.processes)
        try:
            trial.gate(one)
            if ends(outcome) and self.gold_passes(task):
                tier = Tier.INTERPRET if self.device == "cpu" else Tier.RUN
                raise Decided(failed(outcome.detail), tier, f"in the suite's own test: {outcome.detail}")
            with one.stage("reference"), self._reference(task) as client:
                return trial.judge(one, client, self.device)
        except Decided as decided:
            return one.verdict(decided.outcome, decided.tier, decided.message)

    # --- official -----------------------------------------------------------------------------------------

    def official(self, task: Task, code: str) -> Official:
        """Their rule: the candidate above the gold's test exits well, and prints what the gold prints."""
        if not code.strip():
            return Official(called=False, executed=False, detail="no code")
        _, test = split(task.source)
        ran = self._ran(task, script(code, test))
        if not ran.passed:
            return Official(called=False, executed=False, detail=ran.detail)
        gold = self._gold(task, ran.output)
        if ran.output == gold.output:
            return Official(called=True, executed=True)
        reason = f"; the gold itself fails here: {gold.detail}" if not gold.passed else ""
        return Official(called=True, executed=False, detail=f"prints something else than the gold{reason}")

    def _gold(self, task: Task, printed: str) -> Ran:
        """The gold's own run, once per task; not needed where neither prints."""
        if not printed and "print" not in task.source:
            return Ran(True, "", "")
        return self._gold_run(task)

    def gold_passes(self, task: Task) -> bool:
        """Whether the gold passes its own test on this machine."""
        return self._gold_run(task).passed

    def _gold_run(self, task: Task) -> Ran:
        if task.hash not in self._golds:
            self._golds[task.hash] = self._ran(task, script(*split(task.source)))
        return self._golds[task.hash]

    def _ran(self, task: Task, text: str) -> Ran:
        return run_script(self.processes, text, task.id, device=self.device, timeout_s=self.options.timeout_s)

    # --- the gold's processes -----------------------------------------------------------------------------

    @contextmanager
    def _reference(self, task: Task) -> Iterator[ScriptClient]:
        with self._lock:
            entry = self._entries.setdefault(task.hash, _Entry(threading.Lock()))
            self._entries.move_to_end(task.hash)
            entry.users += 1
        client = None
        try:
            client = self._opened(task, entry)
            yield client
        except Faulted:
            self._forget(entry, client)
            raise
        except (TaskError, ChannelError) as error:  # the gold's process failed, and would for the next candidate too
            with entry.lock:
                entry.failure = entry.failure or TaskError(str(error))
            raise entry.failure from error
        finally:
            with self._lock:
                entry.users -= 1
            self._trim()

    def _forget(self, entry: _Entry, client: ScriptClient | None) -> None:
        """The next one gets another process, unless somebody has started one already."""
        with entry.lock:
            if client is not None and entry.client is client:
                entry.client, entry.settles = None, False
                client.process.end()

    def _opened(self, task: Task, entry: _Entry) -> ScriptClient:
        with entry.lock:
            if entry.failure is not None:
                raise entry.failure
            if entry.client is None:
                try:
                    entry.client = open_reference(
                        self.processes,
                        task,
                        self.device,
                        seed=self.seed,
                        timeout_s=self.options.timeout_s,
                        settles=entry.settles,
                    )
                except TaskError as error:
                    entry.failure = error
                    raise
            return entry.client

    def _trim(self) -> None:
        with self._lock:
            idle = [key for key, entry in self._entries.items() if entry.users == 0 and entry.client is not None]
            live = sum(entry.client is not None for entry in self._entries.values())
            ended = [self._entries.pop(key) for key in idle[: max(0, live - self._kept)]]
        for entry in ended:
            assert entry.client is not None
            entry.client.process.end()
