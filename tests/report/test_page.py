"""The page: everything measured is there, nothing is fetched, nothing candidates wrote is HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from autotriton.errors import ProposerError
from autotriton.report.page import page
from autotriton.store import RunInfo
from autotriton.types import Machine, Outcome


class Outline(HTMLParser):
    """Tags, attributes and text, and whether every tag that must be closed is."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "html"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        if tag != "html":
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_everything_measured_is_there(result):
    text = Outline(page(result())).text
    for part in (
        "mine:rms_norm: verified",
        "correct in every case",
        "2.00x (1.90 to 2.10)",
        "1.50x (1.40 to 1.60)",
        "85%",
        "3.0 MiB",
        "4.00e-06",
        "3.00e-06",
        "sm_90",
        "reduced shapes",
        "torch.compile",
    ):
        assert part in text


def test_document_is_well_formed_and_fetches_nothing(result):
    html = page(result())
    outline = Outline(html)
    assert outline.open == []
    assert not {"script", "link", "img", "iframe", "object"} & set(outline.tags)
    assert not {"src", "href", "onload", "onclick"} & {name for name, _ in outline.attributes}
    assert not re.search(r"https?://|url\(|@import", html)
    assert "default-src 'none'" in html
    assert "prefers-color-scheme: dark" in html


def test_bars_are_as_long_as_the_times(result):
    widths = [float(w) for w in re.findall(r'<rect class="\w+" [^>]*width="([\d.]+)"', page(result()))]
    eager, compiled, ours = widths
    assert abs(compiled / eager - 0.75) < 0.01
    assert abs(ours / eager - 0.5) < 0.01


def test_without_timing_there_is_no_chart(result, attempt):
    html = page(result(attempt(timed=False)))
    assert "Time per call" not in html
    assert "Error against fp64" in html


def test_every_attempt_has_a_row_with_its_reason(result, attempt, make_verdict):
    wrong = attempt("b", verdict=make_verdict(Outcome.WRONG, message="wrong on case zeros"))
    text = Outline(page(result(attempt(), wrong, attempt("c", error="worker died")))).text
    assert "wrong on case zeros" in text
    assert "not judged" in text
    assert "worker died" in text


def test_page_without_a_winner_says_so(result, attempt, make_verdict):
    wrong = attempt(verdict=make_verdict(Outcome.WRONG))
    html = page(result(wrong, winner=None, failures=[("endpoint", ProposerError("is down"))]))
    assert "no verified kernel" in html
    assert "endpoint: is down" in html
    assert "The kernel" not in html


def test_text_of_candidates_is_never_html(result, attempt, make_verdict):
    evil = "</td><script>alert(1)</script>"
    wrong = attempt(evil, verdict=make_verdict(Outcome.WRONG, message=evil, notes=(evil,)), proposer=evil)
    html = page(result(attempt(evil, proposer=evil), wrong, failures=[(evil, ProposerError(evil))]))
    assert "<script" not in html
    assert Outline(html).text.count(evil) >= 5


def test_where_the_numbers_come_from_is_said(result):
    info = RunInfo(
        id="run-1",
        verb="optimize",
        config={},
        commit="abc123",
        started="2026-01-01T00:00:00+00:00",
        machine=Machine(gpu="H200", cpu="some CPU", cores=8),
        versions={"torch": "2.13.0"},
        judge_version="1.0",
    )
    text = Outline(page(result(), info)).text
    for part in ("run-1", "H200", "some CPU", "abc123", "torch 2.13.0", "judge 1.0"):
        assert part in text


def test_errors_of_zero_and_infinity_can_be_drawn(result, attempt):
    kept = attempt()
    checks = tuple(
        c.model_copy(update={"max_error": e, "reference_max_error": 0.0, "allowed_error": None})
        for c, e in zip(kept.verdict.checks, (0.0, float("inf")), strict=True)
    )
    verdict = kept.verdict.model_copy(update={"checks": checks})
    assert Outline(page(result(attempt(verdict=verdict)))).open == []
