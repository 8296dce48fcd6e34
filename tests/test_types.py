"""The records: frozen, closed, and hand-computed numbers."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import ValidationError

import autotriton
from autotriton.types import Candidate, Mode, Outcome, Task, Tier, Timing


def timing(median_ms: float) -> Timing:
    return Timing(median_ms=median_ms, p20_ms=median_ms, p80_ms=median_ms, samples=10, method="events")


def test_speedup_is_baseline_over_candidate(make_verdict):
    verdict = make_verdict(timing=timing(2.0), baselines={"eager": timing(5.0)})
    assert verdict.speedup() == 2.5


def test_speedup_of_what_was_not_measured_is_none(make_verdict):
    assert make_verdict().speedup() is None
    assert make_verdict(timing=timing(2.0), baselines={"eager": timing(5.0)}).speedup("compile") is None


def test_wrong_candidate_has_no_speedup_however_fast(make_verdict):
    verdict = make_verdict(Outcome.WRONG, timing=timing(0.1), baselines={"eager": timing(5.0)})
    assert verdict.speedup() is None


@pytest.mark.parametrize("outcome", list(Outcome))
def test_correct_is_the_only_accepted_outcome(make_verdict, outcome):
    assert make_verdict(outcome).accepted == (outcome == "correct")


def test_json_of_a_verdict_starts_with_accepted(make_verdict):
    fields = make_verdict(Outcome.WRONG).to_json()
    assert next(iter(fields)) == "accepted"
    assert fields["accepted"] is False
    assert fields["outcome"] == "wrong"


def test_attempt_survives_the_way_to_disk_and_back(make_attempt):
    attempt = make_attempt()
    assert type(attempt).model_validate_json(attempt.model_dump_json()) == attempt


def test_records_are_frozen(make_verdict):
    with pytest.raises(ValidationError):
        make_verdict().outcome = Outcome.CORRECT


def test_unknown_fields_are_refused():
    with pytest.raises(ValidationError, match="surprise"):
        Task.model_validate({"id": "a", "source": "b", "surprise": 1})


def test_candidate_id_depends_on_task_and_code_only():
    first = Candidate(task_id="a", code="x")
    assert first.id == Candidate(task_id="a", code="x", proposer="other").id
    assert first.id != Candidate(task_id="b", code="x").id
    assert first.id != Candidate(task_id="a", code="y").id


@pytest.mark.parametrize("change", [{"source": "t"}, {"entry": "F"}, {"mode": Mode.EVAL}, {"tf32": True}])
def test_task_hash_changes_with_everything_that_influences_a_verdict(change):
    task = Task(id="a", source="s")
    assert task.hash != task.model_copy(update=change).hash


def test_task_hash_ignores_what_influences_no_verdict():
    task = Task(id="a", source="s")
    assert task.hash == task.model_copy(update={"id": "b", "tags": ("x",)}).hash


def test_each_tier_includes_the_ones_before_it():
    assert Tier.TIME.reaches(Tier.RULES)
    assert Tier.RUN.reaches(Tier.RUN)
    assert not Tier.RULES.reaches(Tier.INTERPRET)


def test_package_exports_are_lazy_and_named_in_dir():
    code = "import sys, autotriton; autotriton.Task, autotriton.load_task; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert {"judge", "judge_many", "JudgeOptions", "load_task", "__version__"} <= set(dir(autotriton))


def test_unknown_export_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = autotriton.nonsense
