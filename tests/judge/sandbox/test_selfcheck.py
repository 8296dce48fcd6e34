"""The sandbox of this machine holds, and the self-check would notice one that does not."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest

from autotriton.errors import PrerequisiteError
from autotriton.judge import sandbox
from autotriton.judge.sandbox import selfcheck
from autotriton.judge.sandbox.limits import Limits

pytestmark = pytest.mark.interp

MONITORED = {"honest code", "inherited descriptors", "process bomb", "daemon", "memory bomb", "disk bomb", "hang"}
"""What the monitor alone sees to, whatever the kind of sandbox."""


def available(kind: str) -> bool:
    try:
        return sandbox.resolve(kind) == kind
    except PrerequisiteError:
        return False


@pytest.mark.parametrize("kind", ["bwrap", "namespaces", "landlock"])
def test_every_probe_passes(kind: str) -> None:
    if not available(kind):
        pytest.skip(f"no {kind} on this machine")
    start = time.monotonic()
    failed = [probe for probe in selfcheck.run(kind) if not probe.passed]
    assert failed == []
    assert time.monotonic() - start < 60  # about 4 s on an idle machine


def test_without_a_sandbox_the_probes_fail_the_monitor_still_ends_bombs_and_nothing_is_left_behind() -> None:
    folders = [Path.home(), Path(tempfile.gettempdir()), Path.cwd(), Path("/dev/shm"), Path(selfcheck.__file__).parent]

    def traces() -> set[Path]:
        return {path for folder in folders for path in folder.iterdir() if "probe-" in path.name}

    before, descriptors = traces(), os.listdir("/proc/self/fd")
    passed = {probe.name for probe in selfcheck.run("none") if probe.passed}
    assert passed == {*MONITORED, "output flood"}
    assert traces() == before
    assert len(os.listdir("/proc/self/fd")) == len(descriptors)


def test_a_machine_without_a_sandbox_gets_one_failed_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "detect", lambda: "none")
    probes = list(selfcheck.run())
    assert [(probe.name, probe.passed) for probe in probes] == [("sandbox", False)]
    assert "no sandbox" in probes[0].detail


def test_a_probe_that_dies_without_a_word_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def starved(bench: selfcheck._Bench) -> selfcheck._Finding:
        return bench.try_("no such probe", Limits(deadline_s=5)).refused("all is well")

    monkeypatch.setattr(selfcheck, "_CHECKS", {"starved": starved})
    (probe,) = selfcheck.run("none")
    assert not probe.passed
    assert "KeyError" in probe.detail
