"""Devices, references and their errors."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from autotriton.errors import JudgeError, PrerequisiteError, TaskError, UsageError
from autotriton.judge.forks import Ending
from autotriton.judge.processes import Gpu, Processes, TooLarge, _raise_if_error, _reference_died
from autotriton.types import Task

GPU = Gpu("NVIDIA H200", "9.0", 141 << 30, 60 << 20, 132)
SOURCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    return [torch.randn(8, 16)]
"""
TASK = Task(id="double", source=SOURCE)


@pytest.fixture
def machine(monkeypatch):
    """Processes of a machine with the given GPU; nothing is started."""

    def machine(gpu: Gpu | None) -> Processes:
        made = Processes("none")
        monkeypatch.setattr(made, "gpu", lambda: gpu)
        return made

    return machine


@pytest.mark.parametrize(("wanted", "gpu", "device"), [("auto", None, "cpu"), ("auto", GPU, "cuda"), ("cpu", GPU, "cpu"), ("cuda", GPU, "cuda")])
def test_the_device_follows_from_wish_and_machine(machine, wanted, gpu, device):
    assert machine(gpu).device(wanted) == device


def test_cuda_without_a_gpu_is_a_missing_prerequisite(machine):
    with pytest.raises(PrerequisiteError, match="no CUDA device found") as found:
        machine(None).device("cuda")
    assert "--device cpu" in (found.value.hint or "")


def test_an_unknown_device_is_a_usage_error(machine):
    with pytest.raises(UsageError, match="unknown device 'tpu'"):
        machine(GPU).device("tpu")


def test_an_unknown_sandbox_is_a_usage_error():
    with pytest.raises(UsageError, match="unknown sandbox 'glass'"):
        Processes("glass")


def test_without_a_gpu_there_is_no_helper_library_to_build(machine):
    assert machine(None).triton_seed() is None


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
def test_how_a_reference_died_says_who_can_fix_it(ending, kind, words):
    with pytest.raises(kind, match=words):
        raise _reference_died(SimpleNamespace(end=lambda: ending))


def test_a_process_the_driver_holds_is_counted_until_it_is_gone(machine):
    processes, gone = machine(GPU), []
    processes.note_stuck(SimpleNamespace(gone=lambda _: bool(gone)))
    assert (processes.stuck(), processes.stuck_total) == (1, 1)
    gone.append(True)
    processes.wait_until_free(timeout_s=1)
    assert (processes.stuck(), processes.stuck_total) == (0, 1)


@pytest.fixture(scope="module")
def real():
    with_servers = Processes()
    yield with_servers
    with_servers.close()


def opened(processes: Processes, task: Task = TASK, at_most: int | None = None, seed: int = 1):
    return processes.reference(task, "cpu", seed=seed, cases=4, admit=False, at_most=at_most)


@pytest.mark.interp
def test_a_reference_is_kept_until_it_is_forgotten(real):
    one = opened(real)
    assert opened(real) is one
    assert opened(real, seed=2) is not one
    real.forget(TASK)
    again = opened(real)
    assert again is not one
    assert again.about["elements"] == 2 * 8 * 16
    assert len(again.about["cases"]) == 4


@pytest.mark.interp
def test_a_task_larger_than_asked_for_is_told_before_it_is_run(real):
    source = SOURCE.replace("(8, 16)", "(1 << 20, 1 << 20)")  # four terabytes
    large = Task(id="large", source=source)
    for _ in range(2):
        with pytest.raises(TooLarge):
            opened(real, large, at_most=1 << 20)
    assert opened(real, at_most=1 << 20).about["elements"] == 256


@pytest.mark.interp
def test_a_reference_that_raises_leaves_nothing_behind(real):
    broken = Task(id="broken", source=SOURCE.replace("return x * 2", "raise ValueError('no')"))
    for _ in range(2):
        with pytest.raises(TaskError, match="ValueError: no"):
            opened(real, broken)
    assert broken.hash not in {key[0] for key in real._references}


@pytest.mark.interp
def test_only_so_many_references_are_kept(real, monkeypatch):
    from autotriton.judge import processes

    monkeypatch.setattr(processes, "_REFERENCES_KEPT", 2)
    real.forget_all()
    first = opened(real, seed=10)
    for seed in (11, 12):
        opened(real, seed=seed)
    assert opened(real, seed=10) is not first
    assert len(real._references) == 2
