"""The file: how it is made, migrated, shared, refused and set aside."""

import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

import jobtop.store.creation as creation_module
import jobtop.store.database as database_module
from jobtop.core.errors import StoreBusy, StoreDamaged, StoreError, StoreForeign, StoreTooNew, StoreUnavailable
from jobtop.core.paths import StatePaths
from jobtop.store.database import Database, open_to_read, open_to_write
from jobtop.store.files import is_network
from jobtop.store.jobs import Jobs, Query
from jobtop.store.newest_schema import SCRIPT_VERSION
from jobtop.store.repair import set_aside_if_damaged
from jobtop.store.schema import MIGRATIONS, VERSION
from records import HERE, damage_pages, made_job
from support import ROOT

GARBAGE = b"this is not a database\n" * 500
KEPT_STORE = ROOT / "tests/data/store-v1.db"

# Makes store after store, each in a process that is killed a few steps of SQLite later than the one before, until one
# is made; prints how many were not.
KILLED_MAKERS = """
import os, signal, sys
from jobtop.core.paths import StatePaths
from jobtop.store import database

def connect(*arguments):
    connection = connect_as_always(*arguments)
    connection.set_progress_handler(look, 1)
    return connection

def look():
    global steps
    steps -= 1
    if steps < 0:
        os.kill(os.getpid(), signal.SIGKILL)

connect_as_always, database.connect = database.connect, connect
status, number = signal.SIGKILL, -1
while status == signal.SIGKILL:
    number += 1
    steps = number * 397
    child = os.fork()
    if child == 0:
        database.open_to_write(StatePaths(os.path.join(sys.argv[1], str(number)), "atlas")).close()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
print(number)
"""


def pragma(path: Path, name: str) -> object:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(f"PRAGMA {name}").fetchone()[0]
    finally:
        connection.close()


def execute(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    try:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    finally:
        connection.close()


def tables(path: Path) -> list[tuple[str, str]]:
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql NOT NULL ORDER BY name").fetchall()
    finally:
        connection.close()
    return [(name, " ".join(sql.split())) for name, sql in rows]


def content(path: Path) -> list[str]:
    """Every table, index and row of a store, in the order in which they were made."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid").fetchall()
        return [*map(str, rows), *connection.iterdump()]


def filled(paths: StatePaths, count: int) -> None:
    database = open_to_write(paths)
    for number in range(count):
        Jobs(database).insert(made_job(name=f"job {number}", note="n" * 500))
    database.close()


def names(database: Database) -> set[str]:
    return {job.name for job in Jobs(database).select(Query(limit=None))}


def read_names(paths: StatePaths) -> set[str]:
    database = open_to_write(paths)
    try:
        return names(database)
    finally:
        database.close()


def test_a_new_store_is_of_todays_version_in_wal_mode_and_for_its_owner_alone(paths: StatePaths) -> None:
    open_to_write(paths).close()
    assert pragma(paths.store, "user_version") == VERSION
    assert pragma(paths.store, "journal_mode") == "wal"
    assert pragma(paths.store, "auto_vacuum") == 2
    assert paths.store.stat().st_mode & 0o777 == 0o600
    assert paths.root.stat().st_mode & 0o777 == 0o700


def test_a_store_on_a_network_file_system_has_a_rollback_journal(paths: StatePaths) -> None:
    open_to_write(paths, network=True).close()
    assert pragma(paths.store, "journal_mode") == "delete"


def test_a_store_moved_to_a_network_file_system_changes_its_journal_once_it_is_open_only_once(
    paths: StatePaths,
) -> None:
    filled(paths, 1)
    with closing(open_to_read(paths.store)) as reader:
        assert names(reader) == {"job 0"}
        open_to_write(paths, network=True, patience=0.01).close()
        assert pragma(paths.store, "journal_mode") == "wal"
    for network, journal in ((True, "delete"), (False, "wal")):
        with closing(open_to_write(paths, network)) as database:
            assert names(database) == {"job 0"}
        assert pragma(paths.store, "journal_mode") == journal


def test_a_store_with_a_rollback_journal_is_read_with_locks_where_it_cannot_be_written(
    paths: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, local = paths, StatePaths(paths.root, "local")
    open_to_write(shared, network=True).close()
    open_to_write(local, network=False).close()
    monkeypatch.setattr(os, "access", lambda _, mode: mode != os.W_OK)
    for which, is_locked in ((shared, True), (local, False)):
        with closing(open_to_read(which.store)) as database:
            assert (database.notice is None) is is_locked


@pytest.mark.parametrize(
    ("path", "network"),
    [
        ("/home/ada/state", True),
        ("/home", True),
        ("/home2/ada", False),
        ("/home/local/state", False),
        ("/home/local/far away/state", True),
        ("/srv/x", False),
    ],
)
def test_the_innermost_mount_decides_whether_a_path_is_on_the_network(path: str, network: bool) -> None:
    mounts = [
        "1 0 8:1 / / rw - ext4 /dev/vda rw",
        "2 1 0:40 / /home rw shared:1 - nfs4 server:/home rw",
        "3 2 8:2 / /home/local rw - xfs /dev/vdb rw",
        "4 3 0:41 / /home/local/far\\040away rw - fuse.sshfs host: rw",
    ]
    assert is_network(Path(path), "\n".join(mounts)) is network


def test_a_link_into_a_network_file_system_is_on_the_network(tmp_path: Path) -> None:
    far, link = tmp_path / "far", tmp_path / "link"
    far.mkdir()
    link.symlink_to(far)
    mounts = f"1 0 8:1 / / rw - ext4 /dev/vda rw\n2 1 0:40 / {far} rw - nfs server:/ rw"
    assert is_network(link / "state", mounts)


def test_this_directory_is_judged_by_the_mounts_of_this_machine(tmp_path: Path) -> None:
    kind = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True).stdout.strip()
    assert is_network(tmp_path) is (kind in ("nfs", "smb2", "cifs", "v9fs", "lustre", "gpfs"))


def test_a_write_that_fails_halfway_leaves_nothing_and_the_store_usable(paths: StatePaths) -> None:
    database = open_to_write(paths)
    jobs = Jobs(database)
    job = jobs.insert(made_job(name="before"))

    def change_and_fail() -> None:
        with database.writing() as connection:
            connection.execute("UPDATE jobs SET name = 'changed'")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        change_and_fail()
    assert jobs.find(job.id).name == "before"
    jobs.insert(made_job(name="after"))
    assert names(database) == {"before", "after"}
    database.close()


def test_everything_read_in_one_transaction_is_of_one_moment(paths: StatePaths) -> None:
    reader, writer = open_to_write(paths), open_to_write(paths)
    Jobs(writer).insert(made_job())
    with reader.reading() as connection:
        before = connection.execute("SELECT count(*) FROM jobs").fetchone()[0]
        Jobs(writer).insert(made_job())
        after = connection.execute("SELECT count(*) FROM jobs").fetchone()[0]
    assert (before, after) == (1, 1)
    with reader.reading() as connection:
        assert connection.execute("SELECT count(*) FROM jobs").fetchone()[0] == 2
    reader.close()
    writer.close()


def test_a_writer_waits_for_another_writer(paths: StatePaths) -> None:
    first, second = open_to_write(paths), open_to_write(paths)
    written = threading.Event()

    def write() -> None:
        other = open_to_write(paths)
        Jobs(other).insert(made_job(name="waited"))
        other.close()
        written.set()

    with first.writing():
        thread = threading.Thread(target=write)
        thread.start()
        assert not written.wait(0.2)
    assert written.wait(20)
    thread.join()
    assert names(second) == {"waited"}
    first.close()
    second.close()


def test_a_writer_that_waited_too_long_says_who_is_to_blame(paths: StatePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 0.01)
    first, second = open_to_write(paths), open_to_write(paths)
    with first.writing(), pytest.raises(StoreUnavailable, match="another program"):
        Jobs(second).insert(made_job())
    Jobs(second).insert(made_job())
    first.close()
    second.close()


def test_many_processes_that_make_the_store_at_once_all_write_to_one(paths: StatePaths) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from pathlib import Path; from records import kept_jobs, made_job\n"
        "sys.stdin.read(); kept_jobs(Path(sys.argv[1]), made_job())"
    )
    command = [sys.executable, "-c", program, str(paths.root), str(ROOT / "tests")]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(6)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    for process in processes:
        assert process.stderr is not None
        assert (process.wait(60), process.stderr.read()) == (0, b"")
        process.stderr.close()
    (store,) = paths.root.glob("*.db")
    database = open_to_read(store)
    assert len(Jobs(database).select(Query(limit=None))) == len(processes)
    database.close()


def test_a_kill_while_a_store_is_made_leaves_a_whole_store_or_none(paths: StatePaths) -> None:
    paths.root.mkdir()
    command = [sys.executable, "-c", KILLED_MAKERS, str(paths.root)]
    killed = int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)
    assert killed >= 10
    open_to_write(paths).close()
    for number in range(killed):
        left = StatePaths(paths.root / str(number), "atlas")
        with closing(open_to_read(left.store)) as reader:
            assert reader.version in (0, VERSION)
        open_to_write(left).close()
        assert content(left.store) == content(paths.store)


def test_an_empty_file_becomes_a_store(paths: StatePaths) -> None:
    paths.root.mkdir()
    paths.store.touch()
    filled(paths, 1)
    assert pragma(paths.store, "user_version") == VERSION


def test_the_store_kept_from_version_1_opens_and_has_todays_tables(paths: StatePaths) -> None:
    paths.root.mkdir()
    paths.store.write_bytes(KEPT_STORE.read_bytes())
    assert pragma(paths.store, "user_version") == 1
    database = open_to_write(paths)
    jobs = Jobs(database).select(Query(limit=None))
    database.close()
    fresh = StatePaths(paths.root / "fresh", "atlas")
    open_to_write(fresh).close()
    assert tables(paths.store) == tables(fresh.store)
    assert [(job.name, str(job.status), job.exit_code) for job in jobs] == [
        ("gone", "error", 127),
        ("late", "timeout", 143),
        ("train", "failed", 3),
        ("sweep", "success", 0),
    ]
    sweep = jobs[-1]
    assert (sweep.host, sweep.user, sweep.cwd) == ("atlas", "ada", "/home/ada/project")
    assert sweep.tags == {"run": "a\nb"}
    assert sweep.params == {"lr": 0.1}
    assert sweep.usage.cpu_total_seconds is not None


def test_a_new_store_has_exactly_what_all_migrations_make(paths: StatePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MIGRATIONS[SCRIPT_VERSION:] == (), "run make schema"
    open_to_write(paths).close()
    migrated = StatePaths(paths.root / "migrated", "atlas")
    monkeypatch.setattr(creation_module, "SCRIPT_VERSION", 0)
    open_to_write(migrated).close()
    assert content(paths.store) == content(migrated.store), "run make schema"
    for name in ("user_version", "application_id", "auto_vacuum", "journal_mode", "page_size", "encoding"):
        assert pragma(paths.store, name) == pragma(migrated.store, name)


def test_a_new_store_is_made_by_the_migrations_while_the_script_is_older(
    paths: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(creation_module, "MIGRATIONS", (*MIGRATIONS, "CREATE TABLE more (x TEXT) STRICT;"))
    monkeypatch.setattr(database_module, "VERSION", VERSION + 1)
    open_to_write(paths).close()
    assert "more" in dict(tables(paths.store))


def test_a_script_that_fails_leaves_an_empty_store(paths: StatePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(creation_module, "SCRIPT", "CREATE TABLE more (x TEXT) STRICT; INSERT INTO nowhere VALUES (1)")
        with pytest.raises(StoreError, match="nowhere"):
            open_to_write(paths)
    assert tables(paths.store) == []
    assert read_names(paths) == set()


def test_a_migration_keeps_the_jobs(paths: StatePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(paths, 2)
    monkeypatch.setattr(creation_module, "MIGRATIONS", (*MIGRATIONS, "CREATE TABLE more (x TEXT) STRICT;"))
    monkeypatch.setattr(database_module, "VERSION", VERSION + 1)
    assert read_names(paths) == {"job 0", "job 1"}
    assert pragma(paths.store, "user_version") == VERSION + 1


def test_a_migration_that_fails_leaves_the_store_as_it_was(paths: StatePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(paths, 2)
    before = tables(paths.store)
    with monkeypatch.context() as patch:
        steps = "CREATE TABLE more (x TEXT) STRICT; INSERT INTO nowhere VALUES (1);"
        patch.setattr(creation_module, "MIGRATIONS", (*MIGRATIONS, steps))
        patch.setattr(database_module, "VERSION", VERSION + 1)
        with pytest.raises(StoreError, match="nowhere"):
            open_to_write(paths)
    assert tables(paths.store) == before
    assert read_names(paths) == {"job 0", "job 1"}


def test_a_store_of_a_newer_jobtop_is_refused_and_not_touched(paths: StatePaths) -> None:
    filled(paths, 1)
    execute(paths.store, "PRAGMA user_version = 99")
    before = paths.store.read_bytes()
    with pytest.raises(StoreTooNew, match="version 99"):
        open_to_write(paths)
    with pytest.raises(StoreTooNew, match="upgrade jobtop"):
        open_to_read(paths.store)
    assert paths.store.read_bytes() == before


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("table", ["mine", "jobs"])
def test_a_database_of_another_program_is_refused_and_not_touched(paths: StatePaths, version: int, table: str) -> None:
    paths.root.mkdir()
    execute(
        paths.store, f"CREATE TABLE {table} (x)", f"INSERT INTO {table} VALUES (1)", f"PRAGMA user_version = {version}"
    )
    before = paths.store.read_bytes()
    with pytest.raises(StoreError, match=re.escape(f"{HERE}.db")):
        read_names(paths)
    assert paths.store.read_bytes() == before


def test_a_directory_in_the_place_of_the_store_is_refused_and_kept(paths: StatePaths) -> None:
    paths.store.mkdir(parents=True)
    with pytest.raises(StoreUnavailable, match=re.escape(f"{HERE}.db")):
        open_to_write(paths)
    assert paths.store.is_dir()


def test_a_file_in_the_place_of_the_state_directory_is_refused_and_kept(paths: StatePaths) -> None:
    paths.root.write_text("mine")
    with pytest.raises(StoreUnavailable, match="state"):
        open_to_write(paths)
    assert paths.root.read_text() == "mine"


def test_a_file_that_is_no_database_is_set_aside_whole(paths: StatePaths) -> None:
    paths.root.mkdir()
    paths.store.write_bytes(GARBAGE)
    database = open_to_write(paths)
    (aside,) = paths.root.glob(f"{HERE}.db.damaged-*")
    assert aside.read_bytes() == GARBAGE
    assert database.notice is not None
    assert aside.name in database.notice
    assert names(database) == set()
    database.close()
    again = open_to_write(paths)
    assert again.notice is None
    again.close()


def test_repair_sets_a_store_with_damaged_pages_aside_whole(paths: StatePaths) -> None:
    filled(paths, 30)
    damaged = damage_pages(paths.store)
    aside = set_aside_if_damaged(paths)
    assert aside is not None
    assert Path(aside).read_bytes() == damaged
    assert read_names(paths) == set()


def test_repair_leaves_a_sound_store_a_locked_one_and_a_missing_one_alone(
    paths: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 0.01)
    paths.root.mkdir()
    assert set_aside_if_damaged(paths) is None
    assert not paths.store.exists()
    open_to_write(paths, network=True).close()
    filled(paths, 1)
    blocker = sqlite3.connect(paths.store, isolation_level=None)
    blocker.execute("BEGIN EXCLUSIVE")
    assert set_aside_if_damaged(paths) is None
    blocker.close()
    assert set_aside_if_damaged(paths) is None
    assert read_names(paths) == {"job 0"}


def test_two_stores_damaged_in_one_second_are_both_kept(paths: StatePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    paths.root.mkdir()
    monkeypatch.setattr(time, "strftime", lambda *_: "20300102T030405")
    for content in (GARBAGE, GARBAGE[::-1]):
        paths.store.write_bytes(content)
        open_to_write(paths).close()
    asides = {file.read_bytes() for file in paths.root.glob(f"{HERE}.db.damaged-*")}
    assert asides == {GARBAGE, GARBAGE[::-1]}


def test_of_many_that_find_a_damaged_store_one_renames_it_and_none_names_a_missing_file(
    paths: StatePaths,
) -> None:
    paths.root.mkdir()
    paths.store.write_bytes(GARBAGE)
    notices: list[str | None] = []
    start = threading.Barrier(6)

    def open_it() -> None:
        start.wait()
        database = open_to_write(paths)
        notices.append(database.notice)
        database.close()

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    (aside,) = paths.root.glob(f"{HERE}.db.damaged-*")
    assert aside.read_bytes() == GARBAGE
    assert len(notices) == 6
    assert all(notice is None or aside.name in notice for notice in notices)
    assert any(notices)


def test_a_store_that_another_process_renames_meanwhile_is_opened_again(
    paths: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_to_write(paths).close()
    may_write = os.access

    def renamed_meanwhile(file: str, mode: int) -> bool:
        monkeypatch.undo()
        paths.store.rename(f"{paths.store}.damaged-1")
        answer = may_write(file, mode)
        paths.store.touch()
        return answer

    monkeypatch.setattr(os, "access", renamed_meanwhile)
    database = open_to_write(paths)
    assert names(database) == set()
    database.close()


def test_a_reader_does_not_set_a_damaged_store_aside(paths: StatePaths) -> None:
    paths.root.mkdir()
    paths.store.write_bytes(GARBAGE)
    with pytest.raises(StoreError):
        open_to_read(paths.store)
    assert paths.store.read_bytes() == GARBAGE
    assert not list(paths.root.glob("*.damaged-*"))


def test_damage_met_by_a_reader_is_looked_into_by_the_next_writer(paths: StatePaths) -> None:
    filled(paths, 30)
    database = open_to_write(paths)
    damaged = damage_pages(paths.store)
    with pytest.raises(StoreDamaged):
        names(database)
    database.close()
    database = open_to_write(paths)
    (aside,) = paths.root.glob(f"{HERE}.db.damaged-*")
    assert Path(aside).read_bytes() == damaged
    assert aside.name in (database.notice or "")
    database.close()
    database = open_to_write(paths)
    assert database.notice is None
    database.close()


def test_a_reader_does_not_make_a_store(paths: StatePaths) -> None:
    with pytest.raises(StoreUnavailable, match="no such store"):
        open_to_read(paths.store)
    assert not paths.root.exists()


def test_a_reader_says_what_is_no_store_and_leaves_it_alone(paths: StatePaths) -> None:
    paths.root.mkdir()
    for make, error, words in (
        (paths.store.mkdir, StoreUnavailable, "it is a directory"),
        (lambda: os.mkfifo(paths.store), StoreUnavailable, "it is no file"),
        (lambda: execute(paths.store, "CREATE TABLE mine (x)"), StoreForeign, "another program"),
        (lambda: execute(paths.store, "CREATE TABLE mine (x)", "PRAGMA user_version = 77"), StoreForeign, "another"),
        (lambda: paths.store.write_bytes(GARBAGE), StoreDamaged, "not a store"),
    ):
        make()
        with pytest.raises(error, match=words):
            open_to_read(paths.store)
        assert list(paths.root.iterdir()) == [paths.store]
        paths.store.rmdir() if paths.store.is_dir() else paths.store.unlink()


def test_a_busy_store_is_not_read_without_locks(paths: StatePaths) -> None:
    open_to_write(paths, network=True).close()
    with closing(sqlite3.connect(paths.store, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreBusy):
            open_to_read(paths.store, patience=0.01)
    open_to_read(paths.store, patience=0.01).close()


def test_a_reader_cannot_write(paths: StatePaths) -> None:
    filled(paths, 1)
    database = open_to_read(paths.store)
    assert names(database) == {"job 0"}
    with pytest.raises(StoreUnavailable, match="read-only"):
        Jobs(database).insert(made_job())
    database.close()


def test_a_reader_who_gets_no_lock_reads_the_file_as_it_is_and_says_so(
    paths: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(paths, 1)
    connect = database_module.connect

    def refuse_locks(path: str, options: str, patience: float | None) -> sqlite3.Connection:
        if options == "mode=ro":
            raise sqlite3.OperationalError("unable to open database file")
        return connect(path, options, patience)

    monkeypatch.setattr(database_module, "connect", refuse_locks)
    database = open_to_read(paths.store)
    assert names(database) == {"job 0"}
    assert database.notice is not None
    assert str(paths.store) in database.notice
    database.close()


@pytest.mark.parametrize("name", ["a b#c?d%20é.x", "100%", "it's"])
def test_a_host_may_have_any_name(tmp_path: Path, name: str) -> None:
    paths = StatePaths(tmp_path / "sp ace?#%", name)
    filled(paths, 1)
    database = open_to_read(paths.store)
    assert names(database) == {"job 0"}
    database.close()
    assert (tmp_path / "sp ace?#%" / f"{name}.db").is_file()
