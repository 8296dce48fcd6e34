"""The arithmetic of timing, and when a measurement is not believed. No GPU: bench and reference are fakes."""

from __future__ import annotations

import itertools
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from autotriton.errors import PrerequisiteError, UsageError
from autotriton.judge import timing
from autotriton.judge.floor import Floor, Turn
from autotriton.judge.options import JudgeOptions
from autotriton.judge.processes import Gpu
from autotriton.judge.rehearsal import variants_for
from autotriton.judge.timing import Contest, Samples, measure, speedup
from autotriton.judge.trial import Decided, Trial
from autotriton.types import Outcome, Task, Tier

TASK = Task(id="task", source="source")
H200 = Gpu("NVIDIA H200", "9.0", 141 << 30, 60 << 20, 132, 1.0)


# --- numbers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "value"), [(0.0, 1.0), (0.2, 1.8), (0.25, 2.0), (0.5, 3.0), (0.9, 4.6), (1.0, 5.0)])
def test_quantile_lies_between_its_neighbours(share, value):
    assert timing._quantile([1.0, 2.0, 3.0, 4.0, 5.0], share) == pytest.approx(value)


def test_quantile_of_one_value_is_that_value():
    assert timing._quantile([7.0], 0.3) == 7.0


def test_speedup_of_equal_blocks_is_one_and_its_interval_holds_one():
    blocks = [[1.0, 1.1, 1.2], [0.9, 1.0, 1.1], [1.0, 1.2, 1.3]]
    found = speedup(blocks, blocks)
    assert found.ratio == 1.0
    assert found.low < 1.0 < found.high


def test_speedup_is_the_median_of_block_medians_over_the_same():
    # Block medians 4, 6, 8 and 2, 2, 3: medians 6 and 2.
    found = speedup([[4.0, 4.0, 9.0], [6.0, 1.0, 6.0], [8.0]], [[2.0], [2.0, 2.0], [3.0]])
    assert found.ratio == 3.0
    assert 4 / 3 * 0.999 < found.low < 3.0 < found.high < 4.001


def test_constant_blocks_leave_only_the_resolution_of_the_clock():
    # Both medians 0.001 ms: slack = 1 + 0.00025 / 0.001 / 2 + the same = 1.25.
    found = speedup([[0.001]] * 4, [[0.001]] * 4)
    assert found.low == pytest.approx(1 / 1.25)
    assert found.high == pytest.approx(1.25)


def test_a_long_kernel_has_hardly_any_slack():
    found = speedup([[200.0]] * 4, [[100.0]] * 4)
    assert found.low == pytest.approx(2.0, rel=1e-5)
    assert found.high == pytest.approx(2.0, rel=1e-5)


def test_a_real_difference_is_faster_and_noise_is_not():
    slow = [[2.0, 2.01, 2.02]] * 6
    fast = [[1.0, 1.01, 1.02]] * 6
    assert speedup(slow, fast).low > 1.9
    assert speedup(fast, slow).high < 0.6
    noisy, other = [[1.0], [1.3], [0.9], [1.1]], [[1.05], [0.95], [1.2], [1.0]]
    assert speedup(noisy, other).low < 1.0 < speedup(noisy, other).high


def test_the_interval_is_the_same_every_time():
    one, two = [[1.0], [1.3], [0.9]], [[1.05], [0.95], [1.2]]
    assert speedup(one, two) == speedup(one, two)


def test_samples_become_a_timing():
    samples = Samples()
    samples.add({"device_ms": [1, 2, 3], "latency_ms": 5, "enqueue_ms": 0.5})
    samples.add({"device_ms": [4, 5], "latency_ms": 7, "enqueue_ms": 0.7})
    found = samples.timing()
    assert (found.median_ms, found.p20_ms, found.p80_ms, found.samples) == (
        3.0,
        pytest.approx(1.8),
        pytest.approx(4.2),
        5,
    )
    assert found.latency_ms == 6.0
    assert "cuda events" in found.method


# --- the contest ------------------------------------------------------------------------------------------


class FakeReference:
    """Answers as a reference process does; remembers the order of what it was asked."""

    def __init__(self, **more):
        self.about = {
            "compute_dtype": "float32",
            "required_bytes": 4.8e6,
            "flops": 0.0,
            "large": False,
        }  # 1 microsecond on an H200
        self.baseline_ms = {"eager": 0.02, "compile": 0.01}
        self.noise_ms = {"eager": 0.0, "compile": 0.0}
        self.failing: dict[str, str] = {}
        self.check = {"passed": True, "detail": ""}
        self.quiet = True
        self.lock, self.process = threading.RLock(), object()
        self.turns = [Turn(0.5, 0.25, 2.0), Turn(0.5, 0.0, 1.0)]
        self.log: list[str] = []
        self.seeds: list[int] = []
        self.__dict__.update(more)

    def ask(self, do, session, *, phase, baseline=None, seed=None, variant=None, answer=None, spin_ms=None):
        assert do == "time"
        self.log.append(baseline or phase)
        if seed is not None:
            self.seeds.append(seed)
        if phase == "quiet":
            return {"quiet": self.quiet}
        if phase == "fill":
            return {"calls": [], "state": []}
        if phase == "check":
            return {"check": self.check}
        if baseline in self.failing:
            return {"failed": self.failing[baseline]}
        if phase == "warm":
            return {"warmups": 4, "peak_bytes": 1 << 20}
        ms = self.baseline_ms[baseline]
        return {"device_ms": [ms] * 8, "latency_ms": ms + self.noise_ms[baseline], "enqueue_ms": ms}


class FakeBench:
    """A candidate's process that takes `ms` for each call, by its own clock."""

    session = 0
    process = None

    def __init__(self, reference, ms=0.005, latency_ms=None, enqueue_ms=0.004, peak_bytes=1 << 20):
        self.reference = reference
        self.device_ms = [ms] * 8
        self.latency_ms, self.enqueue_ms, self.peak_bytes = latency_ms or ms, enqueue_ms, peak_bytes

    def ask(self, message):
        self.reference.log.append(f"candidate {message['phase']}")
        if message["phase"] == "warm":
            return {"peak_bytes": self.peak_bytes}
        if message["phase"] == "answer":
            return {"leaves": [], "state": [], "structure": "tensor", "aliases": [], "secret": "not passed on"}
        import time

        time.sleep(sum(value for value in self.device_ms if value > 0) / 1e3 + 0.0005)
        latency_ms = self.latency_ms if isinstance(self.latency_ms, float) else next(self.latency_ms)
        return {"device_ms": self.device_ms, "latency_ms": latency_ms, "enqueue_ms": self.enqueue_ms}


def trial(**options) -> Trial:
    return Trial(
        TASK, "code", JudgeOptions(tier=Tier.TIME, **options), SimpleNamespace(gpu=lambda: H200, machine=lambda: None)
    )


def judge_with(gpu=H200):
    return SimpleNamespace(processes=SimpleNamespace(gpu=lambda: gpu, floor=Floor()))


def timed(reference, bench, gpu=H200, floor=None, **options):
    on = trial(**options)
    contest = Contest(on, reference, floor or Floor(), 1.0)
    contest.repetition(bench)
    contest.conclude(judge_with(gpu))
    return on


def test_an_honest_contest_reports_both_baselines():
    reference = FakeReference()
    found = timed(reference, FakeBench(reference)).verdict(Outcome.CORRECT, Tier.TIME, "fine")
    assert found.timing is not None
    assert found.timing.median_ms == pytest.approx(0.005)
    assert found.speedup("eager") == pytest.approx(4.0)
    assert found.speedups["compile"].ratio == pytest.approx(2.0)
    assert found.speedups["eager"].low > 1.0
    assert found.roofline_share == pytest.approx(0.2)
    assert found.notes == ()


def test_blocks_alternate_and_every_block_has_new_content():
    reference = FakeReference()
    timed(reference, FakeBench(reference))
    order = [entry for entry in reference.log if entry in ("candidate block", "eager", "compile")][2:]
    assert order[:6] == ["candidate block", "eager", "compile", "compile", "eager", "candidate block"]
    assert len(set(reference.seeds)) == len(reference.seeds)


def test_some_answers_of_timed_blocks_are_checked_and_nothing_else_is_passed_on():
    reference = FakeReference()
    seen = []
    reference.ask, ask = (lambda *args, **more: seen.append(more) or ask(*args, **more)), reference.ask
    timed(reference, FakeBench(reference))
    checked = [more for more in seen if more["phase"] == "check"]
    assert len(checked) in (1, 2)
    assert all(set(more["answer"]) == {"leaves", "state", "structure", "aliases"} for more in checked)
    assert all(0 <= more["variant"] < 8 for more in checked)


def test_wrong_answer_while_the_clock_ran_is_wrong():
    reference = FakeReference(check={"passed": False, "detail": "largest error 1.0"})
    with pytest.raises(Decided, match="while the clock ran is wrong: largest error") as found:
        timed(reference, FakeBench(reference))
    assert (found.value.outcome, found.value.tier) == (Outcome.WRONG, Tier.TIME)


def test_device_times_longer_than_the_judges_own_clock_are_suspect():
    reference = FakeReference()
    bench = FakeBench(reference)
    ask = bench.ask
    bench.ask = lambda message: {**ask(message), **({"device_ms": [50.0] * 8} if message["phase"] == "block" else {})}
    with pytest.raises(Decided, match="clock and the judge's own clock disagree") as found:
        timed(reference, bench)
    assert found.value.outcome is Outcome.SUSPECT


@pytest.mark.parametrize("ms", [0.0, -1.0])
def test_a_call_that_takes_no_time_is_suspect(ms):
    reference = FakeReference()
    bench = FakeBench(reference)
    bench.device_ms = [0.005] * 7 + [ms]
    with pytest.raises(Decided) as found:
        timed(reference, bench)
    assert found.value.outcome is Outcome.SUSPECT


def test_faster_than_twice_the_roofline_is_suspect():
    reference = FakeReference()  # at least 1 microsecond
    with pytest.raises(Decided, match=r"4\.0 times faster than the hardware") as found:
        timed(reference, FakeBench(reference, ms=0.00025))
    assert found.value.outcome is Outcome.SUSPECT


def test_up_to_twice_the_roofline_is_believed():
    reference = FakeReference()
    assert timed(reference, FakeBench(reference, ms=0.0006)).more["roofline_share"] == pytest.approx(1 / 0.6)


def test_a_gpu_without_figures_has_no_roofline():
    reference = FakeReference()
    other = Gpu("Fictional 9000", "9.0", 1, 1, 1)
    assert timed(reference, FakeBench(reference, ms=0.00025), gpu=other).more["roofline_share"] is None


def test_latency_that_events_do_not_see_is_suspect():
    reference = FakeReference()
    with pytest.raises(Decided, match=r"0\.99\d ms of work per call") as found:
        timed(reference, FakeBench(reference, ms=0.005, latency_ms=1.0))
    assert found.value.outcome is Outcome.SUSPECT


def test_noise_that_the_baselines_show_too_is_not_suspect():
    reference = FakeReference(noise_ms={"eager": 0.3, "compile": 0.16})
    timed(reference, FakeBench(reference, ms=0.005, latency_ms=0.182))  # 0.177 unseen, 0.16 of it in every process


def test_one_quiet_baseline_is_enough_to_see_hidden_work():
    reference = FakeReference(noise_ms={"eager": 0.3, "compile": 0.02})
    with pytest.raises(Decided, match=r"0\.157 ms of work per call") as found:
        timed(reference, FakeBench(reference, ms=0.005, latency_ms=0.182))
    assert found.value.outcome is Outcome.SUSPECT


def test_hidden_work_is_seen_through_noise():
    reference = FakeReference(noise_ms={"eager": 0.3, "compile": 0.16})
    with pytest.raises(Decided, match=r"0\.200 ms of work per call"):
        timed(reference, FakeBench(reference, ms=0.005, latency_ms=0.365))


def test_without_baselines_nothing_is_taken_for_noise():
    reference = FakeReference(noise_ms={"eager": 0.3, "compile": 0.16})
    with pytest.raises(Decided, match=r"0\.177 ms of work per call"):
        timed(reference, FakeBench(reference, ms=0.005, latency_ms=0.182), baselines=())


def test_a_disturbance_in_some_blocks_is_not_hidden_work():
    reference = FakeReference()
    timed(reference, FakeBench(reference, ms=0.005, latency_ms=itertools.cycle([0.4, 0.01, 0.3, 0.5])))


def test_work_hidden_in_most_calls_is_suspect():
    reference = FakeReference()
    with pytest.raises(Decided, match="of work per call"):
        timed(reference, FakeBench(reference, ms=0.005, latency_ms=itertools.cycle([0.4, 0.4, 0.4, 0.4, 0.01])))


def test_latency_of_slow_python_is_not_suspect():
    reference = FakeReference()
    timed(reference, FakeBench(reference, ms=0.005, latency_ms=1.0, enqueue_ms=0.98))


def test_a_baseline_that_cannot_be_measured_is_a_note():
    reference = FakeReference(failing={"compile": "Unsupported: no"})
    found = timed(reference, FakeBench(reference))
    assert found.notes == ["baseline compile could not be measured: Unsupported: no"]
    assert set(found.more["baselines"]) == set(found.more["speedups"]) == {"eager"}
    assert reference.log.count("compile") == 1


def test_much_more_memory_than_eager_is_a_note():
    reference = FakeReference()
    found = timed(reference, FakeBench(reference, peak_bytes=4 << 20))
    assert found.notes == ["peak memory is 4.00 times eager's"]
    assert found.peak_memory_bytes == 4 << 20


def test_every_block_runs_while_nobody_else_moves_and_nothing_else_does():
    reference = FakeReference()

    class Neighbour:
        def ask_to_pause(self):
            reference.log.append("stop")

        def wait_paused(self):
            pass

        def resume(self):
            reference.log.append("go")

        def over(self):
            return False

    floor = Floor()
    floor.admit(Neighbour)
    timed(reference, FakeBench(reference), floor=floor)
    stopped, seen = False, []
    for entry in reference.log:
        stopped = entry == "stop" or (stopped and entry != "go")
        if entry not in ("stop", "go"):
            seen.append((entry, stopped))
    warm_up = seen.index(("quiet", True))  # loading and warming up come first, beside the neighbour
    assert not any(alone for _, alone in seen[:warm_up])
    assert all(alone for entry, alone in seen[warm_up:] if entry in ("candidate block", "eager", "compile"))
    assert all(not alone for entry, alone in seen if entry in ("candidate answer", "check"))


def test_a_candidate_that_tunes_itself_warms_up_alone():
    reference = FakeReference()
    on = trial()
    on.code = "@triton.autotune(configs=[])"
    Contest(on, reference, Floor(), 1.0).repetition(FakeBench(reference))
    assert reference.log[:3] == ["quiet", "fill", "candidate warm"]


def test_noise_of_others_is_a_note():
    reference = FakeReference(quiet=False)
    (note,) = timed(reference, FakeBench(reference), timing_s=0.0).notes
    assert note.startswith("other work ran on the GPU in ")


def test_the_baselines_memory_is_recorded():
    reference = FakeReference(failing={"compile": "Unsupported: no"})
    found = timed(reference, FakeBench(reference)).verdict(Outcome.CORRECT, Tier.TIME, "fine")
    assert found.baseline_memory_bytes == {"eager": 1 << 20}


def test_blocks_stop_when_the_time_is_spent_but_not_before_the_third():
    reference = FakeReference()
    timed(reference, FakeBench(reference), timing_s=0.0)
    assert reference.log.count("candidate block") == 3


# --- measure ----------------------------------------------------------------------------------------------


def test_an_unknown_baseline_is_a_usage_error():
    with pytest.raises(UsageError, match="unknown baseline 'fastest'"):
        measure(trial(baselines=("fastest",)), FakeReference(), judge_with())


def test_timing_without_a_gpu_is_a_missing_prerequisite():
    with pytest.raises(PrerequisiteError):
        measure(trial(), FakeReference(), judge_with(None))


def test_every_repetition_is_a_fresh_process():
    reference, opened = FakeReference(), []
    judge = judge_with()

    @contextmanager
    def bench(*args):
        opened.append(args[2:])
        yield FakeBench(reference)

    judge.bench = bench
    on = trial(repetitions=3, timing_s=0.0)
    measure(on, reference, judge)
    assert opened == [("cuda", Tier.TIME)] * 3
    assert on.more["timing"].samples == 3 * 3 * 8
    assert on.stage_seconds["time"] > 0
    assert 0 < on.stage_seconds["time: slices, alone"] < on.stage_seconds["time"]
    choices = [on.stage_seconds[f"time: baseline's choices, {part}"] for part in ("waited", "stopping", "alone")]
    assert choices == [1.0, 0.25, 3.0]


@pytest.mark.parametrize(
    ("inputs", "outputs", "count"),
    [(1 << 20, 1 << 20, 8), (1 << 20, 4 << 30, 1), (4 << 30, 4, 1), (64 << 20, 1 << 20, 4), (1 << 20, 512 << 20, 2)],
)
def test_large_answers_count_like_large_inputs(inputs, outputs, count):
    """All answers of a block are kept: eight of four gigabytes are more than the task's share of the GPU."""
    assert variants_for(inputs, outputs) == count
