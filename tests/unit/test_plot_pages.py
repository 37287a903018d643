"""`jobtop plot --html`: the names of the seed, figures with limits and events, hostile text that stays text."""

import json
import re
import sqlite3
import sys
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from jobtop.core.metrics import find_metric
from jobtop.core.model import Limits, Status, Usage
from jobtop.core.report.content import (
    CPU,
    MEMORY,
    PROCESSES,
    ROWS,
    JobContent,
    limit_lines,
    marks_of,
    shortened,
    thin_again,
    thinned_curves,
)
from jobtop.core.report.figures import ORIGIN_MS, bars, comparison, scale_of, timeline
from jobtop.core.report.page import script_json
from jobtop.core.series.drawing import Number, segments
from jobtop.store.plots import page_names
from records import HOSTILE_TEXTS, assert_one_line, call, made_job
from sampled import kept_sampled, sample, steady

HOSTILE = {
    **HOSTILE_TEXTS,
    "script": "</script><script>document.title='owned'</script>",
    "comment": "<!--<script>",
    "image": "<img src=x onerror=\"document.title='owned'\">",
    "entity": "&lt;b&gt; &amp;",
    "template": "%{x} %{meta[0]} $\\alpha$",
}
SEED_FILES = {"resource_plot_cpu_all_jobs.html", "resource_plot_memory_all_jobs.html", "resource_plot_summary.html"}


class Elements(HTMLParser):
    """The elements of a page, the data of its figures, and all of its text outside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self.data = ""
        self.inside = ""
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.inside = "figures" if ("id", "figures") in attrs else tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "figures":
            self.data += data
        elif self.inside not in ("script", "style"):
            self.words.append(data)


def content(number: int = 1, count: int = 30, **values: Any) -> JobContent:
    """A job with steady samples, as the pages show it."""
    job = made_job(seq=number, duration_seconds=float(count), **values)
    times = [float(moment) for moment in range(count)]
    columns: dict[str, list[Number | None]] = {
        CPU: [None, *(50.0 + moment % 7 for moment in range(1, count))],
        MEMORY: [moment << 20 for moment in range(count)],
        "proc.count": [2] * count,
    }
    curves = thinned_curves([find_metric(key) for key in ROWS], times, columns)
    events = [(job.start_time or 0.0, "started", {"pid": 7}), ((job.start_time or 0.0) + 9, "oom_killed", {})]
    return JobContent(job, str(number), float(count), curves, limit_lines(job), marks_of(job, events))


def named(data: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(trace for trace in data if trace["name"] == name)


def test_the_timeline_of_a_job_has_cpu_memory_and_processes_with_limits_and_events() -> None:
    made = content(limits=Limits(memory_bytes=40 << 20, cpus=1))
    figure = timeline(made, 3600.0)
    assert [trace["name"] for trace in figure.data] == (
        ["CPU", "asked for 1 CPU", "Memory", "asked for 40.0 MiB", "Processes", "Events"]
    )
    memory, limit = named(figure.data, "Memory"), named(figure.data, "asked for 40.0 MiB")
    assert memory["y"][:3] == [0.0, 1.0, 2.0]
    assert memory["x"][:2] == [ORIGIN_MS, ORIGIN_MS + 1000]
    assert (limit["y"], limit["line"]["dash"], limit["yaxis"]) == ([40.0, 40.0], "dash", memory["yaxis"])
    assert named(figure.data, "Events")["text"] == ["started, pid 7", "oom killed"]
    assert [shape["x0"] for shape in figure.layout["shapes"]] == [ORIGIN_MS + 9000]
    assert figure.starts is not None
    assert ORIGIN_MS + figure.starts[0] == round((made.job.start_time or 0) * 1000) + 3_600_000


def test_a_limit_far_above_the_curve_does_not_flatten_it() -> None:
    figure = timeline(content(limits=Limits(memory_bytes=64 << 30)), 0.0)
    assert named(figure.data, "asked for 64.0 GiB")["visible"] == "legendonly"
    assert figure.layout["yaxis2"]["range"][1] < 40
    assert "asked for 64.0 GiB" in figure.layout["annotations"][0]["text"]


def test_jobs_are_compared_aligned_on_their_start() -> None:
    made = [content(1, name="a"), content(2, 60, name="b", start_time=1_700_009_000.0)]
    figure = comparison(made, MEMORY, 0.0)
    assert [trace["name"] for trace in figure.data] == ["1 a", "2 b"]
    assert {trace["x"][0] for trace in figure.data} == {ORIGIN_MS}
    assert figure.starts is not None
    assert figure.starts[1] - figure.starts[0] == round((1_700_009_000 - (made[0].job.start_time or 0)) * 1000)
    same = [content(number, limits=Limits(memory_bytes=50 << 20)) for number in (1, 2)]
    assert comparison(same, MEMORY, 0.0).data[-1]["name"] == "asked for 50.0 MiB"


def test_bars_have_the_peak_and_the_average_of_the_record() -> None:
    usage = Usage(memory_peak_bytes=3 << 30, memory_mean_bytes=1 << 30, cpu_percent_peak=180.0, cpu_percent_mean=90.0)
    made = [content(usage=usage, limits=Limits(memory_bytes=4 << 30)), content(2)]
    figure = bars(made, MEMORY)
    assert named(figure.data, "Peak")["x"] == [3.0, round(29 / 1024, 4)]
    assert named(figure.data, "Average")["x"] == [1.0, None]
    assert (figure.data[2]["x"], figure.data[2]["y"]) == ([4.0], [0])
    assert named(bars(made, CPU).data, "Peak")["x"][0] == 180.0


@pytest.mark.parametrize(
    ("key", "top", "factor", "unit"),
    [
        ("mem.used", 5 << 30, 2.0**-30, "GiB"),
        ("mem.used", 900, 1.0, "B"),
        ("io.read_bytes", 3 << 20, 2.0**-20, "MiB/s"),
        ("cpu.user", 1, 100.0, "%"),
        ("proc.count", 9, 1.0, ""),
    ],
)
def test_values_are_drawn_in_units_that_people_read(key: str, top: int, factor: float, unit: str) -> None:
    scale = scale_of(find_metric(key), top)
    assert (scale.factor, scale.unit) == (factor, unit)


def test_a_thinned_curve_keeps_its_extremes_and_its_gap() -> None:
    times = [float(moment) for moment in (*range(30_000), *range(60_000, 90_000))]
    values: list[Number | None] = [10 for _ in times]
    values[12_345], values[45_678] = 99, 1
    curve = thinned_curves([find_metric(MEMORY)], times, {MEMORY: values}, 500)[MEMORY]
    assert len(curve.times) <= 510
    assert (max(curve.known()), min(curve.known())) == (99, 1)
    holes = [moment for moment, value in zip(curve.times, curve.values, strict=True) if value is None]
    assert len(holes) == 1
    assert 29_999 < holes[0] < 60_000
    assert curve.times == sorted(curve.times)


def test_a_thinned_curve_breaks_only_where_samples_are_missing() -> None:
    times = [float(moment) for moment in (*range(30_000), *range(60_000, 90_000))]
    columns: dict[str, list[Number | None]] = {
        MEMORY: [moment % 1000 for moment in range(len(times))],
        PROCESSES: [1 + moment % 3 for moment in range(len(times))],
    }
    curve = thinned_curves([find_metric(key) for key in columns], times, columns, 500)[MEMORY]
    assert [(part[0][0], part[-1][0]) for part in segments(curve)] == [(0.0, 29_999.0), (60_000.0, 89_999.0)]
    again = thin_again({MEMORY: curve}, [MEMORY], 100)[MEMORY]
    assert len(segments(again)) == 2


def test_the_files_have_the_names_of_the_seed(home: Path, tmp_path: Path) -> None:
    jobs = [kept_sampled(home, made_job(name=name, duration_seconds=30.5), steady(30)) for name in ("a", "b")]
    answer = call("plot", *(job.id for job in jobs), "--html", "-o", str(tmp_path / "out"), "--shared-js")
    assert (answer.returncode, answer.stderr) == (0, "")
    own = {f"resource_plot_job_{job.seq}.html" for job in jobs}
    wanted = SEED_FILES | own | {"report.html", "plotly.min.js"}
    assert {Path(line).name for line in answer.stdout.splitlines()} == wanted
    assert {path.name for path in (tmp_path / "out").iterdir()} == wanted
    page = (tmp_path / "out" / "resource_plot_summary.html").read_text()
    assert len(page) < 100_000
    assert ("src", "plotly.min.js") in Elements(page).attributes


def test_without_a_directory_pages_are_not_strewn_about_and_one_line_says_where_they_are(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = kept_sampled(home, made_job(name="a", duration_seconds=30.5), steady(30))
    monkeypatch.chdir(tmp_path)
    answer = call("plot", job.id, "--html", "--shared-js")
    assert answer.returncode == 0
    assert [path.name for path in tmp_path.iterdir() if path.name != home.name] == ["plots"]
    assert "plots/report.html" in answer.stdout.splitlines()
    assert_one_line(answer.stderr, f"6 files, 4.6 MiB, in {tmp_path}/plots")
    answer = call("plot-resources", job.id, "--shared-js")  # as Torc's verb
    assert (tmp_path / "report.html").exists()
    assert_one_line(answer.stderr, f"in {tmp_path} ")


def test_each_page_has_the_library_inside_and_no_address_to_load(home: Path, tmp_path: Path) -> None:
    job = kept_sampled(home, made_job(duration_seconds=30.5), steady(30))
    assert call("plot-resources", job.id, "--output-dir", str(tmp_path)).returncode == 0
    for path in tmp_path.glob("*.html"):
        elements = Elements(path.read_text(encoding="utf-8"))
        assert not [value for name, value in elements.attributes if name == "src"]
        assert not [value for name, value in elements.attributes if name == "href" and "//" in (value or "")]
        assert (path.stat().st_size > 3_000_000) == (path.name != "report.html")


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_whatever_a_job_is_called_its_pages_have_no_other_element(home: Path, tmp_path: Path, text: str) -> None:
    plain = kept_sampled(home, made_job(name="plain", status=Status.FAILED, duration_seconds=9.5), steady(9))
    made = made_job(
        name=text,
        command=("sh", text),
        cwd=text,
        reason=text,
        status=Status.FAILED,
        tags={text: text},
        params={text: text},
        note=text,
        duration_seconds=9.5,
    )
    hostile = kept_sampled(home, made, steady(9))
    tags = {}
    for job in (plain, hostile):
        directory = tmp_path / str(job.seq)
        assert call("plot", job.id, "--html", "-o", str(directory), "--shared-js").returncode == 0
        pages = {path.name.replace(f"_{job.seq}.", "_N."): path for path in directory.glob("*.html")}
        elements = {name: Elements(path.read_text(encoding="utf-8")) for name, path in pages.items()}
        for name, found in elements.items():
            assert (name == "report.html") or json.loads(found.data)["figures"]
            assert not re.search("[\u2028\u2029\x00-\x08\x1b]", "".join(found.words))
        tags[job.id] = {name: set(found.tags) for name, found in elements.items()}
    extra = {"table", "tr", "th", "td", "ul", "li", "p", "section", "h2", "br", "div", "pre"}
    for name in tags[plain.id]:
        assert tags[hostile.id][name] <= tags[plain.id][name] | extra


def test_json_in_a_script_cannot_end_it() -> None:
    text = script_json(["</script>", "<!--", "\u2028", "&", "caf\udce9"])
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == ["</script>", "<!--", "\u2028", "&", "caf\udce9"]


def test_names_of_any_length_are_shortened() -> None:
    assert len(shortened("x" * 20_000)) == 48
    assert shortened("a\nb") == "a\\nb"


def test_files_are_replaced_only_with_force(home: Path, tmp_path: Path) -> None:
    job = kept_sampled(home, made_job(duration_seconds=9.5), steady(9))
    (tmp_path / "report.html").write_text("mine")
    answer = call("plot", job.id, "--html", "-o", str(tmp_path), "--shared-js")
    assert answer.returncode == 2
    assert_one_line(answer.stderr, "report.html", "--force")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["report.html"]
    assert call("plot", job.id, "--html", "-o", str(tmp_path), "--shared-js", "--force").returncode == 0
    assert (tmp_path / "report.html").read_text() != "mine"


def test_at_most_fifty_jobs_have_a_page_unless_all_are_wanted(home: Path, tmp_path: Path) -> None:
    for number in range(52):
        kept_sampled(home, made_job(name=f"job{number}", tags={"wf": "1"}, duration_seconds=2.5), steady(2))
    answer = call("plot", "tag:wf=1", "--html", "-o", str(tmp_path / "few"), "--shared-js")
    assert answer.returncode == 0
    assert_one_line(answer.stderr, "50", "52", "--all")
    assert len(list((tmp_path / "few").glob("resource_plot_job_*.html"))) == 50
    answer = call("plot", "tag:wf=1", "--html", "-o", str(tmp_path / "all"), "--shared-js", "--all")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert len(list((tmp_path / "all").glob("resource_plot_job_*.html"))) == 52


def test_without_plotly_one_line_says_what_to_install(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = kept_sampled(home, made_job(duration_seconds=9.5), steady(9))
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    answer = call("plot", job.id, "--html", "-o", str(tmp_path / "out"))
    assert answer.returncode == 2
    assert_one_line(answer.stderr, "pip install 'jobtop[plots]'")
    assert not (tmp_path / "out").exists()


def test_a_job_without_samples_has_pages_too(home: Path, tmp_path: Path) -> None:
    job = kept_sampled(home, made_job(duration_seconds=None, usage=Usage()), [])
    assert call("plot", job.id, "--html", "-o", str(tmp_path), "--shared-js").returncode == 0
    assert "no samples" in (tmp_path / "report.html").read_text()


def torc_database(path: Path) -> Path:
    """A database as Torc writes it: two jobs, one of them without a name."""
    connection = sqlite3.connect(path)
    connection.executescript(
        "CREATE TABLE job_resource_samples (id INTEGER PRIMARY KEY, job_id INTEGER, timestamp REAL, cpu_percent REAL,"
        " memory_bytes INTEGER, num_processes INTEGER);"
        "CREATE TABLE job_metadata (job_id INTEGER PRIMARY KEY, job_name TEXT);"
        "INSERT INTO job_metadata VALUES (15, 'train_model');"
    )
    rows = [
        (job, 1_700_000_000.0 + 5 * step, 300.0 - 100 * step, (1 + step) << 30, 3)
        for job in (15, 16)
        for step in (0, 1)
    ]
    connection.executemany(
        "INSERT INTO job_resource_samples (job_id, timestamp, cpu_percent, memory_bytes, num_processes)"
        " VALUES (?, ?, ?, ?, ?)",
        rows,
    )
    connection.commit()
    connection.close()
    return path


def test_databases_of_torc_are_drawn_by_their_own_job_ids(home: Path, tmp_path: Path) -> None:
    path = torc_database(tmp_path / "resource_metrics_atlas_3_1.db")
    assert call("plot-resources", str(path), "-o", str(tmp_path / "all"), "--shared-js").returncode == 0
    assert {page.name for page in (tmp_path / "all").glob("resource_plot_job_*")} == (
        {"resource_plot_job_15.html", "resource_plot_job_16.html"}
    )
    answer = call("plot-resources", str(path), "--job-ids", "15", "-o", str(tmp_path / "one"), "--shared-js")
    assert answer.returncode == 0
    elements = Elements((tmp_path / "one" / "resource_plot_job_15.html").read_text())
    assert "train_model" in elements.words
    (figure,) = json.loads(elements.data)["figures"]
    assert named(figure["data"], "CPU")["y"] == [300.0, 200.0]
    assert named(figure["data"], "Memory")["y"] == [1.0, 2.0]
    summary = json.loads(Elements((tmp_path / "one" / "resource_plot_summary.html").read_text()).data)["figures"]
    assert [named(figure["data"], name)["x"] for figure in summary for name in ("Peak", "Average")] == (
        [[300.0], [250.0], [2.0], [1.5]]
    )


def test_what_cannot_be_drawn_is_said_in_one_line(home: Path, tmp_path: Path) -> None:
    job = kept_sampled(home, made_job(name="train", duration_seconds=9.5), steady(9))
    path = torc_database(tmp_path / "x.db")
    (tmp_path / "other.db").write_bytes(b"not a database")
    out = ("-o", str(tmp_path / "out"))
    for words, wanted in (
        ((str(path), "--job-ids", "15,99"), "99"),
        ((str(tmp_path / "other.db"),), "job_resource_samples"),
        ((str(tmp_path / "absent.db"),), "no such file"),
        ((str(path), "train"), "Torc"),
        (("train", "--job-ids", "77"), "77"),
        (("train", "--width", "80"), "--width"),
    ):
        answer = call("plot-resources", *words, *out)
        assert (answer.returncode, answer.stdout) == (2, "")
        assert_one_line(answer.stderr, wanted)
    assert call("plot-resources", "train", "--job-ids", "1,x", *out).returncode == 2
    assert call("plot", "train", "--job-ids", str(job.seq)).returncode == 2
    assert not (tmp_path / "out").exists()


def test_jobs_are_chosen_by_their_numbers(home: Path, tmp_path: Path) -> None:
    jobs = [kept_sampled(home, made_job(duration_seconds=9.5), steady(9)) for _ in range(3)]
    numbers = f"{jobs[0].seq},{jobs[2].seq}"
    assert call("plot-resources", "--job-ids", numbers, "-o", str(tmp_path), "--shared-js").returncode == 0
    assert {page.name for page in tmp_path.glob("resource_plot_job_*")} == (
        {f"resource_plot_job_{job.seq}.html" for job in (jobs[0], jobs[2])}
    )


def test_jobs_of_several_stores_with_one_number_have_files_of_their_own() -> None:
    made = [content(1), content(1)]
    assert len(set(page_names(made).values())) == 2


def test_other_metrics_are_drawn_on_the_page_of_a_job(home: Path, tmp_path: Path) -> None:
    job = kept_sampled(home, made_job(duration_seconds=9.5), steady(9))
    words = ("--metric", "io.read_bytes", "--shared-js", "-o", str(tmp_path))
    assert call("plot", job.id, "--html", *words).returncode == 0
    (figure,) = json.loads(Elements((tmp_path / f"resource_plot_job_{job.seq}.html").read_text()).data)["figures"]
    assert named(figure["data"], "read from storage")["y"][2] == 1000.0


def report_words(home: Path, directory: Path, *words: str) -> str:
    assert call("plot", *words, "--html", "-o", str(directory), "--shared-js", "--force").returncode == 0
    return " ".join(Elements((directory / "report.html").read_text()).words)


def test_the_report_of_a_job_says_how_it_ended_and_what_to_change(home: Path, tmp_path: Path) -> None:
    job = made_job(
        name="hungry",
        status=Status.FAILED,
        reason="killed by SIGKILL: over its memory limit of 1.0 GiB (oom_kill +1)",
        signal=9,
        exit_code=None,
        flags=("oom_killed",),
        duration_seconds=30.5,
        limits=Limits(memory_bytes=1 << 30, enforced=True, runtime_seconds=20.0),
        usage=Usage(cpu_total_seconds=12.0, memory_peak_bytes=1 << 30, oom_kills=1, samples=30),
    )
    words = report_words(home, tmp_path, kept_sampled(home, job, steady(30)).id)
    for wanted in ("over its memory limit", f"jobtop rerun {job.id[:8]} --memory 1536M", "52.5 % more time", "1.0 GiB"):
        assert wanted in words


def test_the_report_of_a_job_that_asked_for_too_much_says_what_is_enough(home: Path, tmp_path: Path) -> None:
    job = made_job(
        duration_seconds=30.5,
        limits=Limits(memory_bytes=8 << 30, cpus=8),
        usage=Usage(memory_peak_bytes=1 << 30, cpu_percent_peak=150.0, samples=30),
    )
    words = report_words(home, tmp_path, kept_sampled(home, job, steady(30)).id)
    assert "--memory 1280M is enough" in words
    assert "--cpus 2 is enough" in words


def test_the_report_of_several_jobs_adds_up_and_links_to_their_pages(home: Path, tmp_path: Path) -> None:
    usage = Usage(cpu_total_seconds=30.0, memory_peak_bytes=1 << 30, samples=9)
    jobs = [
        kept_sampled(
            home, made_job(name=name, status=status, duration_seconds=9.5, usage=usage, tags={"wf": "1"}), steady(9)
        )
        for name, status in (("a", Status.SUCCESS), ("b", Status.FAILED), ("c", Status.SUCCESS))
    ]
    words = report_words(home, tmp_path, "tag:wf=1")
    assert "3 jobs" in words
    assert "2 success" in words
    assert "1m30s" in words
    links = [value for name, value in Elements((tmp_path / "report.html").read_text()).attributes if name == "href"]
    assert {f"resource_plot_job_{job.seq}.html" for job in jobs} <= set(links)


def test_a_gap_in_the_samples_is_a_gap_on_the_page(home: Path, tmp_path: Path) -> None:
    samples = [sample(float(moment), mem_used=50 << 20) for moment in (*range(1, 20), *range(80, 100))]
    job = kept_sampled(home, made_job(duration_seconds=99.5), samples)
    assert call("plot", job.id, "--html", "-o", str(tmp_path), "--shared-js").returncode == 0
    (figure,) = json.loads(Elements((tmp_path / f"resource_plot_job_{job.seq}.html").read_text()).data)["figures"]
    assert None in named(figure["data"], "Memory")["y"][5:-5]
