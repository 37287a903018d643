"""A kind of job is one file: one that only tests have is started, sampled, stopped and found like any other."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import plain_kind
import pytest

from agents import DEADLINE
from jobtop.core.config import load
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Queued, Status
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.core.run.request import Request, prepare
from jobtop.core.run.supervisor import new_id
from jobtop.lifecycle.kinds import registry
from jobtop.lifecycle.queue import Queue
from jobtop.store.agents import registered
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.samples.series import SeriesStore
from records import HERE, call, running_job
from support import wait_for

# An agent that has the kind, too.
AGENT = """
import sys
from pathlib import Path
import plain_kind
from jobtop.cli.main import main
from jobtop.core.paths import StatePaths
plain_kind.register(StatePaths(Path(sys.argv.pop(1)), sys.argv.pop(1)))
sys.exit(main())
"""


@pytest.fixture
def paths(paths: StatePaths) -> Iterator[StatePaths]:
    """The files of this host, while there are jobs of the kind `plain`."""
    plain_kind.register(paths)
    yield paths
    registry._KINDS.pop("plain")


@pytest.fixture
def agent(paths: StatePaths, jobs: Jobs) -> Iterator[None]:
    """Serves the store until the test ends."""
    settings = {"JOBTOP_MONITOR_INTERVAL": "0.1s", "JOBTOP_AGENT_IDLE": "10m"}
    env = os.environ | settings | {"PYTHONPATH": os.path.dirname(plain_kind.__file__)}
    words = [sys.executable, "-c", AGENT, str(paths.root), HERE, "agent", "run"]
    process = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL)
    try:
        wait_for(lambda: registered(jobs.database), DEADLINE)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 0


def submitted(jobs: Jobs, paths: StatePaths, *command: str) -> Job:
    request = Request(command, "/", kind="plain", name="plainly")
    job, spec = prepare(request, new_id(), paths.host, load((), os.environ, paths.root))
    return Queue(jobs, paths).submit(job, spec, Queued())


def test_a_job_of_a_new_kind_runs_is_sampled_and_found_in_the_history(
    agent: None, jobs: Jobs, paths: StatePaths
) -> None:
    burn = "import time\nwhile time.process_time() < 0.5: pass\ntime.sleep(1)\nraise SystemExit(7)"
    job = submitted(jobs, paths, sys.executable, "-I", "-S", "-c", burn)
    done = wait_for(lambda: found if (found := jobs.find(job.id)).status.ended else None, DEADLINE)
    assert (done.status, done.exit_code, done.kind) == (Status.FAILED, 7, "plain")
    assert (done.usage.samples or 0) > 3
    assert done.seq is not None
    last = dict(zip(JOB_COLUMNS, SeriesStore(jobs.database).newest(done.seq, 1)[-1].values, strict=True))
    assert (last["cpu.user"] or 0) + (last["cpu.system"] or 0) == pytest.approx(0.5, abs=0.1)
    listed = call("history", "name:plainly", "status:failed")
    assert job.id[:8] in listed.stdout
    assert '"kind": "plain"' in call("show", job.id, "--json").stdout
    assert "output is not kept" in call("logs", job.id).stderr


def test_a_job_of_a_new_kind_is_paused_resumed_and_stopped_by_the_verbs(
    agent: None, jobs: Jobs, paths: StatePaths
) -> None:
    job = submitted(jobs, paths, "sleep", "600")
    wait_for(lambda: jobs.find(job.id).shim is not None, DEADLINE)
    assert call("pause", job.id).returncode == 0
    assert jobs.find(job.id).status is Status.PAUSED
    assert call("resume", job.id).returncode == 0
    assert call("stop", job.id) == (0, f"stopped {job.name} {job.id[:8]}\n", "")
    done = jobs.find(job.id)
    assert (done.status, done.settled) == (Status.CANCELLED, True)
    assert done.shim is not None
    assert not registry.kind_of(done).is_alive(done)


def test_a_job_of_a_kind_that_a_newer_jobtop_wrote_is_listed_and_left_alone(home: Path) -> None:
    paths = StatePaths(home, HERE)
    database = open_to_write(paths)
    try:
        jobs = Jobs(database)
        job = jobs.insert(replace(running_job(), kind="teleported", recorder=None))
        assert job.id[:8] in call("history").stdout
        assert jobs.find(job.id).status is Status.RUNNING
        assert "teleported" in call("stop", job.id).stderr
        assert call("logs", job.id).returncode in (0, 1, 2)
    finally:
        database.close()
