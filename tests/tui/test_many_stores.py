"""A console on the stores of several hosts shows the jobs of all of them on every page."""

import asyncio
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Sample, Status, Usage
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs, Query
from jobtop.store.samples.series import SeriesStore
from jobtop.tui.app import Options
from jobtop.tui.data import feed as feed_module
from jobtop.tui.data.feed import Feed
from jobtop.tui.data.history_rows import PastJobs, status
from jobtop.tui.data.reader import StoreReader
from jobtop.tui.palette import Tone
from jobtop.tui.screens.compare import Compare
from jobtop.tui.screens.history import History
from jobtop.tui.screens.job.screen import JobScreen
from jobtop.tui.widgets.cells import Words
from jobtop.tui.widgets.filter_line import Field, FilterLine
from records import made_job, running_job
from support import open_files, wait_for
from visiting import Visitor, visit

START = 1_700_000_000.0


def keep(root: Path, host: str, *jobs: Job) -> list[Job]:
    """Store jobs of a host, each with two samples."""
    with closing(open_to_write(StatePaths(root, host))) as database:
        kept = [Jobs(database).insert(job) for job in jobs]
        values = {"cpu.user": 1.0, "cpu.system": 0.0, "mem.used": 7 << 20}
        sample = tuple(map(values.get, JOB_COLUMNS))
        SeriesStore(database).append([(job.seq or 0, Sample(at, sample)) for job in kept for at in (0.0, 1.0)])
        return kept


def job_at(moment: float, host: str, name: str, **values: object) -> Job:
    return made_job(name=name, host=host, submitted_at=START + moment, start_time=START + moment, **values)


class NoMachine:
    """A source without a machine."""

    def read(self) -> None:
        return None


@pytest.fixture
def stores(tmp_path: Path) -> list[Path]:
    """The stores of three hosts with jobs in turns, and a file that is not a store."""
    failed = {"status": Status.FAILED, "exit_code": 1, "duration_seconds": 8.0}
    keep(tmp_path, "alpha", job_at(1, "alpha", "train"), job_at(4, "alpha", "etl", usage=Usage(memory_peak_bytes=5)))
    keep(tmp_path, "beta", job_at(2, "beta", "train", **failed), job_at(5, "beta", "Dump"))
    keep(tmp_path, "gamma", job_at(3, "gamma", "beta-test", usage=Usage(memory_peak_bytes=9)))
    (tmp_path / "notes.db").write_text("no database " * 100)
    return sorted(tmp_path.glob("*.db"))


def names(visitor: Visitor) -> list[str]:
    page = visitor.console.pages["history"]
    assert isinstance(page, History)
    source = page.lines.source
    return [f"{row.line.host[0]}:{row.line.name}" for row in source.window(0, len(source))] if source else []


async def filter_by(visitor: Visitor, text: str) -> None:
    await visitor.press("slash")
    visitor.console.screen.query_one(Field).value = text
    await visitor.press("enter")


def test_the_history_is_one_list_of_all_hosts(tmp_path: Path, stores: list[Path]) -> None:
    async def scene(visitor: Visitor) -> None:
        await visitor.press("2")
        newest = ["b:Dump", "a:etl", "g:beta-test", "b:train", "a:train"]
        await visitor.until(lambda: names(visitor) == newest)
        screen = await visitor.shows("HOST", "4 stores", "1 cannot be read", "notes.db")
        assert [line for line in screen.splitlines() if "gamma" in line and "beta-test" in line]
        await filter_by(visitor, "host:beta")
        await visitor.until(lambda: names(visitor) == ["b:Dump", "b:train"])
        await filter_by(visitor, "name:train")
        await visitor.until(lambda: names(visitor) == ["b:train", "a:train"])
        await filter_by(visitor, "")
        await visitor.press("s")
        await visitor.until(lambda: names(visitor) == ["g:beta-test", "b:Dump", "a:etl", "a:train", "b:train"])
        keep(tmp_path, "gamma", job_at(6, "gamma", "aaa"))
        await visitor.until(lambda: names(visitor)[:1] == ["g:aaa"])
        await visitor.press("slash")
        await visitor.until(lambda: bool(visitor.console.screen.query_one(FilterLine).values))
        values = visitor.console.screen.query_one(FilterLine).values
        assert set(values["host"]) == {"alpha", "beta", "gamma"}

    visit(tmp_path, scene, (110, 24), Options(stores))


def test_groups_count_the_runs_of_all_hosts(tmp_path: Path, stores: list[Path]) -> None:
    async def scene(visitor: Visitor) -> None:
        await visitor.press("2", "b")
        page = visitor.console.pages["history"]
        assert isinstance(page, History)
        await visitor.until(lambda: len(page.groups) == 4)
        train = next(group for group in page.groups if group.name == "train")
        assert (train.summary.jobs, train.summary.success_rate, train.trend) == (2, 0.5, (2.0, 8.0))

    visit(tmp_path, scene, (110, 24), Options(stores))


def test_jobs_of_two_hosts_are_marked_compared_and_opened(tmp_path: Path, stores: list[Path]) -> None:
    async def scene(visitor: Visitor) -> None:
        await visitor.press("2")
        await filter_by(visitor, "name:train")
        await visitor.until(lambda: names(visitor) == ["b:train", "a:train"])
        await visitor.press("space", "space", "c")
        page = visitor.console.pages["compare"]
        assert isinstance(page, Compare)
        await visitor.until(lambda: len(page.runs) == 2)
        assert [run.job.host for run in page.runs] == ["alpha", "beta"]
        assert all(7 << 20 in run.samples.values["mem.used"] for run in page.runs)
        await visitor.shows("alpha", "beta")
        await visitor.press("2", "g", "enter")
        await visitor.until(lambda: isinstance(visitor.console.screen, JobScreen))
        screen = visitor.console.screen
        assert isinstance(screen, JobScreen)
        await visitor.until(lambda: screen.job_view is not None)
        assert screen.job_view is not None
        assert screen.job_view.job.host == "beta"
        assert 7 << 20 in screen.job_view.curves["mem.used"].values

    visit(tmp_path, scene, (120, 36), Options(stores))


def test_the_dashboard_shows_all_hosts_and_names_what_it_cannot_read(tmp_path: Path, stores: list[Path]) -> None:
    async def scene(visitor: Visitor) -> None:
        await visitor.shows("beta-test", "etl", "Dump", "5 jobs", "notes.db", "not a database")

    visit(tmp_path, scene, (120, 36), Options(stores))


def test_lines_that_were_read_stay_while_a_store_is_busy(tmp_path: Path) -> None:
    paths = StatePaths(tmp_path, "alpha")
    with closing(open_to_write(paths, network=True)) as database:
        job = Jobs(database).insert(job_at(1, "alpha", "train"))

    async def scene() -> None:
        reader = StoreReader()
        past = PastJobs(reader, [paths.store])
        await past.read(Query(limit=None))
        assert [line.id for line in past.lines(past.numbers)] == [job.id]
        with closing(sqlite3.connect(paths.store, isolation_level=None)) as holder:
            holder.execute("BEGIN EXCLUSIVE")
            assert [line.id for line in past.lines(past.numbers)] == [job.id]
        past.close()
        paths.store.unlink()
        assert [line.name for line in past.lines(past.numbers)] == ["(cannot be read)"]
        reader.close()

    asyncio.run(scene())


def test_a_reader_that_is_closed_closes_its_stores_and_answers_nothing_more(tmp_path: Path) -> None:
    keep(tmp_path, "alpha", job_at(1, "alpha", "one"))
    store = tmp_path / "alpha.db"

    async def scene() -> None:
        reader = StoreReader()
        assert await reader.read(store, lambda database: len(Jobs(database).select(Query()))) == 1
        assert open_files(tmp_path)
        begun, gate = threading.Event(), threading.Event()

        def held(_: object) -> bool:
            begun.set()
            return gate.wait(10)

        first, second = (asyncio.ensure_future(reader.read(store, held)) for _ in range(2))
        assert await asyncio.to_thread(begun.wait, 10)
        reader.close()
        gate.set()
        assert await first
        with pytest.raises(asyncio.CancelledError):
            await second

    asyncio.run(scene())
    wait_for(lambda: not open_files(tmp_path))


def test_of_many_hosts_only_the_newest_few_that_ended_are_shown_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "ENDED_KEPT_OF_ALL", 8)
    hosts = ("alpha", "beta", "gamma", "delta", "epsilon")
    for host in hosts:
        keep(tmp_path, host, *(job_at(turn, host, f"{host}-{turn}") for turn in range(6)))
    for count, shown in ((1, 6), (2, 4), (5, 2)):
        feed = Feed([tmp_path / f"{host}.db" for host in hosts[:count]], print, machine=NoMachine())
        found = Counter(row.job.host for row in feed.read_view().rows)
        assert found == dict.fromkeys(hosts[:count], shown)
        feed.close()


def test_the_order_of_a_store_that_was_not_written_is_not_asked_for_again(tmp_path: Path) -> None:
    keep(tmp_path, "alpha", job_at(1, "alpha", "one"))
    keep(tmp_path, "beta", job_at(2, "beta", "two"))
    paths = sorted(tmp_path.glob("*.db"))

    async def scene() -> None:
        reader = StoreReader()
        past = PastJobs(reader, paths)
        await past.read(Query(limit=None))
        first = [store.order for store in past.stores]
        assert await past.read(Query(limit=None)) == set()
        assert all(store.order is order for store, order in zip(past.stores, first, strict=True))
        keep(tmp_path, "beta", job_at(3, "beta", "three"))
        assert await past.read(Query(limit=None)) == set()
        assert [line.name for line in past.lines(past.numbers)] == ["three", "two", "one"]
        assert past.stores[0].order is first[0]
        paths[0].unlink()
        keep(tmp_path, "alpha", job_at(4, "alpha", "other"))
        assert await past.read(Query(limit=None)) == {0}
        assert [line.name for line in past.lines(past.numbers)] == ["other", "three", "two"]
        past.close()
        reader.close()

    asyncio.run(scene())


def test_a_job_in_two_files_is_one_row_of_the_dash_by_the_copy_that_has_ended(tmp_path: Path) -> None:
    now = time.time()
    then = running_job(host="alpha", start_time=now, submitted_at=now)
    (copy,) = keep(tmp_path, "aaa", then)
    keep(tmp_path, "alpha", replace(then, status=Status.SUCCESS, end_time=now, settled=True))
    for names in (("aaa", "alpha"), ("alpha", "aaa")):
        feed = Feed([tmp_path / f"{name}.db" for name in names], print, machine=NoMachine())
        assert [(row.key, row.job.status) for row in feed.read_view().rows] == [(copy.id, "success")]
        feed.close()


def test_heartbeats_of_another_host_are_seen_while_the_console_is_open(tmp_path: Path) -> None:
    now = time.time()
    (job,) = keep(tmp_path, "alpha", running_job(host="alpha", start_time=now, submitted_at=now))
    feed = Feed([tmp_path / "alpha.db"], print, machine=NoMachine())
    with closing(open_to_write(StatePaths(tmp_path, "alpha"))) as database:
        for heard, is_stale in ((now - 600, True), (now, False)):
            with database.writing() as connection:
                connection.execute("UPDATE jobs SET heartbeat = ? WHERE seq = ?", (heard, job.seq))
            assert [row.is_stale for row in feed.read_view(at_once=True).rows] == [is_stale]
    feed.close()


def test_a_live_job_of_a_host_without_heartbeats_is_stale_in_both_lists(tmp_path: Path) -> None:
    now = time.time()
    (job,) = keep(tmp_path, "alpha", running_job(name="silent", host="alpha", start_time=now, submitted_at=now))
    with closing(open_to_write(StatePaths(tmp_path, "alpha"))) as database, database.writing() as connection:
        connection.execute("UPDATE jobs SET heartbeat = ? WHERE seq = ?", (now - 600, job.seq))

    async def scene() -> None:
        reader = StoreReader()
        past = PastJobs(reader, [tmp_path / "alpha.db"])
        await past.read(Query(limit=None))
        (row,) = past.rows(now).window(0, 5)
        assert (row.is_stale, status(row)) == (True, Words("stale", Tone.GREEN))
        past.close()
        reader.close()

    asyncio.run(scene())
    feed = Feed([tmp_path / "alpha.db"], print, machine=NoMachine())
    view = feed.read_view()
    assert [row.is_stale for row in view.rows] == [True]
    assert (view.running, view.stale) == (0, 1)
    feed.close()
