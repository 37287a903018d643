"""`jobtop plot`: charts that fit, are plain where they should be, break at gaps, and are valid SVG."""

import re
import shutil
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import support
from jobtop.core.metrics import find_metric
from jobtop.core.model import Sample, Usage
from jobtop.core.series.drawing import Curve
from jobtop.core.series.svg import COLORS, svg
from jobtop.core.units import cell_width
from records import HOSTILE_TEXTS, assert_one_line, call, holds_controls, made_job
from sampled import damage_samples, kept_sampled, sample, steady

SVG = "{http://www.w3.org/2000/svg}"
BRAILLE = re.compile("[\u2801-\u28ff]")
USAGE = Usage(cpu_user_seconds=12.2, cpu_system_seconds=3.05)


def kept(home: Path, samples: Iterable[Sample] | None = None, **values: object) -> str:
    job = made_job(**{"duration_seconds": 30.5, "usage": USAGE} | values)
    return kept_sampled(home, job, steady(30) if samples is None else samples).id


def words_of(text: str) -> list[str]:
    """The texts of an SVG file, which has to be well-formed."""
    return ["".join(node.itertext()) for node in ET.fromstring(text).iter(f"{SVG}text")]


def test_cpu_and_memory_are_drawn_with_units_over_elapsed_time(home: Path) -> None:
    lines = call("plot", kept(home), "--width", "70", "--height", "12").stdout.splitlines()
    assert re.fullmatch(r"train  ✓ success after 30s, from 20\d\d-.*", lines[0])
    assert (lines[1].split(":")[0], "peak 50.0 %" in lines[1]) == ("cpu.percent", True)
    assert (lines[14].split(":")[0], "peak 30.0 MiB" in lines[14]) == ("mem.used", True)
    assert " 0.0 %┤" in lines[10]
    assert lines[12].split() == ["0", "10s", "20s", "30s"]
    assert lines[23].startswith("     0 B┤")
    assert len(lines) == 26
    assert max(map(cell_width, lines)) <= 70


def test_a_counter_is_drawn_by_its_rate(home: Path) -> None:
    shown = call("plot", kept(home), "--metric", "io.read_bytes", "--width", "60", "--height", "8").stdout
    assert "io.read_bytes: read from storage, peak 1000 B/s\n" in shown
    assert " 0 B/s┤" in shown


def test_what_was_not_measured_is_said_and_not_drawn(home: Path) -> None:
    shown = call("plot", kept(home), "--metric", "gpu.util").stdout
    (line,) = shown.splitlines()[1:]
    assert line.startswith("gpu.util: ")
    assert "not measured" in line


def test_a_gap_stays_empty(home: Path) -> None:
    samples = [sample(float(moment), mem_used=50 << 20) for moment in (*range(1, 20), *range(80, 100))]
    job = kept(home, samples, duration_seconds=99.5)
    chart = call("plot", job, "--metric", "mem.used", "--width", "110", "--height", "8").stdout.splitlines()[3]
    axis = chart.index("┤")
    drawn = [position - axis for position in range(len(chart)) if BRAILLE.match(chart[position])]
    assert drawn
    assert not [position for position in drawn if 25 < position < 75]
    assert {position for position in drawn if position > 90}


@pytest.mark.parametrize("color", ["never", "always"])
def test_colour_is_used_where_it_is_wanted(home: Path, color: str) -> None:
    job = kept(home)
    assert ("\x1b[" in call("--color", color, "plot", job).stdout) == (color == "always")
    assert "\x1b[" not in call("plot", job).stdout


def test_a_job_never_sampled_is_drawn_from_its_totals_and_that_is_said(home: Path) -> None:
    answer = call("plot", kept(home, []), "--height", "8")
    assert "never sampled" in answer.stderr
    assert "cpu.percent: CPU, peak 50.0 %" in answer.stdout
    assert BRAILLE.search(answer.stdout)


def test_a_metric_a_job_does_not_have_names_the_nearest(home: Path) -> None:
    answer = call("plot", kept(home), "--metric", "mem.usd")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert 'a job has no metric "mem.usd" (did you mean "mem.used"?)' in answer.stderr
    assert call("plot", kept(home), "--metric", "disk.busy").returncode == 2


def overlaid(home: Path, *color: str) -> list[str]:
    jobs = [kept(home, steady(30), name="short"), kept(home, steady(30, 2.0), name="long", duration_seconds=60.5)]
    return call(*color, "plot", *jobs, "--width", "70", "--height", "12").stdout.splitlines()


def test_several_jobs_are_drawn_in_one_chart_a_letter_each(home: Path) -> None:
    lines = overlaid(home)
    assert [line.split("  ")[0] for line in lines[:2]] == ["a short", "b long"]
    charts = [position for position, line in enumerate(lines) if ", peak" in line]
    assert [lines[position].split(":")[0] for position in charts] == ["cpu.percent", "mem.used"]
    assert "peak 30.0 MiB" in lines[charts[1]]
    memory = "".join(line.partition("┤")[2] for line in lines[charts[1] :])
    assert {"a", "b"} <= set(memory)
    assert "1m00s" in lines[-1]


def test_with_colour_several_jobs_differ_by_colour(home: Path) -> None:
    lines = overlaid(home, "--color", "always")
    marks = [re.findall("\x1b\\[[0-9;]+m", line)[0] for line in lines[:2]]
    assert len(set(marks)) == 2
    assert BRAILLE.search("".join(lines))


def test_a_picture_of_several_jobs_has_a_legend(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "jobs.svg"
    jobs = [kept(home, name="first"), kept(home, name="<second>")]
    assert call("plot", *jobs, "--output", str(path)).returncode == 0
    words = words_of(path.read_text())
    assert {f"first {jobs[0][:8]}", f"<second> {jobs[1][:8]}"} <= set(words)
    assert [path.read_text().count(f'stroke="{color}"') for color in COLORS[:3]] == [2, 2, 0]


@pytest.mark.parametrize("hidden", ["", "resvg_py"])
def test_a_png_is_drawn_by_the_package_or_by_the_program(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: str
) -> None:
    if hidden:
        monkeypatch.setitem(sys.modules, hidden, None)
        if shutil.which("rsvg-convert") is None:
            support.require("rsvg", "rsvg-convert is not installed")
    path = tmp_path / "job.png"
    answer = call("plot", kept(home), "-o", str(path))
    assert (answer.returncode, answer.stderr) == (0, "")
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n")
    assert struct.unpack(">II", data[16:24]) == (1920, 1024)


def test_without_a_program_for_png_one_line_names_the_remedy(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = kept(home)
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = call("plot", job, "--output", str(tmp_path / "job.png"))
    assert answer.returncode == 2
    assert_one_line(answer.stderr, "pip install 'jobtop[png]'", "rsvg-convert")
    assert not (tmp_path / "job.png").exists()


def test_a_picture_needs_a_name_that_says_its_format(home: Path, tmp_path: Path) -> None:
    answer = call("plot", kept(home), "--output", str(tmp_path / "job.gif"))
    assert answer.returncode == 2
    assert_one_line(answer.stderr, "x.svg", "x.png")


def test_an_svg_has_a_chart_a_metric_with_its_axes(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "job.svg"
    answer = call("plot", kept(home), "--svg", str(path), "--metric", "mem.used", "--metric", "io.read_bytes")
    assert (answer.returncode, answer.stdout) == (0, "")
    words = words_of(path.read_text())
    assert words[0] == "train"
    assert {"0 B", "30.0 MiB", "1000 B/s", "0", "5s", "30s"} <= set(words)
    assert "".join(words).count("peak") == 2
    assert [path.read_text().count(f'stroke="{color}"') for color in COLORS[:3]] == [1, 1, 0]


def test_an_svg_breaks_where_nothing_is_known() -> None:
    drawn = Curve(find_metric("mem.used"), [0.0, 1.0, 2.0, 3.0, 4.0], [1, 2, None, 4, None])
    picture = svg("a", "b", [drawn], 4.0)
    assert (picture.count('fill="none" stroke="#'), picture.count("<circle")) == (1, 1)


@pytest.mark.parametrize("text", [*HOSTILE_TEXTS.values(), "<script>&\"'</svg>", "\ufffe\uffff\x00"])
def test_whatever_a_job_is_called_the_charts_are_harmless(home: Path, tmp_path: Path, text: str) -> None:
    job = kept(home, name=text)
    assert not holds_controls(call("plot", job, "--height", "8").stdout)
    path = tmp_path / "job.svg"
    call("plot", job, "--svg", str(path))
    content = path.read_text(encoding="utf-8")
    assert not holds_controls(content)
    assert not list(ET.fromstring(content).iter(f"{SVG}script"))


def test_an_svg_is_not_written_over_another_file_unasked(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "job.svg"
    path.write_text("mine")
    answer = call("plot", kept(home), "--svg", str(path))
    assert (answer.returncode, path.read_text()) == (2, "mine")
    assert_one_line(answer.stderr, f"--svg: {path}", "--force")
    assert call("plot", kept(home), "--svg", str(path), "--force").returncode == 0
    assert path.read_text().startswith("<svg")
    assert list(tmp_path.glob("*.part")) == list(tmp_path.glob(".*.part")) == []


def test_damaged_samples_are_counted(home: Path) -> None:
    job = kept_sampled(home, made_job(duration_seconds=30.5), steady(30), sealed=True)
    damage_samples(home)
    answer = call("plot", job.id)
    assert (answer.returncode, "30 samples" in answer.stderr) == (0, True)
