"""Curves made ready to be drawn: bars, marks of axes, gaps; and what samples add to `jobtop show`."""

import time
from pathlib import Path

import pytest

from jobtop.core.metrics import find_metric
from jobtop.core.model import Status, Usage
from jobtop.core.series.drawing import Curve, gaps, make_curve, segments, sparkline, time_marks, value_marks
from jobtop.core.text.metric_text import format_shown, format_value
from records import call, kept_jobs, made_job, running_job, this_process
from sampled import damage_samples, kept_sampled, steady

MEMORY = find_metric("mem.used")
CPU = find_metric("cpu.percent")


def curve(*values: float | None, times: list[float] | None = None) -> Curve:
    return Curve(MEMORY, times or [float(number) for number in range(len(values))], list(values))


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((), ""),
        ((None, None), ""),
        ((0, 0, 0), "▁▁▁"),
        ((5,), "█"),
        ((8, 8, 8), "███"),
        ((0, 1, 2, 3, 4, 5, 6, 7, 8), "▁▂▃▄▅▆▇██"),
        ((4, None, 8), "▅ █"),
        ((None, 4, 8), " ▅█"),
    ],
)
def test_bars_rise_from_nothing_to_the_peak_and_are_blank_where_nothing_is_known(
    values: tuple[float | None, ...], shown: str
) -> None:
    assert sparkline(curve(*values), 40) == shown


def test_a_long_curve_fits_and_a_peak_of_one_sample_is_seen() -> None:
    values: list[float | None] = [1.0] * 10_000
    values[7_000] = 80.0
    line = sparkline(curve(*values), 40)
    assert (len(line), line.count("█"), line[28]) == (40, 1, "█")


def test_uneven_samples_leave_no_holes() -> None:
    times = [0.0, 0.4, 1.1, 2.9, 3.0, 4.7, 6.2, 6.3, 8.0, 9.0]
    assert " " not in sparkline(curve(*([1.0] * 10), times=times), 40)


def test_a_silence_is_a_gap_and_a_slower_rhythm_is_not() -> None:
    seconds = [float(moment) for moment in range(60)]
    assert list(gaps([*seconds, *(moment + 300 for moment in seconds)])) == [60]
    assert list(gaps([*seconds, *(60.0 + 5 * number for number in range(4))])) == []
    assert list(gaps([0.0, 0.02, 10.0, 10.1])) == []
    assert list(gaps([0.0, 5.0])) == list(gaps([])) == []


def test_a_curve_breaks_where_nothing_is_known_or_sampled() -> None:
    times = [0.0, 1.0, 2.0, 3.0, 4.0, 100.0, 101.0, 102.0]
    parts = segments(curve(1, 2, None, 4, 5, 6, 7, 8, times=times))
    assert [[moment for moment, _ in part] for part in parts] == [[0, 1], [3, 4], [100, 101, 102]]


def test_a_rate_is_drawn_from_the_moment_it_was_counted_from() -> None:
    drawn = make_curve(find_metric("io.read_bytes"), [0.0, 2.0, 4.0], [0, 10, 40])
    assert drawn.values == [None, 5.0, 15.0]
    assert segments(drawn) == [[(0.0, 5.0), (2.0, 5.0), (4.0, 15.0)]]
    assert segments(Curve(MEMORY, [0.0, 2.0], [None, 5])) == [[(2.0, 5)]]


@pytest.mark.parametrize("top", [0.3, 1, 7, 99, 100.4, 198, 1234, 6e7, 8.1e13])
@pytest.mark.parametrize("key", ["cpu.percent", "mem.used", "proc.count"])
def test_values_are_marked_from_nothing_to_the_peak_and_little_beyond(key: str, top: float) -> None:
    marks = value_marks(find_metric(key), top)
    assert marks[0] == 0
    assert 2 <= len(marks) <= 6
    assert top * 0.99 <= marks[-1] <= max(top * 1.7, 1)
    assert len({format_shown(find_metric(key), mark) for mark in marks}) == len(marks)


@pytest.mark.parametrize(
    ("end", "marks"),
    [
        (0, [0]),
        (0.05, [0, 0.01, 0.02, 0.03, 0.04, 0.05]),
        (7, [0, 2, 4, 6]),
        (61, [0, 15, 30, 45, 60]),
        (3700, [0, 900, 1800, 2700, 3600]),
        (90_000, [0, 21_600, 43_200, 64_800, 86_400]),
        (6 * 86_400, [day * 86_400 for day in range(7)]),
        (20 * 86_400, [day * 86_400 for day in range(0, 21, 4)]),
    ],
)
def test_times_are_marked_at_round_moments(end: float, marks: list[float]) -> None:
    assert time_marks(end) == pytest.approx(marks)


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("mem.used", 214 << 20, "214.0 MiB"),
        ("io.read_bytes", 1536, "1.5 KiB/s"),
        ("cpu.percent", 380.4, "380 %"),
        ("cpu.user", 0.953, "95.3 %"),
        ("proc.count", 58478, "58 478"),
        ("io.read_ops", 0.25, "0.2/s"),
        ("energy.cpu", 45.23, "45.2 W"),
        ("limit.cpus", 2.5, "2.5"),
        ("gpu.temp", 61.5, "61.5 °C"),
        ("gpu.power", 250.0, "250.0 W"),
        ("gpu.clock_sm", 1.41e9, "1.4 GHz"),
        ("gpu.throttled", 1, "yes"),
        ("mem.used", None, "–"),
        ("io.read_bytes", None, "–"),
    ],
)
def test_a_number_is_shown_by_its_unit_and_a_counter_by_its_rate(key: str, value: float | None, shown: str) -> None:
    assert format_shown(find_metric(key), value) == shown


def test_what_a_counter_stands_at_is_shown_by_its_unit() -> None:
    assert format_value(find_metric("energy.cpu"), 12_000) == "12.0 kJ"
    assert format_value(find_metric("cpu.user"), 330.0) == "5m30s"


def test_a_job_that_ended_shows_its_curves_and_their_ends(home: Path) -> None:
    usage = Usage(cpu_user_seconds=16.2, cpu_system_seconds=4.05)
    job = kept_sampled(home, made_job(duration_seconds=40.5, usage=usage), steady(40))
    lines = call("show", job.id).stdout.splitlines()
    cpu, memory = (lines[number + 1] for number, line in enumerate(lines) if line.startswith(("  cpu ", "  memory ")))
    assert cpu.split() == ["█" * 40, "50.0", "%", "to", "50.0", "%"]
    assert memory.split()[0][::39] == "▁█"
    assert memory.endswith("1.0 MiB to 40.0 MiB")


def test_a_job_that_runs_shows_what_it_uses_now(home: Path) -> None:
    job = running_job(recorder=this_process(), start_time=time.time() - 5)
    shown = call("show", kept_sampled(home, job, steady(5)).id).stdout
    assert "  now        50.0 % CPU, 5.0 MiB, 2 processes, 5 threads\n" in shown
    assert "  cpu        2.5s so far\n" in shown
    assert "  memory     5.0 MiB peak so far\n" in shown


def test_a_job_last_seen_long_ago_says_how_long(home: Path) -> None:
    job = running_job(recorder=this_process(), start_time=time.time() - 65)
    assert "5 threads (1m00s ago)\n" in call("show", kept_sampled(home, job, steady(5)).id).stdout


def test_a_bare_terminal_gets_no_curves_and_a_job_without_samples_has_none(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = kept_sampled(home, made_job(), [])
    assert "▁" not in call("show", never.id).stdout
    assert "now" not in call("show", never.id).stdout
    sampled = kept_sampled(home, made_job(duration_seconds=9.5), steady(9))
    monkeypatch.setenv("TERM", "dumb")
    assert "█" not in call("show", sampled.id).stdout


def test_damaged_samples_are_counted_and_the_page_is_still_shown(home: Path) -> None:
    job = kept_sampled(home, made_job(duration_seconds=9.5), steady(9), sealed=True)
    damage_samples(home)
    answer = call("show", job.id)
    assert (answer.returncode, answer.stderr) == (
        0,
        f"jobtop: 9 samples of job {job.id[:8]} are damaged and left out\n",
    )
    assert answer.stdout.startswith("train")


def test_a_lost_job_shows_when_it_was_last_seen(home: Path) -> None:
    (job,) = kept_jobs(home, running_job(status=Status.LOST, settled=True, start_time=1e9, duration_seconds=66.0))
    (line,) = [line for line in call("show", job.id).stdout.splitlines() if line.startswith("  when")]
    assert all(word in line for word in ("last seen", "1m06s"))
    (other,) = kept_jobs(home, running_job(status=Status.LOST, settled=True, start_time=1e9))
    (line,) = [line for line in call("show", other.id).stdout.splitlines() if line.startswith("  when")]
    assert line.endswith("–")


def test_history_shows_what_a_running_job_used_so_far(home: Path) -> None:
    job = running_job(recorder=this_process(), start_time=time.time() - 5)
    kept_sampled(home, job, steady(5))
    cells = call("history", "--columns", "id,cpu,mem").stdout.splitlines()[1].split()
    assert cells == [job.id[:8], "2.5s", "5.0", "MiB"]


def test_history_shows_no_numbers_of_a_running_job_without_samples(home: Path) -> None:
    kept_jobs(home, running_job(recorder=this_process(), start_time=time.time() - 5))
    assert call("history", "--columns", "cpu,mem").stdout.splitlines()[1].split() == ["–", "–"]
