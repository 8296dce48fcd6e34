"""The page in a real browser: clicks through it, fails on any error of its console. Skipped without a browser."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from autotriton.report.bench_page import page

_BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    _BROWSER is None or _DRIVER is None or importlib.util.find_spec("selenium") is None,
    reason="no browser: install chromium, chromium-driver and selenium to click through the page",
)
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1280,900",
]


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = _BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(_DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A page of two runs, one with several samples, both full of hostile text."""
    spec = importlib.util.spec_from_file_location("made_up", Path(__file__).with_name("made_up.py"))
    made_up = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made_up)
    runs = [made_up.made_up(tasks=40), made_up.made_up("kernelbench-l2", 12, 4)]
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(runs), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def opened(driver, address):
    """The page, freshly loaded; afterwards the console must be free of errors."""
    driver.get_log("browser")
    driver.get(address)
    yield driver
    assert [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"] == []


def css(driver, selector):
    return driver.find_elements("css selector", selector)


def shown(driver, selector):
    return [found for found in css(driver, selector) if found.is_displayed()]


def choose(element, value):
    from selenium.webdriver.support.ui import Select

    Select(element).select_by_value(value)


def wait(driver, condition):
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(driver, 20).until(lambda _: condition())


def test_one_run_is_shown_and_the_other_by_its_tab(opened):
    first, second = css(opened, "[role=tab]")
    assert [panel.get_attribute("id") for panel in shown(opened, ".run")] == ["run-0"]
    second.click()
    assert [panel.get_attribute("id") for panel in shown(opened, ".run")] == ["run-1"]
    assert (first.get_attribute("aria-selected"), second.get_attribute("aria-selected")) == ("false", "true")
    second.send_keys("\ue012")  # the left arrow
    assert [panel.get_attribute("id") for panel in shown(opened, ".run")] == ["run-0"]
    assert opened.switch_to.active_element == first


def test_sorting_by_speed_puts_the_fastest_first_and_the_unmeasured_last(opened):
    place = [button.text for button in css(opened, "#run-0 .sort")].index("over eager")
    button = css(opened, "#run-0 .sort")[place]

    def values():
        cells = [row.find_elements("css selector", "th, td")[place] for row in css(opened, "#run-0 tr.task")]
        return [cell.get_attribute("data-value") for cell in cells]

    for order, said in ((True, "descending"), (False, "ascending")):
        button.click()
        numbers = [float(value) for value in values() if value is not None]
        assert len(numbers) > 5
        assert numbers == sorted(numbers, reverse=order)
        assert None not in values()[: len(numbers)]
        assert css(opened, "#run-0 th[aria-sort]")[place].get_attribute("aria-sort") == said


def test_sorting_by_name_counts_numbers_as_numbers(opened):
    css(opened, "#run-0 .sort")[0].click()
    names = [button.text for button in css(opened, "#run-0 .open")]
    assert [int(name.split("_")[0]) for name in names] == sorted(range(1, 41))


def test_filters_by_outcome_family_and_text(opened):
    count = css(opened, "#run-0 .count")[0]
    assert count.text == "40 tasks"
    choose(css(opened, "#run-0 .by-outcome")[0], "correct")
    correct = shown(opened, "#run-0 tr.task")
    assert 0 < len(correct) < 40
    assert {row.get_attribute("data-outcome") for row in correct} == {"correct"}
    assert count.text == f"{len(correct)} of 40 tasks"
    choose(css(opened, "#run-0 .by-outcome")[0], "")
    choose(css(opened, "#run-0 .by-family")[0], "matmul")
    assert all("matmul" in row.get_attribute("data-families") for row in shown(opened, "#run-0 tr.task"))
    choose(css(opened, "#run-0 .by-family")[0], "")
    css(opened, "#run-0 .find")[0].send_keys("no such task")
    assert shown(opened, "#run-0 tr.task") == []
    assert count.text == "0 of 40 tasks"


def test_a_correct_task_opens_with_its_evidence_by_keyboard(opened):
    row = css(opened, "#run-0 tr.task[data-outcome=correct]")[0]
    button = row.find_element("css selector", ".open")
    button.send_keys("\ue007")  # enter
    (detail,) = wait(opened, lambda: css(opened, ".detail .codes"))
    text = css(opened, "tr.detail")[0].text
    for part in (
        "Checks against fp64",
        "spikes",
        "2.00e-5",
        "torch.compile",
        "scale_relu",
        "sm_90",
        "Reference",
        "Candidate",
    ):
        assert part in text
    assert "class ModelNew" in detail.text
    assert css(opened, ".detail .k")[0].text in ("import", "from", "class", "def")
    assert button.get_attribute("aria-expanded") == "true"
    button.send_keys("\ue007")
    assert css(opened, "tr.detail") == []


def test_every_task_opens_and_hostile_text_is_shown_as_text(opened):
    scripts = len(css(opened, "script"))
    for button in css(opened, "#run-0 .open"):
        opened.execute_script("arguments[0].click()", button)
    wait(opened, lambda: len(css(opened, ".detail pre")) >= 70)
    wait(opened, lambda: "…" not in [cell.text for cell in css(opened, "tr.detail > td")])
    assert len(css(opened, "script")) == scripts
    text = opened.find_element("css selector", "#run-0").text
    assert "</script><script>alert(1)</script><!--" in text
    assert "naïve 漢字 🙂 ]]>" in text
    assert "\\u202e" in text
    assert "\u202e" not in text
    assert "not scored: JudgeError: the GPU fell off the bus" in text
    assert "No answer was given." in text
    assert css(opened, ".l.flagged") != []


def test_samples_of_a_task_can_be_picked(opened):
    css(opened, "[role=tab]")[1].click()
    button = css(opened, "#run-1 .open")[0]
    button.click()
    picks = wait(opened, lambda: css(opened, "#run-1 .samples button"))
    assert len(picks) == 4
    for pick in picks:
        pick.click()
        assert [p.get_attribute("aria-pressed") for p in picks].count("true") == 1
        assert pick.get_attribute("aria-pressed") == "true"


def test_details_travel_with_their_row(opened):
    css(opened, "#run-0 .open")[0].click()
    wait(opened, lambda: css(opened, ".detail pre"))
    name = css(opened, "#run-0 .open")[0].text
    css(opened, "#run-0 .sort")[0].click()
    css(opened, "#run-0 .sort")[0].click()
    before = opened.find_element("xpath", "//tr[@class='detail']/preceding-sibling::tr[1]//button")
    assert before.text == name
    css(opened, "#run-0 .find")[0].send_keys("no such task")
    assert shown(opened, "tr.detail") == []


def test_theme_button_changes_the_colours(opened):
    def ground():
        return opened.execute_script("return getComputedStyle(document.body).backgroundColor")

    button = opened.find_element("id", "theme")
    grounds = []
    for name in ("light", "dark", None):
        button.click()
        assert opened.execute_script("return document.documentElement.dataset.theme ?? null") == name
        grounds.append(ground())
    assert grounds[0] != grounds[1]


def test_on_a_phone_nothing_is_wider_than_the_screen(opened):
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        css(opened, "#run-0 tr.task[data-outcome=correct] .open")[0].click()
        wait(opened, lambda: css(opened, ".detail pre"))
        assert opened.execute_script("return document.documentElement.scrollWidth") <= 390
        assert not css(opened, "#run-0 .later")[0].is_displayed()
        tops = [pre.rect["y"] for pre in css(opened, ".detail pre")]
        assert tops[0] < tops[1]  # one below the other
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_on_a_phone_an_open_tasks_name_is_shown_in_full(opened):
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        name = max(css(opened, "#run-0 .open"), key=lambda button: len(button.text))
        cut = "return arguments[0].scrollWidth > arguments[0].clientWidth"
        assert opened.execute_script(cut, name)
        name.click()
        assert not opened.execute_script(cut, name)
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_single_chart_is_no_wider_than_one_of_several(opened):
    wide = css(opened, "#run-0 figure")[0].rect["width"]
    opened.execute_script(
        "document.querySelectorAll('#run-0 figure').forEach((figure, place) => { if (place) figure.remove(); })"
    )
    assert css(opened, "#run-0 figure")[0].rect["width"] == wide


def test_printing_shows_every_run_and_no_controls(opened):
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert len(shown(opened, ".run")) == 2
        assert shown(opened, ".controls") == []
    finally:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    pdf = opened.execute_cdp_cmd("Page.printToPDF", {})
    assert len(pdf["data"]) > 20_000
