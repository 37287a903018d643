"""The processes of a job as they are read closely and shown: on a /proc of plain files, and from the store."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from jobtop.cli.text.processes import EMPTY_CSV_ROW, ProcessListing, csv_rows, in_display_order, listing_json, page
from jobtop.core.measure.collectors.members import TICK_SECONDS
from jobtop.core.measure.collectors.threads import read_arguments, read_task, read_threads
from jobtop.core.measure.live.processes import LiveProcesses, ProcessLine, Rates
from jobtop.core.measure.snapshot import ProcessRow, ThreadLine
from jobtop.core.model import Status
from jobtop.core.paths import StatePaths
from jobtop.core.units import cell_width
from jobtop.store.database import open_to_write
from jobtop.store.samples.snapshots import Snapshots
from processes import MIB, FakeProc, below
from records import HERE, HOSTILE_TEXTS, call, holds_controls, kept_jobs, made_job

SHIM = 50


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    """A shim, and another process."""
    found = FakeProc(tmp_path)
    found.put(1, 0)
    found.put(SHIM, 1)
    return found


def put_command(proc: FakeProc, pid: int, *words: str) -> None:
    (proc.root / str(pid) / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))


def put_thread(proc: FakeProc, pid: int, tid: int, name: str, seconds: float, schedstat: str | None = None) -> None:
    fields = ["0"] * 50
    fields[0], fields[11], fields[19] = "R", str(round(seconds / TICK_SECONDS)), "100"
    directory = proc.root / str(pid) / "task" / str(tid)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "stat").write_text(f"{tid} ({name}) {' '.join(fields)}\n")
    if schedstat is not None:
        (directory / "schedstat").write_text(schedstat)


def close_up(proc: FakeProc, **options: Any) -> LiveProcesses:
    return LiveProcesses(below(SHIM), table=proc.table(), **options)


def commands(closeup: LiveProcesses) -> list[str]:
    return [line.row.command for line in closeup.read().processes]


def line(pid: int, parent: int = SHIM, **values: Any) -> ProcessLine:
    fields: dict[str, Any] = {"command": "work", "cpu_seconds": 1.5, "cpu_percent": 12.3, "memory_bytes": 3 * MIB}
    fields |= {"threads": 1, "age_seconds": 60.0, "state": "S"}
    kind, threads = values.pop("kind", "pss"), values.pop("thread_lines", ())
    return ProcessLine(ProcessRow(pid=pid, parent=parent, **fields | values), kind, threads)


def live(*lines: ProcessLine, **values: Any) -> ProcessListing:
    numbers = {"cpu.percent": 187.2, "mem.used": 5 * MIB, "proc.count": len(lines), "proc.threads": 4}
    job = made_job(status=Status.RUNNING, duration_seconds=None, **values)
    return ProcessListing(job, lines, 61.0, numbers, True)


def test_the_members_of_a_job_are_shown_without_its_shim(proc: FakeProc) -> None:
    proc.put(60, SHIM, cpu=2.5, rss=4 * MIB, pss=3 * MIB, state="R")
    proc.put(61, 60, rss=2 * MIB, pss=MIB)
    put_command(proc, 60, "python", "train.py", "--password", "s3cret")
    found = close_up(proc).read()
    assert [(one.row.pid, one.row.parent, one.row.state) for one in found.processes] == [(60, SHIM, "R"), (61, 60, "S")]
    assert [one.row.command for one in found.processes] == ["python train.py --password ***", "[work]"]
    assert [(one.row.memory_bytes, one.memory_kind) for one in found.processes] == [(3 * MIB, "pss"), (MIB, "pss")]
    assert found.processes[0].row.cpu_seconds == 2.5
    assert found.processes[0].row.cpu_percent is None
    assert (found.frame.values["proc.count"], found.frame.values["cpu.percent"], found.over) == (2, None, False)


def test_memory_is_called_pss_only_where_it_is(proc: FakeProc) -> None:
    proc.put(60, SHIM, rss=4 * MIB, pss=3 * MIB)
    assert [(one.row.memory_bytes, one.memory_kind) for one in close_up(proc).read().processes] == [(4 * MIB, "rss")]
    proc.put(61, SHIM, rss=2 * MIB)
    (proc.root / "61/smaps_rollup").unlink()
    kinds = {one.row.pid: one.memory_kind for one in close_up(proc).read().processes}
    assert kinds == {60: "pss", 61: "rss"}


def test_what_the_user_calls_secret_is_hidden_too(proc: FakeProc) -> None:
    proc.put(60, SHIM)
    put_command(proc, 60, "curl", "https://x/internal-77")
    assert commands(close_up(proc, secret=["internal-[0-9]+"])) == ["curl https://x/***"]


def test_a_process_that_vanishes_while_it_is_read_is_simply_gone(
    proc: FakeProc, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc.put(60, SHIM)
    proc.put(61, SHIM)
    closeup = close_up(proc)
    sweep = closeup.table.sweep

    def sweep_and_end(due: Any) -> None:
        sweep(due)
        proc.end(60)
        proc.put(61, 1, start=777, name="other")

    monkeypatch.setattr(closeup.table, "sweep", sweep_and_end)
    assert closeup.read().processes == ()


def test_a_job_whose_shim_is_gone_is_over(proc: FakeProc) -> None:
    proc.put(60, SHIM)
    closeup = close_up(proc)
    assert not closeup.read().over
    proc.end(60)
    proc.end(SHIM)
    assert closeup.read().over


def test_percentages_are_of_the_time_between_two_readings() -> None:
    rates = Rates()
    rates.advance(1000.0)
    assert rates.percent(7, 100, 5.0) is None
    rates.advance(1002.0)
    assert rates.percent(7, 100, 8.0) == pytest.approx(150)
    born = round(1001.5 / TICK_SECONDS)
    assert rates.percent(8, born, 0.4) == pytest.approx(20), "all that a new one used was used since"
    assert rates.percent(9, 100, 90.0) is None, "an old one that was not seen before may have used it at any time"
    rates.advance(1003.0)
    reborn = round(1002.5 / TICK_SECONDS)
    assert rates.percent(7, reborn, 0.25) == pytest.approx(25), "a reused number is another process"


def test_threads_have_names_states_and_times(proc: FakeProc) -> None:
    proc.put(60, SHIM)
    put_thread(proc, 60, 60, "main) (x", 1.0, "1234567890 5 6\n")
    put_thread(proc, 60, 71, "io", 2.0, "0 0 0\n")
    put_thread(proc, 60, 72, "gpu", 3.0)
    (proc.root / "60/task/73").mkdir()
    found = read_threads(60, str(proc.root))
    assert [(one.id, one.name, one.state) for one in found] == [
        (60, "main) (x", "R"),
        (71, "io", "R"),
        (72, "gpu", "R"),
    ]
    assert [one.cpu_seconds for one in found] == pytest.approx([1.23456789, 2.0, 3.0])
    assert read_threads(61, str(proc.root)) == []
    (shown,) = close_up(proc, with_threads=True).read().processes
    assert [one.name for one in shown.threads] == ["main) (x", "io", "gpu"]


def test_a_missing_process_has_neither_a_state_nor_arguments(tmp_path: Path) -> None:
    assert read_task(str(tmp_path / "7"), 7) is None
    assert read_arguments(7, str(tmp_path)) == ()


FAMILY = (line(30, 10), line(10), line(31, 30), line(12, 10), line(40, 99))


def test_children_stand_below_their_parents_unless_sorted() -> None:
    assert [(depth, one.row.pid) for depth, one in in_display_order(FAMILY, None)] == [
        (0, 10),
        (1, 12),
        (1, 30),
        (2, 31),
        (0, 40),
    ]
    unequal = (
        line(1, cpu_percent=None, memory_bytes=5, age_seconds=3),
        line(2, cpu_percent=9.0, memory_bytes=None, age_seconds=2),
        line(3, cpu_percent=50.0, memory_bytes=9, age_seconds=1),
    )
    orders = {
        sort: [one.row.pid for _, one in in_display_order(unequal, sort)] for sort in ("cpu", "memory", "pid", "age")
    }
    assert orders == {"cpu": [3, 2, 1], "memory": [3, 1, 2], "pid": [1, 2, 3], "age": [1, 2, 3]}


def test_a_page_says_how_the_job_stands_and_who_does_it() -> None:
    lines = list(page(live(line(10, state="R", threads=2), line(12, 10, command="sleep 5")), None, False, None))
    assert lines == [
        "train  ● running  1m01s  CPU 187 %  memory 5.0 MiB  2 processes",
        "PID     CPU  TIME      PSS  THR  STATE    AGE  COMMAND",
        " 10  12.3 %  1.5s  3.0 MiB    2  run    1m00s  work",
        " 12  12.3 %  1.5s  3.0 MiB    1  sleep  1m00s  └ sleep 5",
    ]


def test_a_page_has_the_threads_of_those_with_more_than_one() -> None:
    pair = (ThreadLine(10, "main", "S", 0.1, 0.0), ThreadLine(11, "worker", "R", 2.0, 99.0))
    alone = (ThreadLine(12, "sh", "S", 0.1, 0.0),)
    lines = list(page(live(line(10, thread_lines=pair), line(12, thread_lines=alone)), None, False, None))
    assert [text.split()[-2:] for text in lines[3:5]] == [["·", "main"], ["·", "worker"]]
    assert lines[4].split()[:5] == ["11", "99.0", "%", "2s", "run"]
    assert len(lines) == 6


@pytest.mark.parametrize(
    ("kinds", "title", "cell"),
    [(("pss", "pss"), "PSS", "3.0 MiB"), (("rss", "rss"), "RSS", "3.0 MiB"), (("pss", "rss"), "MEMORY", "3.0 MiB rss")],
)
def test_the_memory_column_says_what_it_holds(kinds: tuple[str, str], title: str, cell: str) -> None:
    _, titles, *cells = page(live(*(line(10 + n, kind=kind) for n, kind in enumerate(kinds))), None, False, None)
    assert title in titles.split()
    assert cell in cells[1]


@pytest.mark.parametrize("columns", [20, 60, 80])
@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_a_page_fits_its_terminal_and_shows_nothing_harmful(text: str, columns: int) -> None:
    thread = ThreadLine(11, text, "S", 0.0, None)
    chain = [line(10 + n, 9 + n, command=text, thread_lines=(thread, thread)) for n in range(30)]
    lines = list(page(live(*chain, name=text), None, False, columns))
    assert len(lines) == 2 + 3 * 30
    assert max(map(cell_width, lines)) <= columns
    assert not holds_controls("\n".join(lines))


def test_json_has_every_process_and_says_what_is_not_known() -> None:
    thread = ThreadLine(10, "main", "S", 0.123456789, None)
    found = listing_json(live(line(10, thread_lines=(thread,)), line(12, cpu_percent=None)))
    assert (found["schema_version"], found["live"], found["elapsed"], found["cpu"]) == (
        1,
        True,
        61.0,
        {"percent": 187.2},
    )
    first, second = found["processes"]
    assert first["thread_list"] == [
        {"tid": 10, "name": "main", "state": "S", "cpu_seconds": 0.123457, "cpu_percent": None}
    ]
    assert (second["thread_list"], second["cpu_percent"], second["memory_kind"]) == (None, None, "pss")
    assert json.dumps(found)


def test_csv_has_a_row_a_process_and_one_a_thread() -> None:
    thread = ThreadLine(11, "worker", "R", 2.0, 99.0)
    found = csv_rows(live(line(10, thread_lines=(thread,)), line(12)))
    assert [list(row) for row in found] == [list(EMPTY_CSV_ROW)] * 3
    assert [(row["pid"], row["tid"], row["command"]) for row in found] == [
        (10, None, "work"),
        (10, 11, "worker"),
        (12, None, "work"),
    ]


def test_a_job_that_has_ended_shows_its_processes_as_they_were_last_seen(home: Path) -> None:
    (job,) = kept_jobs(home, made_job(status=Status.FAILED, reason="exit code 3", exit_code=3))
    assert job.seq is not None
    database = open_to_write(StatePaths(home, HERE))
    Snapshots(database).keep(job.seq, 1.25, [line(12, 10).row, line(10).row])
    database.close()
    first, second, *table = call("top", job.id).stdout.splitlines()
    assert first == "train  ✗ failed after 2s (exit code 3)"
    assert second.startswith("as it was last seen, 1.2s after its start, at 20")
    assert [text.split()[0] for text in table] == ["PID", "10", "12"]
    assert "MEMORY" in table[0]
    found = json.loads(call("top", "--json", job.id).stdout)
    assert (found["live"], found["elapsed"], found["status"]) == (False, 1.25, "failed")
    assert [one["pid"] for one in found["processes"]] == [12, 10]
    assert len(list(csv.DictReader(io.StringIO(call("top", "--format", "csv", job.id).stdout)))) == 2


def test_a_job_of_which_no_process_was_kept_says_so(home: Path) -> None:
    (job,) = kept_jobs(home, made_job())
    (line,) = call("top", job.id).stdout.splitlines()[1:]
    assert "not known" in line
    assert json.loads(call("top", "--json", job.id).stdout)["processes"] is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--interval", "50ms"), "--interval has to be at least 0.1s"),
        (("--once", "--count", "2"), "--count is for the table and for --format jsonl"),
        (("--json", "--count", "2"), "--count is for the table and for --format jsonl"),
        (("--sort", "name"), "--sort"),
        ((), "not a job"),
    ],
)
def test_wrong_usage_is_one_line(home: Path, options: tuple[str, ...], words: str) -> None:
    kept_jobs(home, made_job())
    answer = call("top", "no-such-job", *options)
    assert (answer.returncode, answer.stdout, answer.stderr.count("\n")) == (2, "", 1)
    assert words in answer.stderr
