"""The store deleted, replaced, emptied or moved away while jobs run: the record of each job is in the new one."""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agents import Line, Load, agents_of, line
from jobtop.core.errors import StoreReplaced
from jobtop.core.model import Identity, Sample
from jobtop.core.paths import StatePaths, hostname
from jobtop.core.shim.revival import read_agent_lock
from jobtop.lifecycle.agent_lock import is_taken, take_lock, write_lock
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from records import made_job
from running import ended, nothing_is_left, processes_of, running, show
from support import Jobtop, clean_environment, wait_for
from watching import Watched

__all__ = ["line", "nothing_is_left"]

DEADLINE = 60.0
SOON = 5.0  # seconds in which a verb answers: it does not wait for whoever has the old file open
QUICK = ("--interval", "0.1s")


def delete_all(state: Path, _: Path) -> None:
    for path in state.glob("*.db*"):
        path.unlink()


def delete_store(state: Path, _: Path) -> None:
    store(state).unlink()


def delete_wal(state: Path, _: Path) -> None:
    store(state).with_name(f"{store(state).name}-wal").unlink()


def replace_all(state: Path, other: Path) -> None:
    delete_all(state, other)
    os.replace(store(other), store(state))


def replace_store(state: Path, other: Path) -> None:
    """And leave the journals of the old one beside it."""
    os.replace(store(other), store(state))


def empty(state: Path, _: Path) -> None:
    os.truncate(store(state), 0)


def move_away(state: Path, _: Path) -> None:
    state.rename(state.with_name("moved"))


def delete_directory(state: Path, _: Path) -> None:
    shutil.rmtree(state)


HARMS: list[Callable[[Path, Path], None]] = [
    delete_all,
    delete_store,
    delete_wal,
    replace_all,
    replace_store,
    empty,
    move_away,
    delete_directory,
]


def store(state: Path) -> Path:
    return state / f"{hostname()}.db"


@pytest.fixture(scope="module")
def other_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory in which other jobs have the first numbers; its store is closed."""
    home = tmp_path_factory.mktemp("other")
    other = Jobtop(sys.executable, home, clean_environment(home))
    for name in ("first", "second"):
        assert other("run", "--external-id", name, "--", "true").returncode == 0
    wait_for(lambda: not processes_of(other), DEADLINE)
    return other.state


@pytest.fixture
def other(other_state: Path, tmp_path: Path) -> Path:
    """A copy of it, for a test that takes its store away."""
    return Path(shutil.copytree(other_state, tmp_path / "other"))


def samples(jobtop: Jobtop, reference: str) -> list[Sample]:
    return Watched(jobtop, None, Path(f"{reference}.err")).stored()  # type: ignore[arg-type]


def recorder(jobtop: Jobtop, reference: str) -> Identity:
    found = Watched(jobtop, None, Path(f"{reference}.err")).job.recorder  # type: ignore[arg-type]
    assert found is not None
    return found


def check(jobtop: Jobtop, load: Load, record: dict[str, Any], reference: str) -> None:
    """Totals are right, and samples of the time after the harm are in the new store."""
    assert (record["exit_code"], record["status"]) == (int(load.end), "failed")
    assert record["resource_usage"]["cpu_total_seconds"] == pytest.approx(load.cpu_seconds, rel=0.02, abs=0.01)
    assert record["resource_usage"]["memory_peak_bytes"] > 32 << 20
    kept = [one.elapsed for one in samples(jobtop, reference)]
    assert kept == sorted(set(kept))
    listed = jobtop("history", "--json")
    assert (listed.returncode, listed.stderr) == (0, "")
    checked = jobtop("store", "check")
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("harm", HARMS)
def test_the_record_of_a_run_is_in_the_store_that_took_the_place(
    jobtop: Jobtop, other: Path, harm: Callable[[Path, Path], None]
) -> None:
    load = Load(jobtop.home / "load", 0.3, "7", 32, waits=True)
    with running(jobtop, "--no-ui", *QUICK, "--", *load.command) as run:
        load.begins()
        before = wait_for(lambda: samples(jobtop, run.reference), DEADLINE)[-1].elapsed
        harm(jobtop.state, other)
        wait_for(lambda: [one for one in samples(jobtop, run.reference) if one.elapsed > before + 0.5], DEADLINE)
        began = time.monotonic()
        assert show(jobtop, run.reference)["status"] == "running"
        assert time.monotonic() - began < SOON
        load.let_end()
        _, err = run.outputs()
        assert run.end() == 7, err
        record = show(jobtop, run.reference)
    check(jobtop, load, record, run.reference)
    is_named = any("lost" in entry for entry in record["incomplete"])
    assert is_named is (harm is not delete_wal)


@pytest.mark.parametrize("harm", HARMS)
def test_so_is_that_of_a_job_that_only_the_agent_sees(
    jobtop: Jobtop, line: Line, other: Path, harm: Callable[[Path, Path], None]
) -> None:
    load = Load(jobtop.home / "load", 0.3, "7", 32, waits=True)
    waiting = Load(jobtop.home / "waiting", 0.0, "0")
    started = jobtop("run", "--detach", *QUICK, "--external-id", "left", "--", *load.command)
    assert (started.returncode, started.stderr) == (0, "")
    queued = jobtop("submit", "--external-id", "queued", "--after", started.stdout.strip(), "--", *waiting.command)
    assert (queued.returncode, queued.stderr) == (0, "")
    load.begins()
    before = wait_for(lambda: samples(jobtop, "left"), DEADLINE)[-1].elapsed
    agent = recorder(jobtop, "left")
    assert agent.pid in agents_of(jobtop.state)
    line.close()
    harm(jobtop.state, other)
    wait_for(lambda: [one for one in samples(jobtop, "left") if one.elapsed > before + 0.5], DEADLINE)
    assert recorder(jobtop, "left") == agent
    began = time.monotonic()
    assert show(jobtop, "queued")["status"] == "queued"
    assert time.monotonic() - began < SOON
    load.let_end()
    record = ended(jobtop, "left")
    check(jobtop, load, record, "left")
    assert wait_for(lambda: show(jobtop, "queued")["status"] == "cancelled", DEADLINE), "what it waits for has failed"
    wait_for(lambda: not agents_of(jobtop.state), DEADLINE)


@pytest.mark.parametrize("harm", [move_away, delete_directory])
def test_an_agent_that_starts_in_a_new_directory_leaves_it_to_the_one_that_runs(
    jobtop: Jobtop, line: Line, harm: Callable[[Path, Path], None]
) -> None:
    """The one that runs is stopped meanwhile, so that the other comes first for sure."""
    load, later = Load(jobtop.home / "load", 0.0, "7", 0, waits=True), Load(jobtop.home / "later")
    assert jobtop("run", "--detach", *QUICK, "--external-id", "left", "--", *load.command).returncode == 0
    load.begins()
    wait_for(lambda: samples(jobtop, "left"), DEADLINE)
    agent = recorder(jobtop, "left")
    line.close()
    os.kill(agent.pid, signal.SIGSTOP)
    try:
        harm(jobtop.state, jobtop.home)
        assert jobtop("submit", "--external-id", "later", "--", *later.command).returncode == 0
        lock = line.paths.agent
        wait_for(lambda: is_taken(lock) or is_taken(lock.with_name(f"{lock.name}.next")), DEADLINE)
        assert not is_taken(lock)
    finally:
        os.kill(agent.pid, signal.SIGCONT)
    assert ended(jobtop, "later")["exit_code"] == 0
    assert recorder(jobtop, "left") == agent
    wait_for(lambda: agents_of(jobtop.state) == [agent.pid], DEADLINE)
    load.let_end()
    assert ended(jobtop, "left")["exit_code"] == 7


def test_an_agent_that_loses_its_store_while_it_starts_leaves_no_shim(jobtop: Jobtop, line: Line) -> None:
    """It is stopped while it waits for the lock, so that the store is lost once it has the lock."""
    path, lock = store(jobtop.state), line.paths.agent
    held = take_lock(lock)
    assert held is not None
    line.call_agent()
    wait_for(lambda: is_taken(lock.with_name(f"{lock.name}.next")), DEADLINE)
    (agent,) = agents_of(jobtop.state)
    wait_for(lambda: "nanosleep" in Path(f"/proc/{agent}/wchan").read_text(), DEADLINE)
    os.kill(agent, signal.SIGSTOP)
    try:
        line.close()
        path.rename(path.with_name("kept"))
        path.mkdir()
        write_lock(held, b"1")
        os.close(held)
    finally:
        os.kill(agent, signal.SIGCONT)
    wait_for(lambda: not processes_of(jobtop), DEADLINE / 4)
    assert read_agent_lock(str(lock))[1] != 0, "what it wrote when it took the lock would call for another agent"


@pytest.mark.parametrize("harm", [delete_all, replace_all, move_away])
def test_so_is_that_of_a_run_with_a_rollback_journal(
    jobtop: Jobtop, other: Path, harm: Callable[[Path, Path], None]
) -> None:
    load = Load(jobtop.home / "load", 0.1, "7", 0, waits=True)
    network = {"JOBTOP_STORE_NETWORK": "true"}
    with running(jobtop, "--no-ui", "--", *load.command, env={**jobtop.env, **network}) as run:
        load.begins()
        wait_for(lambda: show(jobtop, run.reference)["pid"], DEADLINE)
        harm(jobtop.state, other)
        load.let_end()
        assert run.end() == 7
    record = show(jobtop, run.reference)
    assert record["exit_code"] == 7
    assert record["resource_usage"]["cpu_total_seconds"] == pytest.approx(load.cpu_seconds, rel=0.02, abs=0.01)


def test_what_a_verb_said_of_a_job_is_kept_when_only_the_wal_is_lost(jobtop: Jobtop, line: Line) -> None:
    load = Load(jobtop.home / "load", 0.0, "7", 0, waits=True)
    assert jobtop("run", "--detach", *QUICK, "--external-id", "left", "--", *load.command).returncode == 0
    load.begins()
    wait_for(lambda: samples(jobtop, "left"), DEADLINE)
    line.close()
    assert jobtop("pin", "left").returncode == 0
    before = samples(jobtop, "left")[-1].elapsed
    delete_wal(jobtop.state, jobtop.home)
    wait_for(lambda: [one for one in samples(jobtop, "left") if one.elapsed > before + 0.5], DEADLINE)
    load.let_end()
    record = ended(jobtop, "left")
    assert record["exit_code"] == 7
    assert record["pinned"] is True


@contextmanager
def held_open(state: Path) -> Iterator[Jobs]:
    """The store as a program has it that writes nothing for a while."""
    database = open_to_write(StatePaths(state, hostname()))
    try:
        yield Jobs(database)
    finally:
        database.close()


def test_an_emptied_store_is_noticed_at_once_by_every_verb(jobtop: Jobtop) -> None:
    assert jobtop("run", "--external-id", "before", "--", "true").returncode == 0
    with held_open(jobtop.state):
        empty(jobtop.state, jobtop.home)
        checked = jobtop("store", "check")
        assert checked.returncode == 1
        assert "emptied" in checked.stdout
        began = time.monotonic()
        listed = jobtop("history")
        assert time.monotonic() - began < SOON
        assert "damaged" in listed.stderr
        assert jobtop("run", "--external-id", "after", "--", "true").returncode == 0
    assert show(jobtop, "after")["status"] == "success"
    assert jobtop("store", "check").returncode == 0


def test_while_a_removed_wal_is_missing_verbs_say_so_and_runs_wait(jobtop: Jobtop) -> None:
    with held_open(jobtop.state) as jobs:
        jobs.insert(made_job(name="first"))
        delete_wal(jobtop.state, jobtop.home)
        listed = jobtop("history")
        assert (listed.returncode, "write-ahead log was removed" in listed.stderr) == (125, True)
        assert jobtop("run", "--external-id", "meanwhile", "--", "sh", "-c", "exit 7").returncode == 7
        with pytest.raises(StoreReplaced):
            jobs.insert(made_job(name="second"))
        jobs.insert(made_job(name="second"))
        assert show(jobtop, "meanwhile")["exit_code"] == 7
    assert {job["name"] for job in json.loads(jobtop("history", "--json").stdout)} == {"first", "second", "sh"}


def test_where_no_store_can_be_made_again_the_record_waits_beside_it(unprivileged: Jobtop) -> None:
    jobtop = unprivileged
    load = Load(jobtop.home / "load", 0.1, "7", 0, waits=True)
    words = (jobtop.python, *load.command[1:])
    with running(jobtop, "--no-ui", "--no-monitor", "--", *words) as run:
        load.begins()
        wait_for(lambda: show(jobtop, run.reference)["pid"], DEADLINE)
        delete_all(jobtop.state, jobtop.home)
        store(jobtop.state).mkdir()
        load.let_end()
        _, err = run.outputs()
        assert run.end() == 7
    assert b"not in the history yet" in err
    store(jobtop.state).rmdir()
    assert show(jobtop, run.reference)["exit_code"] == 7
