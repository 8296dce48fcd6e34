"""Reference processes: opened once, never ended in use, within the GPU's memory; and whose fault their errors are."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from autotriton.errors import JudgeError, TaskError
from autotriton.judge import references
from autotriton.judge.channel import ChannelError
from autotriton.judge.floor import Floor
from autotriton.judge.forks import Ending
from autotriton.judge.processes import Gpu, Processes
from autotriton.judge.references import (
    ReferenceClient,
    References,
    TooLarge,
    _died,
    _raise_if_error,
    gpu_bytes_needed,
    gpu_bytes_of,
)
from autotriton.types import Task

SOURCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    return [torch.randn(8, 16)]
"""
TASK = Task(id="double", source=SOURCE)


def test_what_a_reference_says_becomes_the_error_of_whoever_can_fix_it():
    with pytest.raises(TaskError, match="forward raised"):
        _raise_if_error({"task_error": "forward raised"})
    with pytest.raises(JudgeError, match="the reference process failed: bug"):
        _raise_if_error({"judge_error": "bug"})
    _raise_if_error({"cases": []})


@pytest.mark.parametrize(
    ("ending", "kind", "words"),
    [
        (Ending("memory", -9, ""), TaskError, "it used too much memory"),
        (Ending("deadline", -9, ""), TaskError, "it took too long"),
        (Ending("", -11, "Segmentation fault"), TaskError, "exit code -11.*Segmentation fault"),
        (Ending("", 0, ""), JudgeError, "closed without a word"),
    ],
)
def test_how_a_died_says_who_can_fix_it(ending, kind, words):
    with pytest.raises(kind, match=words):
        raise _died(SimpleNamespace(end=lambda: ending))


@pytest.fixture(scope="module")
def real():
    with_servers = Processes()
    yield with_servers
    with_servers.close()


def opened(processes: Processes, task: Task = TASK, at_most: int | None = None, seed: int = 1):
    return processes.references.take(task, "cpu", seed=seed, cases=4, admit=False, at_most=at_most)


def used(processes: Processes, **more):
    """Opened and given back."""
    client = opened(processes, **more)
    processes.references.give_back(client)
    return client


@pytest.mark.interp
def test_a_reference_is_kept_until_it_is_forgotten(real):
    one = used(real)
    assert used(real) is one
    assert used(real, seed=2) is not one
    real.references.forget(TASK)
    again = used(real)
    assert again is not one
    assert again.about["elements"] == 2 * 8 * 16
    assert len(again.about["cases"]) == 4


@pytest.mark.interp
def test_a_reference_in_use_is_never_ended(real, monkeypatch):
    monkeypatch.setattr(references, "_KEPT", 1)
    one = opened(real, seed=20)
    real.references.forget(TASK)
    used(real, seed=21)
    assert one.session(timed=False)[0] == 0
    assert used(real, seed=20) is one
    real.references.give_back(one)


@pytest.mark.interp
def test_only_so_many_idle_references_are_kept(real, monkeypatch):
    monkeypatch.setattr(references, "_KEPT", 2)
    first = used(real, seed=10)
    for seed in (11, 12):
        used(real, seed=seed)
    assert used(real, seed=10) is not first
    assert len(real.references._clients) == 2


@pytest.mark.interp
def test_a_task_larger_than_asked_for_is_told_before_it_is_run(real):
    source = SOURCE.replace("(8, 16)", "(1 << 20, 1 << 20)")  # four terabytes
    large = Task(id="large", source=source)
    for _ in range(2):
        with pytest.raises(TooLarge):
            opened(real, large, at_most=1 << 20)
    assert used(real, at_most=1 << 20).about["elements"] == 256


@pytest.mark.interp
def test_a_task_with_a_large_answer_is_as_large_as_that(real):
    body = "return torch.outer(x[0], x[1])"
    outer = Task(id="outer", source=SOURCE.replace("return x * 2", body).replace("(8, 16)", "(2, 1048576)"))
    with pytest.raises(TooLarge):
        opened(real, outer, at_most=1 << 22)
    client = real.references.take(outer, "cpu", seed=1, cases=4, admit=False, at_most=1 << 22, reduced=True)
    assert client.about["elements"] <= 1 << 22
    real.references.give_back(client)


@pytest.mark.interp
def test_a_reference_that_raises_leaves_nothing_behind(real):
    broken = Task(id="broken", source=SOURCE.replace("return x * 2", "raise ValueError('no')"))
    for _ in range(2):
        with pytest.raises(TaskError, match="ValueError: no"):
            opened(real, broken)
    assert broken.hash not in {key[0] for key in real.references._clients}


# --- room on the GPU, with processes that only pretend ----------------------------------------------------


class FakeProcess:
    """A reference with inputs of one sixteenth of a gigabyte: four gigabytes of the GPU with its contexts."""

    def __init__(self):
        self.ended = False
        self.channel = SimpleNamespace(send=lambda _: None)

    def receive(self, timeout_s):
        return {"elements": 1 << 24, "bytes": 1 << 26}, []

    def end(self):
        self.ended = True


@pytest.fixture
def crowded():
    """References of a GPU with room for two such tasks."""
    server = SimpleNamespace(spawn=lambda *_: FakeProcess())
    return References(
        SimpleNamespace(gpu_memory=lambda: 9 << 30, references_server=lambda readable: server, floor=Floor())
    )


def on_gpu(held: References, name: str):
    return held.take(Task(id=name, source=name), "cuda", seed=0, cases=1, admit=False)


def test_idle_references_make_room(crowded):
    first, second = on_gpu(crowded, "a"), on_gpu(crowded, "b")
    crowded.give_back(first)
    third = on_gpu(crowded, "c")
    assert first.process.ended
    assert not second.process.ended
    assert third.share.nbytes == 4 << 30


def test_a_task_waits_until_another_has_given_its_memory_back(crowded):
    first, _ = on_gpu(crowded, "a"), on_gpu(crowded, "b")
    third: list[ReferenceClient] = []
    waiting = threading.Thread(target=lambda: third.append(on_gpu(crowded, "c")), daemon=True)
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    crowded.give_back(first)
    waiting.join(10)
    assert third
    assert first.process.ended


def test_what_a_task_takes_of_a_gpu_by_hand():
    gib = 1 << 30
    size = {"bytes": 4 * gib, "output_bytes": 8 * gib, "peak_bytes": 12 * gib}
    # Arenas and a case 2 (4 + 8), an oracle 2 * 8, the candidate's earlier answer 8 and its run 12 - 4, contexts 3.
    assert gpu_bytes_of(size, 140 * gib) == (24 + 16 + 8 + 8 + 3) * gib
    # Arenas and a case, an oracle and a run in fp64 2 * 12 at once, the candidate, contexts.
    assert gpu_bytes_needed(size) == (24 + 16 + 24 + 8 + 3) * gib
    # Arenas and a case 2 (4 + 2), a run in fp64 2 * 12, an earlier answer 2; 1 of weights in two sets, both arenas, two
    # baselines and the candidate.
    heavy = {"bytes": 4 * gib, "output_bytes": 2 * gib, "peak_bytes": 12 * gib, "state_bytes": gib}
    assert gpu_bytes_of(heavy, 140 * gib) == (12 + 24 + 2 + 7 + 3) * gib
    assert gpu_bytes_of(size, 48 * gib) == 48 * gib
    assert gpu_bytes_of({"bytes": gib, "output_bytes": None, "peak_bytes": None}, 140 * gib) == 19 * gib
    assert gpu_bytes_of({"bytes": None}, 140 * gib) == 35 * gib


def test_a_reference_that_opens_while_all_is_closed_is_ended(crowded):
    class Closing(FakeProcess):
        def receive(self, timeout_s):
            crowded.close()
            return super().receive(timeout_s)

    opened_one = Closing()
    crowded._processes.references_server = lambda readable: SimpleNamespace(spawn=lambda *_: opened_one)
    with pytest.raises(JudgeError, match="closed"):
        on_gpu(crowded, "a")
    assert opened_one.ended
    assert crowded.room.used == 0


def test_one_who_waits_for_memory_hears_that_all_is_closed(crowded):
    on_gpu(crowded, "a"), on_gpu(crowded, "b")
    heard: list[Exception] = []

    def wait():
        try:
            on_gpu(crowded, "c")
        except JudgeError as error:
            heard.append(error)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    crowded.close()
    waiting.join(10)
    assert heard


def test_no_more_of_the_gpus_memory_is_used_than_allowed(monkeypatch):
    processes = Processes(gpu_memory_bytes=24 << 30)
    monkeypatch.setattr(processes, "gpu", lambda: Gpu("GPU", "9.0", 139 << 30, 1, 1))
    assert processes.gpu_memory() == 24 << 30
    monkeypatch.setattr(processes, "gpu", lambda: Gpu("GPU", "9.0", 16 << 30, 1, 1))
    assert processes.gpu_memory() == 16 << 30
    monkeypatch.setattr(processes, "gpu", lambda: None)
    assert processes.gpu_memory() == 0


def test_memory_is_free_again_when_all_is_closed(crowded):
    for name in "ab":
        on_gpu(crowded, name)
    crowded.close()
    assert crowded.room.used == 0


# --- the GPU alone in the middle of a request ---------------------------------------------------------------


def test_a_reference_may_ask_for_the_gpu_in_the_middle_of_a_request():
    log = []

    class Neighbour:
        def ask_to_pause(self):
            log.append("neighbour stops")

        def wait_paused(self):
            pass

        def resume(self):
            log.append("neighbour goes on")

        def over(self):
            return False

    class Asking:
        said = iter([{"gate": "enter"}, {"gate": "leave"}, {"gate": "enter"}, {"gate": "leave"}, {"done": True}])
        channel = SimpleNamespace(send=lambda message: log.append(message))

        def receive(self, timeout_s):
            return next(self.said), []

    floor = Floor()
    floor.admit(Neighbour)
    client = ReferenceClient(Asking(), {}, None, floor)
    assert client.ask("time", -1, phase="warm") == {"done": True}
    once = ["neighbour stops", {"go": True}, "neighbour goes on", {"go": True}]
    assert log == [{"do": "time", "session": -1, "phase": "warm"}, *once, *once]


def test_a_reference_that_dies_with_the_gpu_gives_it_back():
    class Dying:
        said = iter([{"gate": "enter"}])
        channel = SimpleNamespace(send=lambda message: None)

        def receive(self, timeout_s):
            try:
                return next(self.said), []
            except StopIteration:
                raise ChannelError("closed") from None

        def end(self):
            return Ending("memory", -9, "")

    floor = Floor()
    with pytest.raises(TaskError, match="too much memory"):
        ReferenceClient(Dying(), {}, None, floor).ask("time", -1, phase="warm")
    with floor.alone():
        pass


@pytest.mark.interp
def test_inductors_own_timing_passes_the_gate():
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    from autotriton.judge.rehearsal import autotuned_alone

    log, original = [], CachingAutotuner.benchmark_all_configs
    tuner = object.__new__(CachingAutotuner)
    with autotuned_alone(log.append), pytest.raises(AttributeError):
        tuner.benchmark_all_configs()  # an empty one cannot time anything
    assert log == ["enter", "leave"]
    assert CachingAutotuner.benchmark_all_configs is original
