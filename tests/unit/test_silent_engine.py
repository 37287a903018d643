"""An engine that hangs: a request to a job in its container changes nothing, and many jobs wait for it once."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fake_engine import FakeEngine, container_id, container_row, fake_engine
from jobtop.cli.verbs.control import end_jobs
from jobtop.core.errors import EngineError, ExitCode
from jobtop.core.measure.collectors.docker.client import Engine
from jobtop.core.measure.collectors.docker.model import Endpoint
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.model import Job
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.core.run.containers.file import ContainerFile, write_container
from jobtop.lifecycle.containers import attached_ends
from jobtop.lifecycle.containers.engines import find_engine
from jobtop.lifecycle.containers.silence import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Silence
from jobtop.lifecycle.control import Control
from jobtop.lifecycle.kinds import container, container_attached
from jobtop.lifecycle.reconcile import reconcile
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from records import NO_PROCESS, leave_started, running_job, this_process

ID = container_id(1)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEngine]:
    for module in (attached_ends, container, container_attached):
        monkeypatch.setattr(module, "ENGINE_SECONDS", 0.3)
    with fake_engine(tmp_path / "d.sock", [container_row("c", 1)]) as found:
        yield found


@pytest.fixture
def jobs(paths: StatePaths) -> Iterator[Jobs]:
    with closing(open_to_write(paths)) as database:
        yield Jobs(database)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as found:
        yield found
        found.kill()


def in_container(engine: FakeEngine, pid: int, *flags: str) -> Job:
    found = {"engine": engine.url, "engine_name": "docker", "id": ID, "started_at": 1.0}
    return running_job(kind="container", flags=flags, shim=identify(pid), findings={"container": found})


@pytest.mark.parametrize("flags", [(), ("attached",)], ids=["started", "attached"])
@pytest.mark.parametrize("verb", ["stop", "kill"])
def test_a_request_that_no_engine_takes_is_not_recorded(
    engine: FakeEngine,
    jobs: Jobs,
    paths: StatePaths,
    process: subprocess.Popen[bytes],
    verb: str,
    flags: tuple[str, ...],
) -> None:
    job = jobs.insert(in_container(engine, process.pid, *flags))
    engine.hang()
    control = Control(jobs, paths, pytest.fail)
    with pytest.raises(EngineError, match="does not answer"):
        (control.stop if verb == "stop" else control.kill)(job, "a test")
    assert jobs.find(job.id).stop_request is None
    assert process.poll() is None


def test_other_jobs_are_stopped_beside_one_whose_engine_hangs(
    engine: FakeEngine, jobs: Jobs, paths: StatePaths, process: subprocess.Popen[bytes]
) -> None:
    stuck = jobs.insert(in_container(engine, this_process().pid))
    plain = jobs.insert(running_job(shim=identify(process.pid), grace_seconds=1.0))
    engine.hang()
    said: list[str] = []
    code = end_jobs(Control(jobs, paths, said.append), [stuck, plain], False, lambda *_: None)
    assert process.wait(10) != 0
    assert (code, len(said)) == (ExitCode.FAILED, 1)
    assert "does not answer" in said[0]


def test_many_jobs_without_runner_wait_once_for_an_engine_that_hangs(
    engine: FakeEngine, jobs: Jobs, paths: StatePaths
) -> None:
    us = this_process()
    for _ in range(3):
        job = jobs.insert(running_job(kind="container"))
        directory = paths.job(job.id)
        directory.mkdir(parents=True)
        leave_started(directory, us.boot, (NO_PROCESS, 1))
        write_container(directory, ContainerFile(engine=engine.url, id=ID, started_at=1.0))
    with subprocess.Popen(["sleep", "600"]) as gone:
        jobs.insert(replace(in_container(engine, gone.pid, "attached"), submitted_at=time.time()))
        gone.kill()
    engine.hang()
    reconcile(jobs, paths)
    assert len(engine.asked) == 1
    assert {job.status for job in jobs.unsettled(paths.host)} == {"running"}


def test_a_silent_engine_is_asked_ever_less_often_until_it_answers(engine: FakeEngine) -> None:
    now = [100.0]
    silence = Silence(lambda: now[0])

    def is_silent(after_seconds: float) -> bool:
        now[0] += after_seconds
        with Engine(Endpoint("docker", engine.url, "test"), 0.2) as client:
            try:
                silence.check(client)
            except EngineError:
                return True
        return False

    engine.hang()
    asked = []
    for pause in (0, FIRST_PAUSE_SECONDS - 0.1, 0.2, FIRST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS):
        assert is_silent(pause)
        asked.append(len(engine.asked))
    assert asked == [1, 1, 2, 2, 3, 4]
    engine.released.set()
    assert is_silent(FIRST_PAUSE_SECONDS)
    assert not is_silent(LONGEST_PAUSE_SECONDS)
    assert not is_silent(0)


def test_an_engine_that_is_slow_to_say_what_it_is_runs_containers(engine: FakeEngine) -> None:
    engine.slow["/info"] = 0.6
    client, info = find_engine(engine.url, {}, seconds=0.3)
    with client:
        assert info.cgroup_driver == "cgroupfs"
    engine.hang()
    with pytest.raises(EngineError, match="does not answer within"):
        find_engine(engine.url, {}, seconds=0.3)
