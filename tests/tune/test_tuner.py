"""The whole way, for real: a worker process, recorded calls, search, recovery, rewriting, cache. In the interpreter."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import pytest

from autotriton import machine
from autotriton.errors import PrerequisiteError, UsageError
from autotriton.tune import TileCache, supervise, tiles, tune
from autotriton.types import Candidate, Machine, TokenUsage

pytestmark = pytest.mark.interp
BUDGET_S = 40.0


@pytest.fixture
def cache(tmp_path):
    return TileCache(tmp_path / "cache")


@pytest.fixture
def workers(monkeypatch):
    """The workers that were started."""
    started = []
    original = supervise.Session

    def session(*args):
        started.append(args[0])
        return original(*args)

    monkeypatch.setattr(supervise, "Session", session)
    return started


def tuned(task, candidate, cache, **more) -> tuple[Candidate, list[str]]:
    said: list[str] = []
    known = {"budget_s": BUDGET_S, "device": "cpu", "cache": cache, "progress": said.append, **more}
    return tune(task, candidate, **known), said


def test_the_best_setting_is_written_into_the_file_and_found_again_without_a_process(
    task, make_candidate, make_setting, cache, workers
):
    given = make_candidate(make_setting(64), make_setting(512))
    given = given.model_copy(update={"completion": "answer", "usage": TokenUsage(prompt=1, completion=2)})
    found, said = tuned(task, given, cache)
    assert tiles.read(found.code) == {"relu_scale": make_setting(512)}, said
    assert f"# measured on Triton's interpreter, triton {machine.version('triton')}\nTILES = {{" in found.code
    assert (found.parent_id, found.choices, found.task_id) == (given.id, given.choices, given.task_id)
    assert (found.completion, found.usage) == (None, None)
    assert len(workers) == 1
    again, _ = tuned(task, given, cache)
    assert again == found
    assert len(workers) == 1


def test_a_wrapper_known_from_another_task_is_not_measured_again(task, make_candidate, make_setting, cache, workers):
    given = make_candidate(make_setting(512))
    found, _ = tuned(task, given, cache)
    elsewhere = task.model_copy(update={"source": task.source + "\n# another task\n"})
    again, said = tuned(elsewhere, given, cache)
    assert again.code == found.code
    assert len(workers) == 2
    assert not any("measured" in line for line in said)


def test_retuning_measures_again_and_choices_no_longer_offered_do_not_count(
    task, make_candidate, make_setting, cache, workers
):
    tuned(task, make_candidate(make_setting(512)), cache)
    tuned(task, make_candidate(make_setting(512)), cache, retune=True)
    assert len(workers) == 2
    found, _ = tuned(task, make_candidate(make_setting(256)), cache)
    assert tiles.read(found.code)["relu_scale"] == make_setting(256)
    assert len(workers) == 3


@pytest.mark.slow
def test_settings_that_kill_hang_raise_or_lie_cost_themselves_only(task, make_candidate, make_setting, cache, workers):
    misbehaved = [make_setting(512, mode) for mode in ("dies", "hangs", "raises", "lies")]
    given = make_candidate(*misbehaved, make_setting(256))
    found, said = tuned(task, given, cache, stall_s=3.0)
    assert tiles.read(found.code) == {"relu_scale": make_setting(256)}
    text = "\n".join(said)
    assert "it ended with status 7" in text
    assert "it did not answer any more" in text
    assert "ValueError: no such mode" in text
    assert "another result" in text
    assert len(workers) == 3
    # What the first worker had measured, the last one was told.
    assert workers[-1].known["relu_scale"][0][1] == 3
    assert set(workers[-1].dropped["relu_scale"]) == {1, 2}


def test_when_the_time_is_up_the_candidate_comes_back(task, make_candidate, make_setting, cache):
    given = make_candidate(make_setting(512))
    found, _ = tuned(task, given, cache, budget_s=0.01)
    assert found is given
    # Nothing was measured, so nothing stands in the way of somebody with more time.
    assert tuned(task, given, cache)[0].code != given.code


def test_a_file_that_cannot_run_comes_back_with_the_reason(task, make_candidate, make_setting, code, cache):
    broken = make_candidate(
        make_setting(64), code=code.replace("return [32]", "").replace("y if tiles", "nothing if tiles")
    )
    found, said = tuned(task, broken, cache)
    assert found is broken
    assert "NameError" in said[-1]
    assert not cache.path.exists()


def test_what_is_best_already_stays_the_same_candidate(task, make_candidate, make_setting, cache, code):
    best = code.replace('"BLOCK": 16,', '"BLOCK": 512,')
    given = make_candidate(make_setting(512), code=best)
    assert tuned(task, given, cache)[0] is given


def test_the_gate_is_passed_shared_first_and_alone_to_measure(task, make_candidate, make_setting, cache):
    passed = []

    class Gate:
        def started(self, group):
            assert group > 1

        @contextlib.contextmanager
        def shared(self):
            passed.append("shared")
            yield
            passed.append("out")

        @contextlib.contextmanager
        def alone(self):
            passed.append("alone")
            yield
            passed.append("out")

    tuned(task, make_candidate(make_setting(256)), cache, gate=Gate())
    assert passed == ["shared", "out"] * 3 + ["alone", "out"]


# --- without any process --------------------------------------------------------------------------------------


def test_a_candidate_without_choices_is_left_alone(task, code, cache, workers):
    given = Candidate(task_id="relu_scale", code=code)
    assert tuned(task, given, cache)[0] is given
    empty = given.model_copy(update={"choices": {"relu_scale": ()}})
    assert tuned(task, empty, cache)[0] is empty
    assert not workers


@pytest.mark.parametrize("file", ["x = 1\n", "TILES = {\n", 'TILES = {"other": {"B": 1}}\n'])
def test_choices_for_settings_the_file_does_not_have_are_reported(
    task, make_candidate, make_setting, cache, file, workers
):
    given = make_candidate(make_setting(64), code=file)
    found, said = tuned(task, given, cache)
    assert found is given
    assert said[0].startswith("not tuned: ")
    assert not workers


def test_without_a_gpu_nothing_happens(task, make_candidate, make_setting, cache, monkeypatch, workers):
    monkeypatch.setattr(machine, "describe", lambda: Machine(gpu=None))
    given = make_candidate(make_setting(64))
    assert tuned(task, given, cache, device="auto") == (given, ["not tuned: no GPU"])
    with pytest.raises(PrerequisiteError):
        tuned(task, given, cache, device="cuda")
    with pytest.raises(UsageError):
        tuned(task, given, cache, device="tpu")
    assert not workers


def test_the_tuner_imports_no_torch():
    text = "import sys, autotriton.tune; sys.exit('torch' in sys.modules or 'triton' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0
