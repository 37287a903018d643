"""Whatever happens to a store, every page that reads it reports the problem, and continues when the store is back."""

import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from jobtop.core.model import Job
from jobtop.core.paths import StatePaths
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from jobtop.tui.app import Options
from jobtop.tui.data.incidents import is_unused
from jobtop.tui.screens.compare import Compare
from jobtop.tui.screens.job.screen import JobScreen
from records import HERE, damage_pages, kept_jobs, made_job, running_job
from visiting import Visitor, visit

SHOWN_SECONDS = 2.0
# Adds a job to a store, and prints when.
INSERTER = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from jobtop.core.paths import StatePaths
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from records import made_job
Jobs(open_to_write(StatePaths(Path(sys.argv[1]), sys.argv[2]))).insert(made_job(name="from-elsewhere"))
print(time.time())
"""


def broken_stores(root: Path) -> dict[Path, str]:
    """Files that are not stores or cannot be read, and a key word of the problem of each."""
    for name in ("empty", "garbage", "newer", "damaged"):
        kept_jobs(root / name, made_job())
    stores = {name: StatePaths(root / name, HERE).store for name in ("empty", "garbage", "newer", "damaged")}
    stores["empty"].write_bytes(b"")
    stores["garbage"].write_bytes(b"not a database, but of some length " * 100)
    damage_pages(stores["damaged"])
    stores["foreign"] = root / "foreign.db"
    with closing(sqlite3.connect(stores["newer"])) as newer, closing(sqlite3.connect(stores["foreign"])) as foreign:
        newer.execute("PRAGMA user_version = 99")
        foreign.execute("CREATE TABLE moz_places (url)")
        foreign.execute("PRAGMA user_version = 77")
    stores["directory"] = root / "newer"
    stores["missing"] = root / "missing.db"
    words = {
        "empty": "recorded",
        "garbage": "not a database",
        "damaged": "is damaged",
        "newer": "upgrade jobtop",
        "foreign": "database of another program",
        "directory": "is a directory",
        "missing": "no such store",
    }
    return {stores[name]: said for name, said in words.items()}


def lacks(visitor: Visitor, words: str) -> bool:
    return words not in visitor.screen()


def unwrapped(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


def test_the_problem_of_each_store_is_shown_on_every_screen(tmp_path: Path) -> None:
    broken = broken_stores(tmp_path)
    sound = kept_jobs(tmp_path / "sound", made_job(name="sound"))

    async def scene(visitor: Visitor) -> None:
        view = visitor.console.view
        assert view is not None
        for state in view.stores:
            assert state.problem is not None
            assert broken[state.path] in state.problem
        first = next(state.path for state in view.stores if not is_unused(state.problem or ""))
        assert broken[first] in unwrapped(visitor.screen())
        await visitor.press("2")
        await visitor.until(lambda: all(words in unwrapped(visitor.screen()) for words in broken.values()))
        await visitor.press("b", "slash", "escape", "s", "down", "enter", "space", "c")
        await visitor.console.open_compare([sound[0].id, made_job().id])
        await visitor.shows("missing.db:", "no such store", "two to six")
        await visitor.console.open_job(sound[0].id)
        await visitor.shows(broken[first])

    visit(tmp_path, scene, (160, 42), Options(list(broken)))
    assert not (tmp_path / "garbage" / f"{HERE}.db.suspect").exists()


def test_a_store_beside_broken_ones_is_shown_compared_and_opened(tmp_path: Path) -> None:
    broken = broken_stores(tmp_path)
    sound = kept_jobs(tmp_path / "sound", made_job(name="one"), made_job(name="two"))

    async def scene(visitor: Visitor) -> None:
        await visitor.shows("one", "two", "2 jobs", "(6 more)")
        await visitor.press("2")
        await visitor.shows("one", "two", "7 cannot be read")
        await visitor.press("space", "space", "c")
        page = visitor.console.pages["compare"]
        assert isinstance(page, Compare)
        await visitor.until(lambda: len(page.runs) == 2)
        assert page.problems == []
        await visitor.press("2", "enter")
        await visitor.until(lambda: isinstance(visitor.console.screen, JobScreen) and visitor.console.screen.job_view)

    visit(tmp_path, scene, (160, 42), Options([*broken, StatePaths(tmp_path / "sound", HERE).store]))
    assert sound


def test_a_store_damaged_deleted_or_replaced_while_open_is_reported_and_returns(tmp_path: Path) -> None:
    jobs = kept_jobs(tmp_path, *(made_job(name=f"job-{number}") for number in range(30)))
    store = StatePaths(tmp_path, HERE).store
    whole = store.read_bytes()

    def replace() -> None:
        shutil.copy(store, f"{store}.new")
        Path(f"{store}.new").replace(store)

    def become(content: bytes | None) -> None:
        """Replace the path by a file, or by a directory."""
        if store.is_dir():
            store.rmdir()
        if content is None:
            store.unlink()
            store.mkdir()
        else:
            store.write_bytes(content)

    async def on_the_screen_of_a_job(visitor: Visitor) -> None:
        await visitor.console.open_job(jobs[0].id)
        for break_it, words in ((lambda: damage_pages(store), "it is damaged"), (store.unlink, "no such store")):
            await visitor.shows("job-0")
            break_it()
            await visitor.shows(words)
            become(whole)
            await visitor.until(partial(lacks, visitor, words))
        await visitor.press("escape")

    async def scene(visitor: Visitor) -> None:
        await on_the_screen_of_a_job(visitor)
        await visitor.console.open_compare([job.id for job in jobs[:2]])
        await visitor.shows("Compare 2 jobs")
        content = {"1": "job-29", "2": "job-29", "3": "Compare 2 jobs"}
        for happens, words, keys in (
            (lambda: damage_pages(store), "it is damaged", "12"),
            (store.unlink, "there is no such store", "2"),
            (lambda: become(b""), "it was emptied", "13"),
            (lambda: become(None), "it is a directory", "2"),
            (lambda: become(whole), "", "213"),
            (replace, "", "13"),
        ):
            happens()
            for key in keys:
                await visitor.press(key)
                await visitor.shows(words or content[key])
        assert "job-29" not in visitor.screen()
        assert visitor.console.view is not None
        assert visitor.console.view.stores[0].problem is None

    visit(tmp_path, scene, (120, 40))


def test_a_thousand_jobs_that_come_at_once_are_shown(tmp_path: Path) -> None:
    kept_jobs(tmp_path, made_job(name="first"))

    async def scene(visitor: Visitor) -> None:
        await visitor.press("2")
        await visitor.shows("1 job ")
        with closing(open_to_write(StatePaths(tmp_path, HERE))) as database, database.writing():
            for number in range(1000):
                Jobs(database).insert(job_of(number))
        await visitor.shows("1 001 jobs", "job-999")
        await visitor.press("1")
        await visitor.shows("530 jobs")

    visit(tmp_path, scene, (100, 24))


def job_of(number: int) -> Job:
    """A job; every second one is running."""
    make = running_job if number % 2 else made_job
    return make(name=f"job-{number}", host="elsewhere")


@pytest.mark.parametrize("key", ["1", "2"])
def test_what_another_process_records_is_shown_within_two_seconds(tmp_path: Path, key: str) -> None:
    kept_jobs(tmp_path, made_job(name="first"))

    async def scene(visitor: Visitor) -> None:
        await visitor.press(key)
        await visitor.shows("first")
        command = [sys.executable, "-c", INSERTER, str(tmp_path), HERE, str(Path(__file__).parent.parent)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            await visitor.shows("from-elsewhere")
            seen = time.time()
            assert process.stdout is not None
            assert seen - float(process.stdout.read()) < SHOWN_SECONDS

    visit(tmp_path, scene, (100, 24))
