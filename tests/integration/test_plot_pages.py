"""The pages of `jobtop plot --html` in a real Chromium: offline, without errors, with hover, zoom and downloads."""

import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import support
from browser import Browser, chromium
from jobtop.core.model import Limits, Sample, Status
from jobtop.core.paths import StatePaths
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Event, Jobs
from records import HERE, call, made_job
from sampled import kept_sampled, sample, steady

HOSTILE = (
    "</script><script>window.owned = 1</script>",
    "<img src=https://example.invalid/x.png onerror='window.owned = 1'>",
    "<!--<script>",
    "\u2028window.owned = 1\u2029 %{x} <b>bold</b> <a href='javascript:window.owned=1'>x</a>",
)
SVG = "{http://www.w3.org/2000/svg}"
SECONDS_TO_OPEN = 2.0
TRIES = 5


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def pages(home: Path, tmp_path: Path) -> Path:
    """The pages of a job with a limit, and of some with hostile names, commands and reasons."""
    kept_sampled(home, made_job(duration_seconds=60.5, limits=Limits(memory_bytes=80 << 20)), steady(60))
    for text in HOSTILE:
        failed = made_job(
            name=text, command=("sh", "-c", text), status=Status.FAILED, reason=text, duration_seconds=20.5
        )
        job = kept_sampled(home, failed, steady(20))
        database = open_to_write(StatePaths(home, HERE))
        try:
            event = Event((job.start_time or 0.0) + 5, "alert", {"text": text, "rule": text, "severity": "critical"})
            Jobs(database).add_events([(job.seq or 0, event)])
        finally:
            database.close()
    answer = call("plot", "user:ada", "--html", "-o", str(tmp_path / "pages"))
    assert (answer.returncode, answer.stderr) == (0, "")
    return tmp_path / "pages"


def plot_area(browser: Browser) -> tuple[float, float, float, float]:
    """The left, top, width and height of the first chart on a page."""
    rect = browser.value("JSON.stringify(document.querySelector('.nsewdrag').getBoundingClientRect())")
    box = json.loads(rect)
    return box["x"], box["y"], box["width"], box["height"]


@support.long_test
def test_every_page_loads_without_network_and_without_errors_whatever_names_say(browser: Browser, pages: Path) -> None:
    files = sorted(pages.glob("*.html"))
    assert len(files) == 9
    for file in files:
        browser.open(file.as_uri())
        assert {url.split(":")[0] for url in browser.requests} <= {"file", "data", "blob"}, file.name
        assert browser.errors == [], file.name
        assert browser.value("window.owned === undefined"), file.name
        assert browser.value("document.querySelectorAll('img, iframe, a[href^=javascript], body b > b').length") == 0
        if file.name != "report.html":
            assert browser.value("document.querySelectorAll('.main-svg a, .main-svg image').length") == 0
    browser.open((pages / "resource_plot_cpu_all_jobs.html").as_uri())
    legend = browser.value("[...document.querySelectorAll('.legendtext')].map(node => node.textContent).join('|')")
    assert "</script><script>window.owned = 1</script>" in legend
    assert "<!--<script>" in legend


def test_hovering_shows_values_and_zooming_changes_the_range(browser: Browser, pages: Path) -> None:
    browser.resize(1200, 900)
    browser.open((pages / "resource_plot_job_1.html").as_uri())
    left, top, width, height = plot_area(browser)
    browser.mouse("mouseMoved", left + width / 2, top + height / 2)
    texts = "[...document.querySelectorAll('.hoverlayer .legend text')].map(node => node.textContent).join('|')"
    shown = browser.wait(texts)
    assert "00:00:30" in shown
    assert "CPU 50.0 %" in shown
    assert "Memory 30.0 MiB" in shown
    axis = "nodes[0]._fullLayout.xaxis"
    before = browser.value(f"JSON.stringify({axis}.range)")
    browser.drag((left + width * 0.25, top + height / 2), (left + width * 0.5, top + height / 2))
    browser.wait(f"JSON.stringify({axis}.range) !== {json.dumps(before)}")
    first, last = browser.value(f"{axis}.range.map({axis}.r2l)")
    assert last - first == pytest.approx(15_000, rel=0.1)
    assert (browser.requests, browser.errors) == ([(pages / "resource_plot_job_1.html").as_uri()], [])


def test_the_time_of_day_and_the_legend_can_be_switched(browser: Browser, pages: Path) -> None:
    browser.open((pages / "resource_plot_cpu_all_jobs.html").as_uri())
    browser.value("document.querySelector('[data-clock=wall]').click()")
    axis = "nodes[0]._fullLayout.xaxis"
    browser.wait(f"{axis}.r2l({axis}.range[0]) > Date.UTC(2023, 10, 1)")
    browser.value("document.querySelector('[data-clock=start]').click()")
    browser.wait(f"{axis}.r2l({axis}.range[0]) < Date.UTC(2000, 0, 2)")
    rect = json.loads(browser.value("JSON.stringify(document.querySelector('.legendtoggle').getBoundingClientRect())"))
    x, y = rect["x"] + rect["width"] / 2, rect["y"] + rect["height"] / 2
    browser.mouse("mousePressed", x, y, button="left", clickCount=1)
    browser.mouse("mouseReleased", x, y, button="left", clickCount=1)
    browser.wait("nodes[0]._fullData[0].visible === 'legendonly'")
    assert browser.errors == []


@pytest.mark.parametrize("kind", ["SVG", "PNG"])
def test_the_downloaded_picture_is_not_empty(browser: Browser, pages: Path, tmp_path: Path, kind: str) -> None:
    directory = tmp_path / "downloads"
    directory.mkdir()
    browser.allow_downloads(directory)
    browser.open((pages / "resource_plot_job_1.html").as_uri())
    button = f"[data-title$='{kind}']"
    browser.value(f"""document.querySelector("{button}").click()""")
    suffix = kind.lower()
    path = support.wait_for(lambda: next(directory.glob(f"*.{suffix}"), None), 30.0)
    assert path.name == f"resource_plot_job_1.{suffix}"
    support.wait_for(lambda: path.stat().st_size > 10_000 and not list(directory.glob("*.crdownload")), 30.0)
    if kind == "PNG":
        assert path.read_bytes().startswith(b"\x89PNG")
        return
    drawn = ET.parse(path).getroot()
    lines = [node.get("d") or "" for node in drawn.iter(f"{SVG}path") if node.get("class") == "js-line"]
    assert sum("L" in line for line in lines) >= 3
    assert "Memory" in "".join(drawn.itertext())
    assert browser.errors == []


def wave(count: int) -> Iterator[Sample]:
    """Samples of a job that works now and then, with one high peak."""
    seconds = 0.0
    for number in range(1, count + 1):
        seconds += 0.9 if number // 300 % 2 else 0.1
        memory = 900 << 20 if number == 61_803 else (100 + number // 1000) << 20
        yield sample(float(number), cpu_user=seconds, cpu_system=0.0, mem_used=memory, proc_count=3)


@support.long_test
def test_a_job_of_a_hundred_thousand_samples_opens_quickly_with_its_peak(
    browser: Browser, home: Path, tmp_path: Path
) -> None:
    job = kept_sampled(home, made_job(duration_seconds=100_000.0), wave(100_000))
    assert call("plot", job.id, "--html", "-o", str(tmp_path / "long")).returncode == 0
    page = tmp_path / "long" / f"resource_plot_job_{job.seq}.html"
    # This machine may be busy: the best of some tries says what a page needs.
    assert min(browser.open(page.as_uri()) for _ in range(TRIES)) < SECONDS_TO_OPEN
    assert browser.value("Math.max(...nodes[0].data.find(trace => trace.name === 'Memory').y)") == 900
    assert browser.value("nodes[0].data[0].x.length") < 5000
    assert browser.errors == []


def test_the_report_fits_a_phone_and_paper(browser: Browser, pages: Path) -> None:
    browser.resize(360, 740, is_phone=True)
    try:
        browser.open((pages / "report.html").as_uri())
        assert browser.value("document.documentElement.scrollWidth") <= 360
        visible = "[...document.querySelectorAll('svg')].filter(node => getComputedStyle(node).display !== 'none')"
        assert browser.value(f"{visible}.every(node => node.classList.contains('narrow'))")
        assert browser.value(f"{visible}.length") > 0
    finally:
        browser.resize(1200, 900)
    printed = browser.pdf()
    assert printed.startswith(b"%PDF")
    assert 1 <= printed.count(b"/Type /Page\n") <= 12
    assert browser.errors == []
