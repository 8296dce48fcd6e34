"""Successive halving with a fake clock: numbers worked by hand."""

from __future__ import annotations

import pytest

from autotriton.tune.search import Measurement, by_promise, halve, time_slices, winner, worth_tuning


class Bench:
    """Settings with known times; every run of one costs that time."""

    def __init__(self, times, noise=0.0):
        self.times, self.noise = times, noise
        self.now = 0.0
        self.runs: dict[int, list[int]] = {}
        self.found: dict[int, Measurement] = {}

    def measure(self, setting, repetitions, limit):
        ms = self.times[setting]
        self.runs.setdefault(setting, []).append(repetitions)
        if ms is None:
            return None
        first = ms * (1 + self.noise if repetitions == 3 else 1)
        self.now += ms if first > limit else ms * repetitions
        self.found[setting] = Measurement(first, repetitions)
        return first

    def run(self, budget=1e9):
        return halve(range(len(self.times)), self.measure, lambda: self.now < budget)


def test_every_setting_is_tried_and_the_fastest_is_measured_most():
    bench = Bench([10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 11.0, 12.0, 13.0])
    assert bench.run()
    assert all(runs[0] == 3 for runs in bench.runs.values())
    assert bench.runs[8] == bench.runs[7] == bench.runs[6] == [3, 10, 30]
    assert bench.runs[5] == [3, 10]
    assert bench.runs[9] == [3]
    assert winner(bench.found) == 8


def test_the_files_own_setting_is_measured_in_every_round():
    bench = Bench([99.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    bench.run()
    assert bench.runs[0] == [3, 10, 30]


def test_a_setting_that_cannot_be_used_is_never_tried_again():
    bench = Bench([5.0, None, 4.0])
    assert bench.run()
    assert bench.runs[1] == [3]
    assert winner(bench.found) == 2


def test_when_nothing_can_be_used_there_is_no_winner():
    bench = Bench([None, None])
    assert bench.run()
    assert winner(bench.found) is None


def test_far_slower_settings_are_given_up_after_one_run():
    bench = Bench([1.0, 100.0])
    bench.run()
    # 1 ms runs 3 + 10 + 30 times, 100 ms once per round.
    assert bench.now == pytest.approx(43 + 300)


def test_the_budget_ends_the_search_between_two_settings():
    bench = Bench([10.0, 9.0, 8.0, 7.0])
    assert not bench.run(budget=50.0)
    assert set(bench.found) == {0, 1}  # 30 ms, then 27 ms more
    assert winner(bench.found) == 1


def test_a_search_cut_off_in_a_later_round_keeps_the_best_so_far():
    bench = Bench([10.0, 4.0, 5.0])
    assert not bench.run(budget=60.0)  # 57 ms for the first round, then the fastest gets ten runs
    assert bench.found[1].repetitions == 10
    assert winner(bench.found) == 1


def test_a_gain_within_the_noise_leaves_the_file_as_it_is():
    assert winner({0: Measurement(1.0, 30), 1: Measurement(0.995, 30)}) == 0
    assert winner({0: Measurement(1.0, 30), 1: Measurement(0.97, 30)}) == 1


def test_thorough_measurements_count_more_than_lucky_ones():
    assert winner({0: Measurement(2.0, 30), 1: Measurement(1.5, 30), 2: Measurement(1.0, 3)}) == 1


def test_wrappers_below_a_fiftieth_of_the_time_are_left_alone():
    shares = worth_tuning({"small": 1.0, "middle": 19.0, "large": 80.0})
    assert list(shares) == ["large", "middle"]
    assert shares["large"] == pytest.approx(0.8)
    assert worth_tuning({}) == {}
    assert worth_tuning({"nothing": 0.0}) == {}


def test_time_is_shared_out_by_share():
    assert time_slices({"a": 0.6, "b": 0.2}, 8.0) == pytest.approx({"a": 6.0, "b": 8.0})


def test_the_more_time_a_wrapper_takes_the_earlier_its_settings_come():
    line = by_promise({"hot": [0, 1, 2, 5], "cold": [0, 1]}, {"hot": 0.75, "cold": 0.25})
    # hot at 1.33, 2.67, 4, 5.33; cold at 4, 8.
    assert line == [("hot", 0), ("hot", 1), ("cold", 0), ("hot", 2), ("hot", 5), ("cold", 1)]
