"""Who is the agent: one lock_path, one row, and decisions that leave no job behind."""

import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from jobtop.core.errors import StoreUnavailable
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.model import Identity, Queued, Status
from jobtop.core.paths import StatePaths
from jobtop.core.shim import revival
from jobtop.core.state_files import open_lock
from jobtop.lifecycle import agent_lock
from jobtop.store import agents
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs
from records import HERE, NO_PROCESS, made_job, running_job, this_process
from support import wait_for

DEAD = Identity("another boot", NO_PROCESS, 1)
# Holds the lock_path, and says so; leaves when its input ends.
SITTER = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("sits", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def sitter(database: Database, paths: StatePaths) -> Iterator["subprocess.Popen[bytes]"]:
    """Another process that holds the lock_path."""
    command = [sys.executable, "-I", "-S", "-c", SITTER, str(paths.agent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"sits\n"
        yield process


# The lock_path.


def test_the_seat_is_held_by_one_and_free_when_that_one_is_gone(
    sitter: "subprocess.Popen[bytes]", paths: StatePaths
) -> None:
    assert agent_lock.is_taken(paths.agent)
    assert agent_lock.take_lock(paths.agent) is None
    sitter.kill()
    sitter.wait()
    held = agent_lock.take_lock(paths.agent)
    assert held is not None
    assert not os.get_inheritable(held)
    assert agent_lock.is_taken(paths.agent)
    os.close(held)
    assert not agent_lock.is_taken(paths.agent)
    assert not agent_lock.is_taken(paths.root / "never made")


def test_a_shim_that_reads_the_lock_is_not_taken_for_another_agent(paths: StatePaths) -> None:
    paths.root.mkdir(exist_ok=True)
    reader = open_lock(paths.agent)
    fcntl.flock(reader, fcntl.LOCK_SH)
    leaving = threading.Timer(0.05, os.close, (reader,))
    leaving.start()
    held = agent_lock.take_lock(paths.agent)
    leaving.join()
    assert held is not None
    os.close(held)


def test_whoever_comes_while_an_agent_leaves_waits_for_the_seat(
    sitter: "subprocess.Popen[bytes]", database: Database, paths: StatePaths
) -> None:
    leaving = threading.Timer(0.1, sitter.kill)
    leaving.start()
    held = agent_lock.wait_for_lock(paths.agent, database, pytest.fail)
    assert held is not None
    assert not leaving.is_alive()
    os.close(held)


def test_whoever_comes_while_an_agent_serves_goes(
    sitter: "subprocess.Popen[bytes]", database: Database, paths: StatePaths
) -> None:
    agents.register(database, identify(sitter.pid))
    assert agent_lock.wait_for_lock(paths.agent, database, pytest.fail) is None
    assert not agent_lock.is_taken(paths.agent.with_name(f"{paths.agent.name}.next"))


def test_one_waits_for_a_slow_leaver_however_long_and_whoever_comes_later_leaves_it_to_that_one(
    sitter: "subprocess.Popen[bytes]", database: Database, paths: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_lock, "EXIT_SECONDS", 0.02)
    words: list[str] = []

    def second(said: str) -> None:
        """The first is past its patience: that is said, and it waits on."""
        words.append(said)
        assert agent_lock.wait_for_lock(paths.agent, database, pytest.fail) is None
        sitter.kill()

    held = agent_lock.wait_for_lock(paths.agent, database, second)
    assert held is not None
    assert len(words) == 1
    assert f"agent {os.getpid()} waits" in words[0]
    os.close(held)


def test_who_waited_goes_on_if_the_agent_it_saw_serve_has_left_since(
    sitter: "subprocess.Popen[bytes]", database: Database, paths: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever came while it waited has left all to it."""
    agents.register(database, identify(sitter.pid))
    looks: list[object] = []

    def last_look(known: Database) -> agents.Registered | None:
        looks.append(found := registered(known))
        agents.unregister(known, identify(sitter.pid))
        if len(looks) == 2:
            sitter.kill()
        return found

    registered = agents.registered
    monkeypatch.setattr(agent_lock, "registered", last_look)
    held = agent_lock.wait_for_lock(paths.agent, database, pytest.fail)
    assert held is not None
    assert looks[0] is not None
    os.close(held)


def test_the_seat_is_beside_a_local_store_and_in_a_folder_of_ones_own_for_a_shared_one(
    database: Database, paths: StatePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_lock, "SCRATCH", str(tmp_path))
    assert agent_lock.lock_path(paths, None) == paths.agent
    shared = agent_lock.lock_path(paths, True)
    assert shared == agent_lock.lock_path(paths, True)
    assert shared != agent_lock.lock_path(StatePaths(tmp_path / "other", HERE), True)
    assert shared.parent.parent == tmp_path
    assert stat.S_IMODE(os.stat(shared.parent).st_mode) == 0o700
    os.chmod(shared.parent, 0o777)
    with pytest.raises(StoreUnavailable, match=f"{shared.parent} is not this user's own: remove it"):
        agent_lock.lock_path(paths, True)


def test_what_the_seat_says_is_read_as_it_was_written(paths: StatePaths, database: Database) -> None:
    """By a shim, which must not take the end of an old number for a part of a new one."""
    held = agent_lock.take_lock(paths.agent)
    assert held is not None
    assert revival.read_agent_lock(str(paths.agent)) == (True, None)
    for text, number in ((b"28234", 28234), (b"0", 0), (b"7", 7), (b"", None)):
        agent_lock.write_lock(held, text)
        assert revival.read_agent_lock(str(paths.agent)) == (True, number)
        assert len(paths.agent.read_bytes()) in (0, agent_lock.LOCK_BYTES), "one write, whatever was there"
    os.close(held)
    assert revival.read_agent_lock(str(paths.agent)) == (False, None)


def test_an_agent_that_dies_is_not_there_though_it_holds_the_seat_for_a_moment_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or the shims that are to see to a successor, which hear of its death first, would be content."""
    assert revival.is_alive(os.getpid())
    assert not revival.is_alive(NO_PROCESS)
    monkeypatch.setattr(revival, "stat_fields", lambda _: "R 1 4711 4711 0 -1 4194308 0".split())  # PF_EXITING is 4
    assert not revival.is_alive(4711)


def test_a_link_that_another_user_made_is_no_place_for_the_lock(
    paths: StatePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_lock, "SCRATCH", str(tmp_path))
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / f"jobtop-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreUnavailable):
        agent_lock.lock_path(paths, True)


# The row.


def test_an_agent_is_known_as_long_as_it_lives(database: Database) -> None:
    assert agents.registered(database) is None
    agents.register(database, this_process())
    there = agents.registered(database)
    assert there is not None
    assert there.identity == this_process()
    agents.register(database, DEAD)
    assert agents.registered(database) is None


def test_good_bye_is_only_said_for_oneself(database: Database) -> None:
    agents.register(database, this_process())
    assert agents.unregister_if_idle(database, DEAD, HERE)
    assert agents.registered(database) is not None
    assert agents.unregister_if_idle(database, this_process(), HERE)
    assert agents.registered(database) is None


UNDONE: dict[str, dict[str, Any]] = {
    "waits": {"status": Status.QUEUED, "queue": Queued(), "recorder": None},
    "is to be tried again": {"status": Status.FAILED, "queue": Queued(retries=1), "settled": True, "recorder": None},
    "runs unrecorded": {"recorder": None, "shim": DEAD},
}
DONE: dict[str, dict[str, Any]] = {
    "is held": {"status": Status.PAUSED, "queue": Queued(), "recorder": None},
    "has failed for good": {"status": Status.FAILED, "queue": Queued(), "settled": True, "recorder": None},
    "was tried again": {"status": Status.LOST, "queue": Queued(retries=1, retried_by="x"), "recorder": None},
    "succeeded": {"status": Status.SUCCESS, "queue": Queued(retries=1), "settled": True, "recorder": None},
    "is recorded by a run": {"recorder": DEAD, "shim": DEAD},
    "waits on another host": {"status": Status.QUEUED, "queue": Queued(), "recorder": None, "host": "rhea"},
}


@pytest.mark.parametrize("what", UNDONE)
def test_an_agent_stays_while_a_job(database: Database, what: str) -> None:
    Jobs(database).insert(running_job(**UNDONE[what]))
    agents.register(database, this_process())
    assert not agents.unregister_if_idle(database, this_process(), HERE)
    assert agents.registered(database) is not None


@pytest.mark.parametrize("what", DONE)
def test_an_agent_leaves_although_a_job(database: Database, what: str) -> None:
    Jobs(database).insert(running_job(**DONE[what]))
    Jobs(database).insert(made_job())
    agents.register(database, this_process())
    assert agents.unregister_if_idle(database, this_process(), HERE)
    assert agents.registered(database) is None


# Having one.


def test_an_agent_that_is_there_is_woken(database: Database, paths: StatePaths) -> None:
    woken: list[int] = []

    def wake(number: int, _: FrameType | None) -> None:
        woken.append(number)

    before = signal.signal(signal.SIGUSR1, wake)
    try:
        agents.register(database, this_process())
        assert not agent_lock.ensure_agent(database, paths)
        wait_for(lambda: woken)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_an_agent_is_started_where_there_is_none(
    database: Database, paths: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[StatePaths] = []
    monkeypatch.setattr(agent_lock, "start_agent", started.append)
    agents.register(database, DEAD)
    assert agent_lock.ensure_agent(database, paths)
    assert started == [paths]


def test_an_agent_is_of_its_store_and_of_no_job(paths: StatePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBTOP_JOB_ID", "outer")
    assert "JOBTOP_JOB_ID" not in agent_lock.agent_environment()
    assert agent_lock.agent_environment()["PATH"] == os.environ["PATH"]
    words = ["--set", f"store.dir={paths.root}", "agent", "run"]
    assert agent_lock.agent_command(paths)[-4:] == words
    assert agent_lock.agent_command(paths, ["agent.idle=1h", "store.dir=x"])[-8:] == [
        *("--set", "agent.idle=1h", "--set", "store.dir=x"),
        *words,
    ]
    assert agent_lock.agent_command(paths, [f"store.dir={paths.root}"]) == agent_lock.agent_command(paths)


def test_what_an_agent_executes_does_not_keep_its_seat(paths: StatePaths, database: Database) -> None:
    held = agent_lock.take_lock(paths.agent)
    assert held is not None
    with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
        os.close(held)
        assert not agent_lock.is_taken(paths.agent)
        child.kill()
