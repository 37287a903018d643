"""Stores and state directories that others prepared: nothing outside of the state directory is read or deleted."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from jobtop.core.job_id import is_job_id
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.paths import StatePaths, hostname
from jobtop.core.state_files import make_state_dirs
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.upkeep.merging import merge
from records import HERE, made_job, numbered_id, running_job
from support import Jobtop, wait_for

IDS = ("../../victim", "/victim", "..", "", "victim", "0f8fad5b/../../../../victim-0000-000000000000", 7)


@pytest.fixture(params=["jobtop", "unprivileged"])
def called(request: pytest.FixtureRequest) -> Jobtop:
    """jobtop as whoever runs the tests, and as a user without privileges."""
    made: Jobtop = request.getfixturevalue(request.param)
    return made


@pytest.fixture
def victim(called: Jobtop) -> Iterator[Path]:
    """A directory beside the state directory that a crafted id leads to from `jobs`."""
    assert called("run", "--", "true").returncode == 0
    directory = called.home / "victim"
    directory.mkdir()
    (directory / "stdout.log").write_text("precious")
    os.chmod(directory, 0o777)
    yield directory
    assert (directory / "stdout.log").read_text() == "precious"


def crafted(path: Path, work: Path, job_id: object) -> Path:
    """A store with one old job of this host, with its id replaced."""
    database = open_to_write(StatePaths(work, "made"))
    job = Jobs(database).insert(made_job(host=hostname(), settled=True))
    with database.writing() as connection:
        connection.execute("UPDATE jobs SET id = ? WHERE seq = ?", (job_id, job.seq))
    database.close()
    shutil.copyfile(work / "made.db", path)
    path.chmod(0o644)
    return path


@pytest.mark.parametrize("job_id", IDS)
def test_a_job_with_an_id_that_is_a_path_is_not_merged(
    called: Jobtop, victim: Path, tmp_path: Path, job_id: object
) -> None:
    done = called("store", "merge", str(crafted(called.home / "elsewhere.db", tmp_path / "work", job_id)))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "left out" in done.stderr
    assert called("history", "--all", "--format", "csv").stdout.count("\n") == 2


@pytest.mark.parametrize("verb", [("rm", "it"), ("prune",), ("logs", "it"), ("show", "it"), ("history", "--all")])
def test_a_row_with_such_an_id_in_our_own_store_reaches_no_directory(
    called: Jobtop, victim: Path, verb: tuple[str, ...]
) -> None:
    with closing(sqlite3.connect(called.state / f"{hostname()}.db")) as connection, connection:
        connection.execute("UPDATE jobs SET id = '../../victim', external_id = 'it', start_time = 1.0, end_time = 2.0")
    for file in called.state.glob(f"{hostname()}.db*"):
        os.chown(file, *os.stat(called.state)[4:6])
    done = called(*verb, env={"JOBTOP_STORE_RAW_DAYS": "0", "JOBTOP_STORE_ROLLUP_DAYS": "0"})
    assert "precious" not in done.stdout
    assert "Traceback" not in done.stderr


def test_a_job_of_another_file_names_no_process_of_this_host(tmp_path: Path) -> None:
    target = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = identify(target.pid)
    other = open_to_write(StatePaths(tmp_path, "other"))
    Jobs(other).insert(running_job(shim=identity, recorder=None, flags=("attached",)))
    other.close()
    ours = open_to_write(StatePaths(tmp_path / "ours", HERE))
    merge(ours, tmp_path / "other.db", HERE)
    (job,) = Jobs(ours).live_and_recent(9)[0]
    ours.close()
    assert (job.shim, job.status, job.settled) == (None, "lost", True)
    target.communicate(b"\n")


def test_a_file_from_elsewhere_does_not_replace_a_record_of_this_host(tmp_path: Path) -> None:
    ours = open_to_write(StatePaths(tmp_path / "ours", HERE))
    job = Jobs(ours).insert(running_job())
    other = open_to_write(StatePaths(tmp_path, "other"))
    Jobs(other).insert(made_job(id=job.id, host="elsewhere", name="forged"))
    other.close()
    merge(ours, tmp_path / "other.db", HERE)
    assert Jobs(ours).find(job.id).name == job.name
    ours.close()


def test_a_state_directory_that_everybody_can_write_is_refused(called: Jobtop, victim: Path) -> None:
    os.chmod(called.state, 0o777)
    ran = called("run", "--", "sh", "-c", "exit 7")
    assert ran.returncode == 7
    assert "chmod 700" in ran.stderr
    assert called("submit", "--", "true").returncode == 125
    assert called("history", "--format", "csv").stdout.count("\n") == 2
    os.chmod(called.state, 0o700)
    assert called("history", "--format", "csv").stdout.count("\n") == 2


@pytest.mark.parametrize("harm", ["another user's", "a group's"])
def test_a_state_directory_in_which_another_user_can_place_jobs_is_refused(
    root: None, jobtop: Jobtop, harm: str
) -> None:
    jobtop.state.mkdir(mode=0o700)
    if harm == "another user's":
        os.chown(jobtop.state, 65534, 65534)
    else:
        os.chown(jobtop.state, 0, 65534)
        jobtop.state.chmod(0o770)
    ran = jobtop("run", "--", "sh", "-c", "exit 7")
    assert (ran.returncode, ran.stderr.count("nothing of this job is kept")) == (7, 1)
    assert jobtop("submit", "--", "true").returncode == 125
    assert set(os.listdir(jobtop.state)) <= {"jobtop.log"}


@pytest.mark.parametrize("plant", [os.mkfifo, lambda path: os.symlink("/tmp/none", path)], ids=["fifo", "link"])
def test_a_lock_of_the_agent_that_is_no_file_is_named_and_stops_no_job(
    jobtop: Jobtop, plant: Callable[[Path], None]
) -> None:
    assert jobtop("run", "--", "true").returncode == 0
    plant(jobtop.state / f"{hostname()}.agent")
    done = jobtop("agent", "start")
    assert (done.returncode, done.stderr.count("not a regular file")) == (125, 1)
    job_id = jobtop("run", "--detach", "--", "sh", "-c", "exit 3").stdout.strip()
    wait_for(lambda: '"exit_code": 3' in jobtop("show", job_id, "--json").stdout)


def test_reading_a_damaged_store_of_others_writes_nothing(jobtop: Jobtop, tmp_path: Path) -> None:
    store = crafted(tmp_path / "elsewhere.db", tmp_path / "work", str(numbered_id(5)))
    data = bytearray(store.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    store.write_bytes(data)
    (tmp_path / "elsewhere.db.suspect").symlink_to(tmp_path / "victim")
    assert jobtop("--store", str(store), "history").returncode != 0
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("name", ["specs", "specs/.swept"])
def test_sweeping_old_specs_follows_no_link(jobtop: Jobtop, tmp_path: Path, name: str) -> None:
    jobtop("run", "--", "true")
    (tmp_path / "victim").mkdir()
    if name == "specs":
        shutil.rmtree(jobtop.state / "specs")
    else:
        (jobtop.state / name).unlink(missing_ok=True)
    (jobtop.state / name).symlink_to(tmp_path / "victim" / ("made" if name != "specs" else ""))
    assert jobtop("history").returncode == 0
    assert os.listdir(tmp_path / "victim") == []


def link_jobs(state: Path, job_id: str, victim: Path) -> None:
    (state / "jobs").rename(state / "moved")
    (state / "jobs").symlink_to(victim.parent / "linked")
    (victim.parent / "linked").mkdir()
    victim.rename(victim.parent / "linked" / job_id)
    victim.symlink_to(victim.parent / "linked" / job_id)


def link_job(state: Path, job_id: str, victim: Path) -> None:
    shutil.rmtree(state / "jobs" / job_id)
    (state / "jobs" / job_id).symlink_to(victim)


def link_log(state: Path, job_id: str, victim: Path) -> None:
    (state / "jobs" / job_id / "stdout.log").unlink(missing_ok=True)
    (state / "jobs" / job_id / "stdout.log").symlink_to(victim / "stdout.log")


@pytest.mark.parametrize("plant", [link_jobs, link_job, link_log])
@pytest.mark.parametrize("verb", ["logs", "rm"])
def test_a_link_in_a_state_directory_is_not_followed(
    called: Jobtop, victim: Path, plant: Callable[[Path, str, Path], None], verb: str
) -> None:
    job_id = next(name for name in os.listdir(called.state / "jobs") if is_job_id(name))
    plant(called.state, job_id, victim)
    done = called(verb, job_id)
    assert "precious" not in done.stdout
    assert "Traceback" not in done.stderr


def test_the_state_directory_itself_may_be_a_link(jobtop: Jobtop) -> None:
    (jobtop.home / "elsewhere").mkdir(mode=0o700)
    jobtop.state.symlink_to(jobtop.home / "elsewhere")
    assert jobtop("run", "--", "echo", "kept").returncode == 0
    (job,) = os.listdir(jobtop.state / "jobs")
    assert jobtop("logs", job).stdout == "kept\n"
    assert (jobtop.home / "elsewhere" / f"{hostname()}.db").exists()


def test_a_fifo_for_a_log_is_not_waited_for(jobtop: Jobtop) -> None:
    jobtop("run", "--", "true")
    (directory,) = (jobtop.state / "jobs").iterdir()
    (directory / "stdout.log").unlink()
    os.mkfifo(directory / "stdout.log")
    assert jobtop("logs", directory.name, timeout=20).returncode == 0


@pytest.mark.parametrize("name", ["jobs", "specs", "unrecorded"])
def test_directories_of_the_state_are_made_private_and_refused_as_links(tmp_path: Path, name: str) -> None:
    root = tmp_path / "state"
    (tmp_path / "elsewhere").mkdir()
    make_state_dirs(root, root / "other")
    assert os.stat(root / "other").st_mode & 0o777 == 0o700
    (root / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Exception, match="link"):
        make_state_dirs(root, root / name)


def test_an_id_is_a_canonical_uuid_and_nothing_else() -> None:
    good = str(numbered_id(0xABCDEF))
    assert is_job_id(good)
    wrong = (good.upper(), good[:-1], good + "0", good.replace("-", ""), good.replace("-", "_"), f" {good[1:]}", None)
    assert not any(map(is_job_id, (*wrong, good[:-1] + "\n", good[:-1] + "０", "-" * 36, object())))
