"""`jobtop metrics`: every sample once, in a table, in blocks, as JSON and CSV; true rates, totals and peaks."""

import csv
import io
import json
import os
import re
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jobtop.cli.app import App
from jobtop.cli.text.printers import DEFAULT_COLUMNS, PRINTERS, fitting_columns
from jobtop.cli.verbs.metrics import Window, stream
from jobtop.core.model import Limits, Monitor, Queued, Status, Usage
from jobtop.core.record import replace
from jobtop.core.series.readings import KEYS, SampleReader, sample_json
from records import assert_one_line, call, made_job, running_job, this_process
from sampled import damage_samples, kept_sampled, sample, steady

USAGE = Usage(cpu_user_seconds=2.2, cpu_system_seconds=0.55, io_read_bytes=7500, io_write_bytes=0)
HEAD = "TIME       ELAPSED      CPU         MEM      READ/s     WRITE/s  PROCS  THREADS"


@pytest.fixture
def job(home: Path) -> str:
    """A job of 5.5 seconds with five samples."""
    return kept_sampled(home, made_job(duration_seconds=5.5, usage=USAGE), steady(5)).id


def lines(*args: str) -> list[dict[str, Any]]:
    answer = call("metrics", *args, "--format", "jsonl")
    assert (answer.returncode, answer.stderr) == (0, "")
    return [json.loads(line) for line in answer.stdout.splitlines()]


def test_a_table_has_a_line_a_sample_and_fits_eighty_columns(job: str) -> None:
    head, *rows = call("metrics", job).stdout.splitlines()
    assert head == HEAD
    assert [row.split()[1:] for row in (rows[0], rows[4], rows[5])] == [
        "1s 50.0 % 1.0 MiB 1000 B 0 B 2 5".split(),
        "5s 50.0 % 5.0 MiB 1000 B 0 B 2 5".split(),
        "5.5s 50.0 % – 4.9 KiB 0 B – –".split(),
    ]
    assert {len(row) for row in rows} == {len(head)} == {79}


def test_a_line_of_json_is_the_sample_nested_at_the_dots(job: str) -> None:
    first, *_, last = shapes = lines(job)
    assert len(shapes) == 7
    assert list(first)[:5] == ["schema_version", "job_id", "elapsed", "timestamp", "cpu"]
    assert (first["schema_version"], first["job_id"], first["elapsed"]) == (1, job, 0.0)
    assert first["cpu"] | {"percent": None} == first["cpu"]
    assert shapes[2]["cpu"] | {"percent": 50.0, "user": 0.8, "system": 0.2, "throttled": None} == shapes[2]["cpu"]
    assert (shapes[2]["timestamp"], shapes[2]["mem"]["used"]) == ("2023-11-14T22:13:22.500000Z", 2 << 20)
    assert (last["cpu"]["user"], last["io"]["read_bytes"], last["mem"]["used"]) == (2.2, 7500, None)
    groups = {group: shape for group, shape in last.items() if isinstance(shape, dict)}
    assert {f"{group}.{name}" for group, shape in groups.items() for name in shape} == set(KEYS)


def test_counters_never_fall_along_the_samples(job: str) -> None:
    shapes = lines(job)
    for group, name in (("cpu", "user"), ("cpu", "system"), ("io", "read_bytes")):
        values = [shape[group][name] for shape in shapes]
        assert values == sorted(values)


def test_json_is_json_lines_and_the_format_json_a_list_of_the_same(job: str) -> None:
    assert [json.loads(line) for line in call("metrics", job, "--json").stdout.splitlines()] == lines(job)
    assert json.loads(call("metrics", job, "--format", "json").stdout) == lines(job)


def test_csv_has_the_keys_as_its_header(job: str) -> None:
    text = call("metrics", job, "--format", "csv").stdout
    assert text.startswith("timestamp,elapsed,cpu.percent,cpu.user,")
    rows = list(csv.DictReader(io.StringIO(text)))
    shapes = lines(job)
    assert [row["elapsed"] for row in rows] == [str(shape["elapsed"]) for shape in shapes]
    assert (rows[2]["mem.used"], rows[2]["gpu.util"], rows[0]["cpu.percent"]) == (str(2 << 20), "", "")


def test_a_metric_chooses_what_is_printed_and_a_counter_shows_total_and_rate(job: str) -> None:
    head, *rows = call("metrics", job, "--metric", "io.read_bytes", "--metric", "mem.used").stdout.splitlines()
    assert head.split() == ["TIME", "ELAPSED", "io.read_bytes", "rate", "mem.used"]
    assert rows[1].split()[1:] == "1s 1000 B 1000 B/s 1.0 MiB".split()
    assert lines(job, "--metric", "mem.used")[1].keys() == {"schema_version", "job_id", "elapsed", "timestamp", "mem"}
    assert lines(job, "--metric", "mem.used")[1]["mem"] == {"used": 1 << 20}
    header = call("metrics", job, "--metric", "mem.used", "--format", "csv").stdout.splitlines()[0]
    assert header == "timestamp,elapsed,mem.used"


def test_an_unknown_metric_is_refused(job: str) -> None:
    answer = call("metrics", job, "--metric", "cpu.prcent")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert '(did you mean "cpu.percent"?)' in answer.stderr


def test_since_counts_back_from_the_end_and_keeps_the_first_rate(job: str) -> None:
    found = lines(job, "--since", "2s")
    assert [shape["elapsed"] for shape in found] == [4.0, 5.0, 5.5]
    assert found[0]["cpu"]["percent"] == 50.0


def test_since_a_time_is_counted_from_the_start_of_the_job(job: str) -> None:
    found = lines(job, "--since", "2023-11-14T22:13:24Z")  # 3.5 s after the start
    assert [shape["elapsed"] for shape in found] == [4.0, 5.0, 5.5]
    code, out, err = call("metrics", job, "--since", "2023-13-01")
    assert (code, out) == (2, "")
    assert "2023-13-01" in err


def test_since_counts_back_from_now_while_a_job_runs(home: Path) -> None:
    running = running_job(recorder=this_process(), start_time=time.time() - 10.5)
    job = kept_sampled(home, running, steady(10)).id
    assert [shape["elapsed"] for shape in lines(job, "--since", "3s", "--no-follow")] == [8.0, 9.0, 10.0]


def test_thinning_keeps_the_ends_and_the_peak(home: Path) -> None:
    samples = steady(500)
    samples[321] = sample(322.0, mem_used=10**12, cpu_user=322 * 0.4, cpu_system=322 * 0.1)
    job = kept_sampled(home, made_job(duration_seconds=500.5, usage=USAGE), samples).id
    found = lines(job, "--max-points", "30")
    assert 10 < len(found) <= 30
    assert 10**12 in [shape["mem"]["used"] for shape in found]
    assert (found[0]["elapsed"], found[-1]["elapsed"]) == (0.0, 500.5)


def test_blocks_have_sections_units_and_a_true_peak(home: Path) -> None:
    samples = [
        sample(1.0, cpu_user=1.0, cpu_system=0.5, mem_used=768 << 20, limit_memory=1 << 30, limit_cpus=2.0),
        sample(2.0, cpu_user=1.2, cpu_system=0.5, mem_used=512 << 20, limit_memory=1 << 30, io_read_bytes=1 << 20),
        sample(3.0, cpu_user=1.4, cpu_system=0.6, mem_used=600 << 20, io_read_bytes=3 << 20, proc_count=3),
    ]
    job = kept_sampled(home, made_job(duration_seconds=3.5), samples).id
    blocks = call("metrics", job, "--blocks").stdout.split("═══ Metrics Sample at ")
    assert blocks[2] == (
        f"22:13:22 ═══\nJob ID: {job}\nElapsed: 2s\nSample Interval: 1s\n"
        "\nCPU:\n  Usage: 20.0 %\n  User Time: 20.0 %, 1.2s in total\n  System Time: 0.0 %, 500ms in total\n"
        "\nMemory:\n  Current: 512.0 MiB (50.0 % of 1.0 GiB)\n  Peak: 768.0 MiB\n"
        "\nI/O:\n  Read: 1.0 MiB in total\n\n"
    ).replace("22:13:22", blocks[2][:8])
    assert "Usage: 150 % (75.0 % of 2 CPUs)" in blocks[1]
    assert "Read: 2.0 MiB/s, 3.0 MiB in total" in blocks[3]
    assert "Processes:\n  Count: 3\n" in blocks[3]
    assert "–" not in "".join(blocks)


def test_blocks_say_how_much_of_its_limits_a_job_uses(home: Path) -> None:
    limits = {"limit_memory": 1 << 30, "limit_cpus": 1.0, "limit_pids": 100, "limit_fds": 1024}
    samples = [
        sample(1.0, mem_used=256 << 20, proc_count=1, proc_threads=12, proc_fds=45, cpu_throttled=0.0, **limits),
        sample(2.0, mem_used=512 << 20, proc_count=3, proc_threads=14, proc_fds=99, cpu_throttled=0.25, **limits),
    ]
    declared = Limits(cpus=1.0, memory_bytes=2 << 30)
    job = kept_sampled(home, made_job(duration_seconds=2.5, limits=declared), samples).id
    first, second = call("metrics", job, "--blocks").stdout.split("═══ Metrics Sample at ")[1:3]
    assert "  Open FDs: 45 of 1 024\n" in first
    assert "  Threads: 12 (12.0 % of the limit of processes)\n" in first
    assert "  Count: 3 (max: 100)\n" in second
    assert "  Open FDs: 99 (limit of each process: 1 024)\n" in second
    assert "  Throttled: 25.0 %, 250ms in total\n" in second
    assert "  Current: 512.0 MiB (50.0 % of 1.0 GiB)\n" in second
    assert "  Peak: 512.0 MiB\n" in second


def test_a_wide_terminal_has_room_for_the_peak_and_the_limits() -> None:
    assert fitting_columns(80) == DEFAULT_COLUMNS
    titles = [column.title for column in fitting_columns(140)]
    assert titles[len(DEFAULT_COLUMNS) :] == ["PEAK", "OF LIMIT", "FILES", "THROTTLED"]
    [reading] = SampleReader().read(
        [sample(1.0, mem_used=1, limit_memory=4, proc_fds=45, limit_fds=1024, proc_count=1)]
    )
    cells = {column.title: column.format(reading) for column in fitting_columns(140)}
    assert (cells["PEAK"], cells["OF LIMIT"], cells["FILES"], cells["THROTTLED"]) == (
        "1 B",
        "25.0 %",
        "45 of 1 024",
        "–",
    )


def test_blocks_go_with_nothing_that_is_for_programs(job: str) -> None:
    for more in (("--metric", "mem.used"), ("--format", "csv")):
        assert call("metrics", job, "--blocks", *more).returncode == 2


def test_following_as_one_list_is_refused(job: str) -> None:
    answer = call("metrics", job, "--format", "json", "--follow")
    assert (answer.returncode, "--format jsonl" in answer.stderr) == (2, True)


def test_a_job_never_sampled_says_so_and_prints_its_totals(home: Path) -> None:
    job = kept_sampled(home, made_job(usage=USAGE), []).id
    answer = call("metrics", job)
    assert answer.stderr == (
        f"jobtop: job {job[:8]} was never sampled, so only its totals are known"
        " (jobtop run samples unless --no-monitor is given)\n"
    )
    head, row = answer.stdout.splitlines()
    assert (head, row.split()[1:5]) == (HEAD, "2s 138 % –".split())


def test_a_job_that_runs_and_was_never_sampled_says_so(home: Path) -> None:
    sampled = Monitor(interval_seconds=1.0)
    job = kept_sampled(home, running_job(recorder=this_process(), monitor=sampled), []).id
    answer = call("metrics", job, "--no-follow")
    assert (answer.returncode, answer.stdout, "no samples of job" in answer.stderr) == (0, "", True)


def test_a_job_without_monitoring_says_so(home: Path) -> None:
    job = kept_sampled(home, running_job(recorder=this_process()), []).id
    answer = call("metrics", job, "--no-follow")
    assert (answer.returncode, "--no-monitor" in answer.stderr, "yet" in answer.stderr) == (0, True, False)
    assert "--no-monitor" in call("show", job).stdout


def test_damaged_samples_are_left_out_and_counted(home: Path) -> None:
    job = kept_sampled(home, made_job(duration_seconds=5.5, usage=USAGE), steady(5), sealed=True).id
    damage_samples(home)
    answer = call("metrics", job, "--format", "jsonl")
    assert_one_line(answer.stderr, "5 samples", job[:8], "damaged")
    assert [json.loads(line)["elapsed"] for line in answer.stdout.splitlines()] == [0.0, 5.5]


@pytest.mark.parametrize("sealed", [True, False])
def test_a_sample_reads_the_same_before_and_after_it_is_sealed(home: Path, sealed: bool) -> None:
    samples = [sample(0.1234567 + moment, cpu_user=moment / 3, cpu_system=moment / 7) for moment in range(5)]
    job = kept_sampled(home, made_job(duration_seconds=4.9, usage=USAGE), samples, sealed).id
    found = lines(job)
    assert [shape["elapsed"] for shape in found] == [0.0, 0.123, 1.123, 2.123, 3.123, 4.123, 4.9]
    assert [shape["cpu"]["user"] for shape in found[1:4]] == [0.0, 0.333333, 0.666667]
    assert [shape["cpu"]["percent"] for shape in found[2:4]] == [47.62, 47.62]


def test_readings_do_not_depend_on_how_samples_come() -> None:
    job, reader = made_job(), SampleReader()
    bit_by_bit = [reading for one in steady(20) for reading in reader.read([one])]
    assert [sample_json(job, reading) for reading in bit_by_bit] == [
        sample_json(job, reading) for reading in SampleReader().read(steady(20))
    ]
    assert [reading.memory_peak for reading in bit_by_bit] == [number << 20 for number in range(1, 21)]


def test_who_watches_a_job_that_waits_is_told_the_time_once_it_runs(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = kept_sampled(home, made_job(duration_seconds=2.5), steady(2))
    waiting = replace(begun, status=Status.QUEUED, queue=Queued(), start_time=None, duration_seconds=None)
    with closing(App((), False, "never", os.environ)) as app:
        stream(app, app.jobs(), waiting, True, Window(None, None, ()), PRINTERS["table"](waiting, ()))
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert len(rows) == 3
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d", row[0]) for row in rows)
