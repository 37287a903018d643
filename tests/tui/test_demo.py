"""The demo: the same each time, running, and deleted afterwards."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from jobtop.core.model import Status
from jobtop.lifecycle.reconcile import reconcile
from jobtop.store.database import Database, open_to_read, open_to_write
from jobtop.store.jobs import Jobs, Query
from jobtop.store.samples.hosts import HostRecord
from jobtop.store.samples.series import SeriesStore
from jobtop.store.samples.snapshots import Snapshots
from jobtop.tui.app import Options
from jobtop.tui.demo.data import JUPYTER, SHORT
from jobtop.tui.demo.demo import REFUSAL, SHORT_EVERY, SHORT_SECONDS, Demo, DemoStore, demo, demo_console
from jobtop.tui.demo.demo_job import LevelCurve
from jobtop.tui.demo.load import OTHERS_CORES, Load
from jobtop.tui.page import KeyLine

MOMENT = 1_773_319_269.0
TABLES = ("jobs", "events", "log_marks", "head", "blocks", "snapshots", "hosts", "host_head")


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """A demo in which time does not advance."""
    return Demo(tmp_path_factory.mktemp("demo"), MOMENT)


@pytest.fixture
def store(still: Demo) -> Iterator[Database]:
    database = open_to_read(still.paths.store)
    yield database
    database.close()


def everything(made: Demo) -> dict[str, object]:
    """All rows of the store and all output."""
    database = open_to_read(made.paths.store)
    with database.reading() as connection:
        rows: dict[str, object] = {
            table: [tuple(row) for row in connection.execute(f"SELECT * FROM {table}")] for table in TABLES
        }
    database.close()
    jobs = made.paths.jobs
    return rows | {str(file.relative_to(jobs)): file.read_text() for file in sorted(jobs.rglob("*")) if file.is_file()}


def wait_until(holds: Callable[[], bool], words: str) -> None:
    deadline = time.monotonic() + 20.0
    while not holds():
        assert time.monotonic() < deadline, f"never: {words}"
        time.sleep(0.02)


def test_a_curve_goes_straight_from_level_to_level() -> None:
    assert [LevelCurve("099", 10.0).at(moment) for moment in (0.0, 2.5, 5.0, 9.9, 12.5)] == [0.0, 0.5, 1.0, 1.0, 0.5]
    assert LevelCurve("09", 10.0, repeats=False).at(100.0) == 1.0


def test_two_demos_of_one_moment_are_the_same(still: Demo, tmp_path: Path) -> None:
    assert everything(Demo(tmp_path, MOMENT)) == everything(still)


def test_the_demo_has_jobs_of_every_kind(store: Database) -> None:
    jobs = Jobs(store).select(Query(limit=None))
    by_status = {status: [job for job in jobs if job.status is status] for status in Status}
    assert len(jobs) > 300
    assert len(by_status[Status.RUNNING]) >= 14
    assert [status for status, found in by_status.items() if not found] == [Status.UNKNOWN]
    assert {flag for job in jobs for flag in job.flags} == {"oom_killed", "throttled"}
    assert any(job.parent_id is not None for job in jobs)
    assert min(job.submitted_at or 0.0 for job in jobs) < MOMENT - 28 * 86400


def test_what_a_record_says_is_what_its_samples_say(store: Database) -> None:
    jobs = Jobs(store).select(Query(statuses=("success",), limit=50))
    for job in jobs:
        assert job.seq is not None
        assert job.duration_seconds is not None
        samples = SeriesStore(store).series(job.seq, ("cpu.user", "cpu.system", "mem.used"))
        user, system = samples.values["cpu.user"], samples.values["cpu.system"]
        assert samples.times[-1] == pytest.approx(job.duration_seconds, abs=0.01)
        assert job.usage.cpu_total_seconds == pytest.approx((user[-1] or 0) + (system[-1] or 0))
        assert job.usage.memory_peak_bytes == max(value or 0 for value in samples.values["mem.used"])
        assert (job.usage.cpu_percent_mean or 0.0) <= (job.usage.cpu_percent_peak or 0.0)


def test_what_runs_has_a_past_processes_and_output(still: Demo, store: Database) -> None:
    for job in Jobs(store).select(Query(statuses=("running",), limit=None)):
        assert job.seq is not None
        assert job.start_time is not None
        samples = SeriesStore(store).samples(job.seq)
        assert samples[-1].elapsed == pytest.approx(MOMENT - job.start_time, abs=0.01)
        assert all(before.elapsed < after.elapsed for before, after in pairwise(samples))
        snapshot = Snapshots(store).latest(job)
        assert snapshot is not None
        assert snapshot.members[0].pid == job.pid
        pids = {job.shim.pid if job.shim else None, *(member.pid for member in snapshot.members)}
        assert {member.parent for member in snapshot.members} <= pids
        assert (still.paths.job(job.id) / "stdout.log").read_text().endswith("\n")


def test_the_cores_are_as_busy_as_the_jobs_make_them(still: Demo) -> None:
    machine = still.machine.read()
    assert machine is not None
    used = 100 * (sum(run.load.cores for run in still.live) + OTHERS_CORES)
    assert machine.values["cpu.percent"] == pytest.approx(used, rel=0.15)
    assert all(0 <= core[0] <= 100 for core in machine.detail["cores"].values())


def test_the_machine_is_recorded_around_the_jobs(store: Database) -> None:
    job = next(
        job for job in Jobs(store).select(Query(statuses=("running",), limit=None)) if job.name == "train-resnet50"
    )
    around = HostRecord(store).around(job, ("cpu.percent", "disk.write_bytes"))
    assert around.times == [float(second) for second in range(278)]
    written = [value or 0.0 for value in around.values["disk.write_bytes"]]
    assert written == sorted(written)


def test_the_demo_advances_and_short_jobs_start_and_end(tmp_path: Path) -> None:
    made = Demo(tmp_path, MOMENT)
    store = DemoStore(made.paths, made.boot_time)
    known = {job.id for job in Jobs(store.database).select(Query(limit=None))}
    for second in range(1, 3 * SHORT_EVERY):
        made.advance(store, MOMENT + second)
        store.clean_up()
    fresh = [job for job in Jobs(store.database).select(Query(limit=None)) if job.id not in known]
    running = [run for run in made.live if run.job.start_time is not None]
    lengths = {SeriesStore(store.database).samples(run.number)[-1].elapsed - run.age(made.now) for run in running}
    store.close()
    assert {job.name for job in fresh} <= {part.name for part in SHORT}
    assert len(fresh) == 3
    assert all(job.status.ended == (made.now - (job.start_time or 0) >= SHORT_SECONDS) for job in fresh)
    assert max(map(abs, lengths)) < 0.01


def test_reconciling_does_not_change_the_jobs_of_the_demo(still: Demo) -> None:
    before = everything(still)
    database = open_to_write(still.paths)
    reconcile(Jobs(database), still.paths)
    database.close()
    assert everything(still) == before


def test_the_output_of_earlier_jobs_is_written_bit_by_bit_the_newest_first(tmp_path: Path) -> None:
    made = Demo(tmp_path, MOMENT)
    database = open_to_read(made.paths.store)
    jobs = Jobs(database).select(Query(limit=None))
    ended = [job for job in jobs if job.status.ended and job.start_time is not None]
    database.close()
    assert made.write_past_output(2)
    written = [job for job in ended if made.paths.job(job.id).exists()]
    while made.write_past_output(100):
        pass
    assert written == ended[:2]
    assert all(made.paths.job(job.id).exists() for job in ended)


def test_a_demo_advances_by_itself_and_leaves_no_files() -> None:
    with demo() as made:
        database = open_to_read(made.paths.store)
        first = database.version_seen()
        wait_until(lambda: database.version_seen() != first, "a new sample")
        database.close()
    assert not made.paths.root.exists()
    assert "jobtop-demo" not in {thread.name for thread in threading.enumerate()}


def test_the_console_shows_the_demo() -> None:
    async def look() -> None:
        with demo_console(Options(())) as console:
            assert console.options.is_readonly
            async with console.run_test(size=(160, 42)) as pilot:
                deadline = time.monotonic() + 20.0
                while console.view is None or console.view.machine is None:
                    assert time.monotonic() < deadline
                    await pilot.pause(0.02)
                assert console.view.machine.name == "atlas"
                assert console.view.running >= 14
                assert console.view.waiting == 6
                await pilot.press("n")
                assert [notice.message for notice in console._notifications] == [REFUSAL]
                offered = {title for _, title in console.screen.query_one(KeyLine).keys}
                assert "Open" in offered
                assert not offered & {"Run", "Stop"}

    asyncio.run(look())


def test_only_processes_of_a_paused_job_are_stopped() -> None:
    load = Load(JUPYTER, "seed", 100)
    is_idle = False
    for _ in range(200):
        load.advance(1.0)
        is_idle = is_idle or not load.cores
        assert {row.state for row in load.processes()} <= {"R", "S"}
    assert is_idle, "it does nothing at times"
    load.idle(1.0)
    assert {row.state for row in load.processes()} == {"T"}
