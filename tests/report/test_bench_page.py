"""The page about benchmark runs, without a browser: complete, self-contained, of reasonable size, safe."""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.util
import json
import random
import re
import string
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from autotriton.bench.metrics import score
from autotriton.bench.records import BenchRun, Suite, SuiteTask
from autotriton.bench.tally import tally
from autotriton.report import blob as blobs
from autotriton.report import charts, series
from autotriton.report.bench_page import page

_spec = importlib.util.spec_from_file_location("made_up", Path(__file__).with_name("made_up.py"))
made_up = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(made_up)

VOID = {"meta", "html", "input"}


class Outline(HTMLParser):
    """Tags, attributes and text, and whether every tag that must be closed is."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        if tag != "html":
            assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text += data


def unpacked(html):
    (packed,) = re.findall(r'<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>', html)
    return json.loads(gzip.decompress(base64.b64decode(packed)))


@pytest.fixture(scope="module")
def run():
    return made_up.made_up(tasks=40)


@pytest.fixture(scope="module")
def html(run):
    return page([run])


def test_document_is_well_formed_and_fetches_nothing(html):
    outline = Outline(html)
    assert outline.open == []
    assert not {"link", "img", "iframe", "object", "base", "form"} & set(outline.tags)
    assert not {"src", "href", "style", "action"} & {name for name, _ in outline.attributes}
    assert not any(name.startswith("on") for name, _ in outline.attributes)
    assert not re.search(r"https?://|url\(|@import", html)


def test_only_our_script_may_run(html):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html).group(1)
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert "innerHTML" not in script
    assert "eval(" not in script


def test_score_and_origin_are_there(run, html):
    found, text = score(run), Outline(html).text
    for part in (
        f"{100 * found.checked.value:.1f}%",
        f"{found.checked.hits:g} of {found.checked.of}, {100 * found.checked.low:.1f} to ",
        f"{found.geometric_mean['compile'].value:.2f}x",
        "423217dabcdef",
        "version 9, policy strict",
        run.info.id,
        run.info.commit,
        "Made-Up GPU 80, 79.6 GiB",
        "triton 3.6.0",
        "random by itself: active dropout",
        "needs 96.0 GiB",
        "JudgeError: the GPU fell off the bus",
        "AutoTriton 8B, pass@10",
        "Dr. Kernel",
    ):
        assert part in text
    assert text.count("not measured") >= 4 * 2  # four channels, two ways of counting


def test_every_task_is_listed_once(run, html):
    names = re.findall(r'data-task="\d+">([^<]*)</button>', html)
    assert names == [task.id for task in run.suite.tasks]


def test_evidence_is_in_the_data(run, html):
    data = unpacked(html)
    (tasks,) = data["runs"]
    rows = tally(run)
    assert len(tasks) == len(rows)
    for task, row in zip(tasks, rows, strict=True):
        assert data["texts"][task["reference"]] == row.task.source
        assert [data["texts"][a["code"]] for a in task["attempts"]] == [a.candidate.code for a in row.attempts]
    correct = next(a for t in tasks for a in t["attempts"] if a.get("verdict", {}).get("outcome") == "correct")
    assert {"checks", "kernels", "timing", "baselines", "speedups"} <= set(correct["verdict"])


def test_hostile_names_are_escaped(run):
    name = "</title></script><script>alert(1)</script>\"'<b>&"
    task = SuiteTask(id=name, families=(f"fam{name}",), source=name)
    info = run.info.model_copy(update={"config": {"proposer": name}, "id": name})
    first = run.attempts[0]
    attempt = first.model_copy(
        update={"task": first.task.model_copy(update={"id": name}), "error": name, "verdict": None}
    )
    suite = Suite(name=name, version=name, tasks=(task,), skipped={name: name}, excluded={name: name})
    html = page([BenchRun(info, suite, (attempt,))])
    outline = Outline(html)
    assert outline.open == []
    assert outline.tags.count("script") == 2
    assert "alert" not in re.sub(r"&lt;script&gt;alert\(1\)&lt;/script&gt;", "", html)


def test_large_runs_make_pages_of_reasonable_size():
    run = made_up.made_up(tasks=250, k=10)
    html = page([run])
    assert len(html) < 4_000_000
    assert sum(len(task["attempts"]) for task in unpacked(html)["runs"][0]) > 2400


def test_incompressible_runs_keep_the_best_samples_code_only(monkeypatch):
    run = made_up.made_up(tasks=10, k=4)
    dice = random.Random(1)

    def noisy(attempt):
        code = "".join(dice.choices(string.printable, k=3000))
        return attempt.model_copy(update={"candidate": attempt.candidate.model_copy(update={"code": code})})

    rows = tally(replace(run, attempts=tuple(map(noisy, run.attempts))))
    whole = blobs.blob([rows])
    monkeypatch.setattr(blobs, "MOST_BYTES", 60_000)
    small = json.loads(gzip.decompress(base64.b64decode(blobs.blob([rows]))))
    assert len(whole) > 60_000
    for task in small["runs"][0]:
        kept = [place for place, attempt in enumerate(task["attempts"]) if "code" in attempt]
        assert kept == ([task["best"]] if task["attempts"] else [])


def test_endless_texts_are_cut_and_say_so(run):
    first = run.attempts[0]
    verdict = first.verdict.model_copy(update={"message": "m" * 10_000_000})
    candidate = first.candidate.model_copy(update={"code": "x" * 10_000_000})
    cut = replace(run, attempts=(first.model_copy(update={"candidate": candidate, "verdict": verdict}),))
    data = unpacked(page([cut]))
    attempt = data["runs"][0][0]["attempts"][0]
    assert len(data["texts"][attempt["code"]]) < 50_000
    assert "10000000 characters" in data["texts"][attempt["code"]]
    assert len(attempt["verdict"]["message"]) < 3000


def test_same_run_gives_the_same_page(run, html):
    assert page([run]) == html


def test_runs_of_one_proposer_share_rows_of_the_channel_table():
    runs = [made_up.made_up("kernelbench-l1", 10), made_up.made_up("kernelbench-l3", 10)]
    html = page(runs)
    assert html.count("</b>, checked</th>") == 1
    assert page([runs[0], runs[0]]).count("</b>, checked</th>") == 2


def test_own_tasks_have_no_channel_but_a_section():
    html = page([made_up.made_up("tasks", 10)])
    assert "</b>, checked</th>" not in html
    assert '<section class="run" id="run-0">' in html


def test_untimed_run_has_no_speed_charts(run):
    def untimed(attempt):
        if attempt.verdict is None:
            return attempt
        verdict = attempt.verdict.model_copy(update={"timing": None, "speedups": {}, "baselines": {}})
        return attempt.model_copy(update={"verdict": verdict})

    html = page([replace(run, attempts=tuple(map(untimed, run.attempts)))])
    assert "Speed-ups over" not in html
    assert ">over eager</button>" not in html
    assert "times as fast" not in html.split("<main>")[1].split("What the numbers mean")[0]
    assert "Outcomes by operator family" in html


def test_histogram_has_an_edge_at_one():
    counts = series.histogram([0.99, 1.0, 1.01, 1000.0, 0.0001])
    middle = len(counts) // 2
    assert (counts[middle - 1], counts[middle], counts[0], counts[-1]) == (1, 2, 1, 1)
    assert series.BIN_EDGES[middle] == 1.0


def test_curve_at_one_is_fast_1(run):
    rows = tally(run)
    found = series.curve(rows, "eager")
    at_one = series.THRESHOLDS.index(1.0)
    fast = score(run).faster(1.0)
    assert (found.sure[at_one], found.median[at_one]) == (fast.sure.value, fast.median.value)
    assert list(found.sure) == sorted(found.sure, reverse=True)


def test_families_count_every_sample(run):
    families = series.families(tally(run))
    assert sum(family.total for family in families) == 40
    drawing = charts.outcomes(families)
    assert all(escape in drawing for escape in ("1 not scored", "no answer"))


def test_names_with_control_characters_or_reversed_text_are_written_out(run):
    tasks = tuple(task.model_copy(update={"id": f"{task.id}\u202egnp\x1b[2J\x00"}) for task in run.suite.tasks)
    suite = run.suite.model_copy(update={"tasks": tasks, "skipped": {}, "excluded": {}})
    html = page([replace(run, suite=suite, attempts=())])
    assert not set("\u202e\x1b\x00") & set(html)
    assert "\\u202egnp\\x1b[2J\\x00" in html


def test_runs_of_one_suite_and_proposer_are_told_apart_by_their_ids():
    one = made_up.made_up("kernelbench-l1", 10)
    two = replace(one, info=one.info.model_copy(update={"id": "the-other-run"}))
    html = page([one, two])
    assert html.count("<small>the-other-run</small>") == 3, "in its tab and in its two rows of the channel table"
    assert "<small>the-other-run</small>" not in page([two])


def test_share_of_nothing_is_shown_as_nothing(run):
    task = next(attempt.task.id for attempt in run.attempts if attempt.verdict is None)
    tasks = tuple(known for known in run.suite.tasks if known.id == task)
    suite = run.suite.model_copy(update={"tasks": tasks, "skipped": {}, "excluded": {}})
    broken = tuple(a.model_copy(update={"official": None}) for a in run.attempts if a.task.id == task)
    section = page([replace(run, suite=suite, attempts=broken)]).split('<section class="run"')[1].split("<figure")[0]
    assert section.count("nothing scored") == 2
    assert "%" not in section


def test_answers_that_never_came_are_said():
    run = made_up.made_up(tasks=6, k=2)
    assert "never came" not in page([run])
    assert "3 of 12 answers asked for never came" in page([replace(run, attempts=run.attempts[:-3])])


def test_page_says_how_far_candidates_were_taken(run, html):
    assert "up to time" in html
    config = {**run.info.config, "tier": "rules"}
    assert "up to rules" in page([replace(run, info=run.info.model_copy(update={"config": config}))])
