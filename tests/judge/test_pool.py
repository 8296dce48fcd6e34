"""Many candidates at once: N in, N out, whatever they do; and who has the GPU when."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from autotriton.errors import JudgeError, TaskError
from autotriton.judge import Judge, JudgeOptions, judge_many
from autotriton.judge.floor import Floor
from autotriton.judge.pool import AGAIN, Beside, GpuLock
from autotriton.judge.processes import Processes
from autotriton.judge.references import References
from autotriton.types import Outcome, Policy, Task, Tier, Verdict

WAIT_S = 10.0


# --- the lock ---------------------------------------------------------------------------------------------


class Actor(threading.Thread):
    """Does one thing in a thread and says when it is done."""

    def __init__(self, act):
        super().__init__(daemon=True)
        self.act, self.done = act, threading.Event()
        self.start()

    def run(self):
        self.act()
        self.done.set()

    def finished(self) -> bool:
        return self.done.wait(WAIT_S)

    def waits(self) -> bool:
        return not self.done.wait(0.1)


def test_sharers_do_not_wait_for_each_other():
    lock = GpuLock()
    lock.share()
    assert Actor(lock.share).finished()


def test_one_who_wants_the_gpu_alone_waits_for_all_who_share_it():
    lock = GpuLock()
    lock.share()
    lock.share()
    alone = Actor(lock.seize)
    assert alone.waits()
    lock.unshare()
    assert alone.waits()
    lock.unshare()
    assert alone.finished()


def test_nobody_waits_for_one_who_wants_it_alone():
    lock = GpuLock()
    lock.share()
    alone = Actor(lock.seize)
    assert alone.waits()
    assert Actor(lock.share).finished()
    lock.unshare()
    assert alone.waits()
    lock.unshare()
    assert alone.finished()


def test_while_one_has_it_alone_everybody_waits():
    lock = GpuLock()
    lock.seize()
    sharer, other = Actor(lock.share), Actor(lock.seize)
    assert sharer.waits()
    assert other.waits()
    lock.release()
    while not (sharer.done.is_set() or other.done.is_set()):
        time.sleep(0.01)
    (lock.unshare if sharer.done.is_set() else lock.release)()
    assert sharer.finished()
    assert other.finished()


def test_one_who_waits_for_something_else_keeps_nobody_from_having_it_alone():
    lock = GpuLock()
    lock.share()
    with lock.aside():
        alone = Actor(lock.seize)
        assert alone.finished()
        Actor(lambda: (time.sleep(0.1), lock.release()))
    assert lock._sharing == 1


def test_one_who_has_it_alone_lets_others_in_while_waiting():
    lock = GpuLock()
    lock.seize()
    with lock.aside_of_one():
        sharer = Actor(lock.share)
        assert sharer.finished()
        Actor(lambda: (time.sleep(0.1), lock.unshare()))
    assert lock._exclusive


def test_a_task_that_waits_for_memory_does_not_block_the_timing_of_the_one_that_has_it():
    """Both need the whole GPU: the first holds the memory and wants to be alone, the second shares and wants memory."""
    references, lock = References(SmallGpu()), GpuLock()
    first, second = (Task(id=name, source=name) for name in ("first", "second"))

    def judged(task: Task, wait: threading.Event | None, started: threading.Event | None) -> None:
        lock.share()
        client = references.take(task, "cuda", seed=0, cases=1, admit=False, aside=lock.aside)
        if started is not None:
            started.set()
            wait.wait(0.2)  # the second one is at the memory by now
        with lock.aside():
            lock.seize()
            lock.release()
        references.give_back(client)
        references.forget(task)
        lock.unshare()

    holds = threading.Event()
    one = Actor(lambda: judged(first, threading.Event(), holds))
    assert holds.wait(WAIT_S)
    other = Actor(lambda: judged(second, None, None))
    assert one.finished()
    assert other.finished()


class SmallGpu:
    """A GPU that one task fills, and reference processes that only answer."""

    floor = Floor()

    def gpu_memory(self):
        return 1 << 30

    def references_server(self, readable=()):
        return self

    def spawn(self, kind, limits):
        return FakeReference()


class FakeReference:
    channel = SimpleNamespace(send=lambda _: None)

    def receive(self, timeout_s):
        return {"elements": 1, "bytes": 1 << 30}, []

    def end(self):
        pass

    def over(self):
        return False


def test_one_who_waits_for_it_alone_is_not_starved_by_newcomers():
    lock = GpuLock(patience_s=0.0)
    lock.share()
    alone = Actor(lock.seize)
    assert alone.waits()
    newcomer = Actor(lock.share)
    assert newcomer.waits()
    lock.unshare()
    assert alone.finished()
    assert newcomer.waits()
    lock.release()
    assert newcomer.finished()


# --- the pool, with a judge that only pretends ------------------------------------------------------------


class FakeProcesses:
    stuck_total = 0

    def __init__(self):
        self.references = self
        self.forgotten: list[str] = []
        self.freed = 0

    def stuck(self):
        return 0

    def wait_until_free(self):
        self.freed += 1

    def forget(self, task):
        self.forgotten.append(task.id)


class FakeJudge:
    """Answers what `answer` returns or raises; remembers what it was asked."""

    def __init__(self, answer):
        self.answer, self.processes, self.asked, self.closed = answer, FakeProcesses(), [], False

    def judge(self, task, code, progress=None, *, alone=None, aside=None, whole_gpu=False):
        self.asked.append(code)
        return self.answer(task, code)

    def close(self):
        self.closed = True


def verdict(outcome: Outcome = Outcome.CORRECT, message: str = "ok") -> Verdict:
    return Verdict(outcome=outcome, message=message, policy=Policy.STRICT, tier=Tier.RUN)


def jobs(*codes: str, task: str = "task") -> list[tuple[Task, str]]:
    return [(Task(id=task, source=task), code) for code in codes]


def test_every_job_has_one_result_with_its_index():
    given = jobs(*(f"code {number}" for number in range(20)))
    found = list(judge_many(given, judge=FakeJudge(lambda *_: verdict()), workers=4))
    assert sorted(result.index for result in found) == list(range(20))
    assert all(result.code == f"code {result.index}" for result in found)


def test_no_jobs_are_no_results():
    assert list(judge_many([], judge=FakeJudge(lambda *_: verdict()))) == []


def test_duplicates_are_judged_once_and_answered_each():
    judge = FakeJudge(lambda *_: verdict())
    found = list(judge_many([*jobs("a", "b", "a", "a"), *jobs("a", task="other")], judge=judge, workers=2))
    assert sorted(judge.asked) == ["a", "a", "b"]
    assert sorted(result.index for result in found) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (JudgeError("broken", hint="mend it"), "broken (mend it)"),
        (ZeroDivisionError("bug"), "judge error: ZeroDivisionError: bug"),
    ],
)
def test_a_broken_judge_costs_one_job_its_verdict(failure, words):
    def answer(_, code):
        if code == "bad":
            raise failure
        return verdict()

    found = {result.code: result for result in judge_many(jobs("a", "bad", "b"), judge=FakeJudge(answer), workers=2)}
    assert (found["bad"].verdict, found["bad"].error) == (None, words)
    assert all(found[code].verdict and found[code].error is None for code in "ab")


def test_results_come_before_the_slowest_is_done():
    gate = threading.Event()

    def answer(_, code):
        if code == "slow":
            assert gate.wait(WAIT_S)
        return verdict()

    found = judge_many(jobs("slow", "a", "b"), judge=FakeJudge(answer), workers=2)
    assert {next(found).code, next(found).code} == {"a", "b"}
    gate.set()
    assert next(found).code == "slow"


def test_a_task_that_is_finished_gives_its_memory_back():
    judge = FakeJudge(lambda *_: verdict())
    list(judge_many([*jobs("a", "b", "a", task="one"), *jobs("a", task="two")], judge=judge, workers=1))
    assert sorted(judge.processes.forgotten) == ["one", "two"]


def test_leaving_early_starts_nothing_more_and_keeps_a_given_judge_open():
    judge = FakeJudge(lambda *_: verdict())
    found = judge_many(jobs(*"abcdefgh"), judge=judge, workers=1)
    next(found)
    found.close()
    assert len(judge.asked) < 8
    assert not judge.closed


def test_out_of_memory_among_others_is_tried_again_alone():
    answers = iter([verdict(Outcome.RUNTIME_ERROR, "out of memory: 3 GiB"), verdict()])
    judge = FakeJudge(lambda *_: next(answers))
    (found,) = judge_many(jobs("a"), judge=judge, workers=2)
    assert found.verdict is not None
    assert found.verdict.accepted
    assert judge.asked == ["a", "a"]
    assert judge.processes.freed == 1


def test_a_task_that_did_not_fit_beside_others_is_tried_again_with_all_the_memory():
    def judged(task, code):
        if len(judge.asked) == 1:
            raise TaskError("the task does not fit into memory: CUDA out of memory. Tried to allocate 8.00 GiB")
        return verdict()

    judge = FakeJudge(judged)
    (found,) = judge_many(jobs("a"), judge=judge, workers=2)
    assert found.verdict is not None
    assert found.verdict.accepted
    assert judge.asked == ["a", "a"]


def test_a_deadline_missed_beside_a_stuck_process_is_tried_again_alone():
    answers = iter([verdict(Outcome.TIMED_OUT), verdict()])
    judge = FakeJudge(lambda *_: next(answers))
    judge.processes.stuck = lambda: 1
    (found,) = judge_many(jobs("a"), judge=judge, workers=2)
    assert found.verdict is not None
    assert found.verdict.accepted


def test_a_deadline_missed_alone_counts():
    judge = FakeJudge(lambda *_: verdict(Outcome.TIMED_OUT))
    (found,) = judge_many(jobs("a"), judge=judge, workers=2)
    assert found.verdict is not None
    assert found.verdict.outcome is Outcome.TIMED_OUT
    assert judge.asked == ["a"]


# --- the real pool ----------------------------------------------------------------------------------------

SOURCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x * 1.5 + 0.25)

def get_inputs():
    return [torch.randn(12, 50)]
"""
CODE = """
import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, tl.maximum(x * {factor} + 0.25, 0.0), mask=at < n)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        {more}
        return y
"""
TASK = Task(id="relu", source=SOURCE)
RAISES = Task(
    id="raises", source=SOURCE.replace("return torch.relu", "raise ValueError('no')\n        return torch.relu")
)
OPTIONS = JudgeOptions(device="cpu", tier=Tier.INTERPRET, timeout_s=8.0)


def candidate(factor: str = "1.5", more: str = "", head: str = "") -> str:
    return head + CODE.replace("{factor}", factor).replace("{more}", more)


class CountingProcesses(Processes):
    """Counts the processes it starts, by role."""

    def __init__(self) -> None:
        super().__init__()
        self.spawned: Counter[str] = Counter()

    def server(self, *, interpret, readable=(), compiles=False):
        server, spawned = super().server(interpret=interpret), self.spawned

        class Counting:
            def spawn(self, role, limits):
                spawned[role] += 1
                return server.spawn(role, limits)

        return Counting()


def fork_servers() -> set[str]:
    """Every process of the judge's fork servers that descends from this one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text().rpartition(")")[2].split()
                zygote = b"autotriton.judge.zygote" in (entry / "cmdline").read_bytes()
            except OSError:
                continue
            parents[entry.name] = (text[1], zygote and text[0] != "Z")
    return {pid for pid, (_, zygote) in parents.items() if zygote and _descends(pid, parents)}


def _descends(pid, parents) -> bool:
    while pid in parents:
        pid = parents[pid][0]
        if pid == str(os.getpid()):
            return True
    return False


def eventually(claim) -> bool:
    deadline = time.monotonic() + WAIT_S
    while not claim() and time.monotonic() < deadline:
        time.sleep(0.05)
    return claim()


@pytest.mark.interp
def test_good_bad_and_hostile_candidates_all_get_their_answer():
    processes = CountingProcesses()
    given = [
        (TASK, candidate(more="while True: pass")),
        (TASK, candidate()),
        (TASK, candidate("1.4")),
        (TASK, "import ctypes\n" + candidate()),
        (TASK, candidate(more="return torch.relu(x)")),
        (TASK, candidate()),
        (TASK, candidate(more="raise ValueError('no')")),
        (TASK, ""),
        (RAISES, candidate()),
        (TASK, candidate(more="return torch.empty(1 << 40)")),
    ]
    with Judge(OPTIONS, processes=processes) as judge:
        order = [(result.index, result) for result in judge_many(given, judge=judge, workers=2)]
    found = dict(order)
    assert len(order) == len(found) == len(given)
    assert {index: result.verdict.outcome for index, result in found.items() if result.verdict} == {
        0: Outcome.TIMED_OUT, 1: Outcome.CORRECT, 2: Outcome.WRONG, 3: Outcome.REJECTED, 4: Outcome.REJECTED,
        5: Outcome.CORRECT, 6: Outcome.RUNTIME_ERROR, 7: Outcome.NO_CODE, 9: Outcome.RUNTIME_ERROR,
    }  # fmt: skip
    assert found[8].verdict is None
    assert "ValueError: no" in found[8].error
    assert found[1].verdict == found[5].verdict
    # Rule breakers, empty ones and the second of two equals cost no process; each task's reference is opened once.
    assert processes.spawned == {"candidate": 6, "reference": 2}
    # The endless one was started first; the quick ones did not wait for it.
    assert order[0][0] != 0


@pytest.mark.interp
def test_leaving_early_leaves_no_processes():
    assert fork_servers() == set()
    found = judge_many([(TASK, candidate(f"1.{number}")) for number in range(6)], OPTIONS, workers=2)
    next(found)
    assert fork_servers()
    found.close()
    assert eventually(lambda: fork_servers() == set())


@pytest.mark.parametrize("first", ["raises", "runtime_error", "wrong"])
def test_who_found_no_memory_beside_others_is_judged_again_and_the_verdict_says_so(first):
    def verdict(outcome, message=""):
        return Verdict(outcome=outcome, message=message, policy=Policy.STRICT, tier=Tier.RUN)

    def judge(task, code, aside, whole_gpu=False):
        asked.append(whole_gpu)
        if len(asked) > 1:
            return verdict(Outcome.CORRECT)
        if first == "raises":
            raise TaskError("the reference ran out of memory")
        return verdict(Outcome(first), "CUDA out of memory" if first == "runtime_error" else "")

    asked: list[bool] = []
    processes = SimpleNamespace(stuck=lambda: 0, stuck_total=0, wait_until_free=lambda: None)
    found = Beside(2).verdict(SimpleNamespace(processes=processes, judge=judge), Task(id="t", source=""), "")
    if first == "wrong":
        assert (found.outcome, found.notes, asked) == (Outcome.WRONG, (), [False])
    else:
        assert (found.outcome, found.notes, asked) == (Outcome.CORRECT, (AGAIN,), [False, first == "raises"])
