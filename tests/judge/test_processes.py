"""Which device and sandbox a judge gets, and processes that cannot be ended."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from autotriton.errors import JudgeError, PrerequisiteError, UsageError
from autotriton.judge import processes as processes_module
from autotriton.judge.processes import Gpu, Processes

GPU = Gpu("NVIDIA H200", "9.0", 141 << 30, 60 << 20, 132)


@pytest.fixture
def machine(monkeypatch):
    """Processes of a machine with the given GPU; nothing is started."""

    def machine(gpu: Gpu | None) -> Processes:
        made = Processes("none")
        monkeypatch.setattr(made, "gpu", lambda: gpu)
        return made

    return machine


@pytest.mark.parametrize(
    ("wanted", "gpu", "device"),
    [("auto", None, "cpu"), ("auto", GPU, "cuda"), ("cpu", GPU, "cpu"), ("cuda", GPU, "cuda")],
)
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


@pytest.mark.parametrize(("kind", "servers"), [("bwrap", 2), ("namespaces", 1)])
def test_under_bwrap_a_task_that_reads_its_folder_has_a_server_of_its_own(machine, monkeypatch, kind, servers):
    walls = []
    monkeypatch.setattr(
        processes_module, "ForkServer", lambda kind, *, interpret, readable, **_: walls.append(readable)
    )
    made = machine(None)
    made.kind = kind
    made.server(interpret=False)
    made.server(interpret=False, readable=("project",))
    made.server(interpret=False, readable=("project",))
    assert walls == [(), ("project",)][:servers]


def test_without_a_gpu_there_is_no_helper_library_to_build(machine):
    assert machine(None).triton_seed() is None


def test_a_process_the_driver_holds_is_counted_until_it_is_gone(machine):
    processes, gone = machine(GPU), []
    processes.note_stuck(SimpleNamespace(gone=lambda _: bool(gone)))
    assert (processes.stuck(), processes.stuck_total) == (1, 1)
    gone.append(True)
    processes.wait_until_free(timeout_s=1)
    assert (processes.stuck(), processes.stuck_total) == (0, 1)


@pytest.mark.interp
def test_nothing_starts_once_all_is_closed():
    """A thread that goes on while the judge ends must not leave a fork server behind."""
    held = Processes("none")
    server = held.server(interpret=False)
    held.close()
    assert server._process.poll() is not None
    with pytest.raises(JudgeError, match="closed"):
        held.server(interpret=False)


@pytest.mark.parametrize(("files", "rehearsed"), [(False, [False, True, True]), (True, [False, False, True])])
def test_servers_that_references_come_from_have_opened_one(machine, monkeypatch, files, rehearsed):
    opened = []
    monkeypatch.setattr(processes_module, "ForkServer", lambda kind, *, references, **_: opened.append(references))
    monkeypatch.setattr(processes_module, "_gpu_files", lambda: files)
    made = machine(None)
    made.server(interpret=True)
    made.server(interpret=False)
    made.server(interpret=False, compiles=True)
    assert opened == rehearsed
