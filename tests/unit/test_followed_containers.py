"""Labels of containers that are followed: each start one job, also of containers that end at once or start again."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fake_engine import FakeEngine, container_id, container_row, fake_engine
from jobtop.core.config import load
from jobtop.core.measure.target import Target
from jobtop.core.model import Job, Status
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.lifecycle.containers import engine_thread
from jobtop.lifecycle.containers.agent_service import ContainerService
from jobtop.lifecycle.containers.attached_ends import read_end
from jobtop.lifecycle.containers.engine_thread import EngineThread, matches
from jobtop.store.database import open_to_write
from jobtop.store.follows import Follow, Follows
from jobtop.store.jobs import Jobs, Query
from records import HERE, assert_one_line, call
from support import wait_for

TEAM = {"team": "web"}


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")


class Stage:
    """An engine, and what an agent does with its containers."""

    def __init__(self, engine: FakeEngine, jobs: Jobs, paths: StatePaths) -> None:
        self.engine, self.jobs, self.paths = engine, jobs, paths
        self.config = load((), {}, str(paths.root))
        self.logged: list[str] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self.follow = Follow(engine.url, "team=web", "docker", time.time() - 5, "ada", tags={"via": "follow"})
        self.service = self.new_service()

    def new_service(self) -> ContainerService:
        return ContainerService(self.jobs, self.paths, self.config, lambda: None, self._log)

    def _log(self, level: str, text: str) -> None:
        self.logged.append(text)

    def run(self, name: str, number: int, started_at: float | None = None, labels: dict[str, str] | None = None) -> str:
        """Start a container; the engine tells of it."""
        process = subprocess.Popen(["sleep", "60"])
        self.processes.append(process)
        at, key = started_at or time.time(), container_id(number)
        labels = TEAM if labels is None else labels
        self.engine.rows = [row for row in self.engine.rows if row["Id"] != key]
        self.engine.rows.append(container_row(name, number, Labels=labels))
        self.engine.details[key] = {"State": {"Status": "running", "Pid": process.pid, "StartedAt": iso(at)}}
        self.engine.tell("start", key, at + 0.002, name=name, image="box:1", **labels)
        return key

    def found(self) -> list[Job]:
        """All jobs, after the news of the engine were worked off."""
        self.service.work()
        return self.jobs.select(Query(limit=None))

    def until(self, condition: Callable[[list[Job]], object]) -> list[Job]:
        wait_for(lambda: condition(self.found()))
        return self.found()

    def settled(self) -> list[Job]:
        """The jobs once the engine was asked for a container that starts now, and all before it."""
        self.run("last", 0xFF)
        jobs = self.until(lambda jobs: any(job.name == "last" for job in jobs))
        return [job for job in jobs if job.name != "last"]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr(engine_thread, "FIRST_PAUSE_SECONDS", 0.02)
    paths = StatePaths(tmp_path / "home", HERE)
    with fake_engine(tmp_path / "d.sock", []) as engine, closing(open_to_write(paths)) as database:
        found = Stage(engine, Jobs(database), paths)
        try:
            yield found
        finally:
            found.service.close()
            for process in found.processes:
                process.kill()
                process.wait()


@pytest.mark.parametrize(
    ("label", "is_matched"),
    [("team", True), ("team=web", True), ("team=we", False), ("tea", False), ("a=b=c", True), ("team=", False)],
)
def test_a_label_is_a_key_or_a_key_with_its_value(label: str, is_matched: bool) -> None:
    assert matches(label, {"team": "web", "a": "b=c"}) is is_matched


def test_containers_that_run_and_those_that_start_become_jobs_once(stage: Stage) -> None:
    stage.run("before", 0xA1)
    stage.run("other", 0xA2, labels={"team": "db"})
    stage.service.set_follows([stage.follow])
    stage.until(lambda jobs: jobs)
    stage.run("after", 0xA3)
    stage.until(lambda jobs: len(jobs) == 2)
    stage.service.set_follows([stage.follow, replace(stage.follow, label="stage=test")])  # lists them all again
    jobs = stage.settled()
    assert sorted(job.name for job in jobs) == ["after", "before"]
    assert all(job.kind == "container" and job.tags == {"via": "follow"} for job in jobs)
    assert {job.findings["container"]["follow"] for job in jobs} == {"team=web"}


def test_a_new_agent_attaches_to_nothing_twice(stage: Stage) -> None:
    stage.run("web", 0xA1)
    ended = stage.run("short", 0xA2)
    stage.engine.rows.pop()
    stage.engine.tell("die", ended, time.time() + 0.1, name="short", exitCode="5", **TEAM)
    stage.service.set_follows([stage.follow])
    before = stage.until(lambda jobs: len(jobs) == 2)
    stage.service.close()
    stage.service = stage.new_service()
    stage.service.set_follows([stage.follow])
    assert stage.settled() == before


def test_a_container_that_ended_before_it_was_looked_at_is_a_job_with_its_exit_code(stage: Stage) -> None:
    stage.service.set_follows([stage.follow])
    began = time.time()
    removed = stage.run("removed", 0xA1, began)
    stage.engine.rows.pop()
    stage.engine.tell("die", removed, began + 0.3, name="removed", exitCode="5", **TEAM)
    jobs = stage.until(lambda jobs: jobs)
    assert [(job.name, job.status, job.exit_code) for job in jobs] == [("removed", Status.FAILED, 5)]
    assert jobs[0].duration_seconds == pytest.approx(0.298, abs=0.01)
    assert jobs[0].usage.cpu_total_seconds is None
    assert jobs[0].incomplete == ("all: it ended before it was sampled",)


def test_events_that_come_before_the_agent_goes_on_are_not_lost(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    began, start = time.time(), EngineThread.start

    def start_and_work(thread: EngineThread) -> None:
        start(thread)
        wait_for(lambda: thread._since > began + 0.2 and thread._tasks.empty())

    removed = stage.run("removed", 0xA1, began)
    stage.engine.rows.pop()
    stage.engine.tell("die", removed, began + 0.3, name="removed", exitCode="5", **TEAM)
    monkeypatch.setattr(EngineThread, "start", start_and_work)
    stage.service.set_follows([stage.follow])
    assert [(job.name, job.exit_code) for job in stage.until(lambda jobs: jobs)] == [("removed", 5)]


def test_a_container_that_ends_while_its_engine_does_not_answer_is_a_job(stage: Stage) -> None:
    stage.service.set_follows([stage.follow])
    stage.run("first", 0xA1)
    stage.until(lambda jobs: jobs)
    stage.engine.refusals["json"] = "busy"  # for every container that is asked about
    began = time.time()
    removed = stage.run("removed", 0xA2, began)
    wait_for(lambda: any(removed in request for request in stage.engine.asked))
    stage.engine.rows.pop()
    stage.engine.refusals.clear()
    stage.engine.tell("die", removed, began + 0.3, name="removed", exitCode="5", **TEAM)
    jobs = stage.until(lambda jobs: len(jobs) == 2)
    assert {job.name: job.exit_code for job in jobs} == {"first": None, "removed": 5}


def test_a_container_that_ended_before_it_was_followed_is_no_job(stage: Stage) -> None:
    began = time.time() - 20
    old = stage.run("old", 0xA1, began)
    stage.engine.rows.pop()
    stage.engine.tell("die", old, began + 0.3, name="old", exitCode="5", **TEAM)
    stage.service.set_follows([stage.follow])
    assert stage.settled() == []


def test_each_start_of_a_container_is_a_job_with_its_name(stage: Stage) -> None:
    stage.service.set_follows([stage.follow])
    key = stage.run("web", 0xA1)
    first = stage.until(lambda jobs: jobs)[0]
    stage.processes[0].kill()
    stage.processes[0].wait()
    stage.engine.tell("die", key, time.time(), name="web", exitCode="7", **TEAM)
    stage.run("web", 0xA1, time.time() + 0.2)
    jobs = stage.until(lambda jobs: len(jobs) == 2)
    assert {job.name for job in jobs} == {"web"}
    assert len({job.findings["container"]["started_at"] for job in jobs}) == 2
    assert first.id in {job.id for job in jobs}


def test_the_end_is_asked_of_the_engine_and_kept_on_disk(stage: Stage) -> None:
    stage.service.set_follows([stage.follow])
    key = stage.run("web", 0xA1)
    job = stage.until(lambda jobs: jobs)[0]
    assert job.shim is not None
    stage.service.add(job, Target(job.shim, 0.0))
    stage.processes[0].kill()
    stage.processes[0].wait()
    assert not stage.service.is_end_known(job)  # the engine still says that it runs
    assert read_end(stage.paths.job(job.id)).seen_at is not None
    stage.engine.rows.clear()
    stage.engine.tell("die", key, time.time(), name="web", exitCode="6", **TEAM)
    wait_for(stage.service.has_answers)
    assert stage.service.is_end_known(job)
    assert read_end(stage.paths.job(job.id)).exit_code == 6
    stage.service.remove(job.id)
    assert not stage.service.has_answers()


def test_a_pause_by_another_program_is_recorded(stage: Stage) -> None:
    stage.service.set_follows([stage.follow])
    key = stage.run("web", 0xA1)
    job = stage.until(lambda jobs: jobs)[0]
    assert job.shim is not None
    stage.service.add(job, Target(job.shim, 0.0))
    for action, status in (("pause", Status.PAUSED), ("unpause", Status.RUNNING)):
        stage.engine.tell(action, key, time.time(), name="web")
        stage.until(lambda jobs, status=status: jobs[0].status == status)  # type: ignore[misc]


def test_an_engine_that_goes_away_is_listened_to_again(stage: Stage, tmp_path: Path) -> None:
    path = stage.engine.path
    os.rename(path, tmp_path / "away")
    stage.service.set_follows([stage.follow])
    wait_for(lambda: stage.found() or stage.logged)
    assert "does not run" in stage.logged[0]
    os.rename(tmp_path / "away", path)
    stage.run("web", 0xA1)
    assert [job.name for job in stage.until(lambda jobs: jobs)] == ["web"]


def test_a_service_that_is_closed_while_it_connects_leaves_no_thread(stage: Stage) -> None:
    before = set(threading.enumerate())
    stage.engine.hang()
    stage.service.set_follows([stage.follow])
    wait_for(lambda: stage.engine.asked)
    stage.service.close()
    stage.engine.released.set()
    own = [thread for thread in threading.enumerate() if thread not in before and thread.name.startswith("jobtop-")]
    wait_for(lambda: not any(thread.is_alive() for thread in own))


def test_a_label_that_is_followed_no_longer_makes_no_jobs(stage: Stage) -> None:
    stage.service.set_follows([stage.follow, replace(stage.follow, label="all")])
    stage.run("web", 0xA1)
    stage.until(lambda jobs: jobs)
    stage.service.set_follows([replace(stage.follow, label="all")])
    stage.run("late", 0xA2)
    stage.run("mark", 0xA3, labels={"all": ""})
    jobs = stage.until(lambda jobs: any(job.name == "mark" for job in jobs))
    assert sorted(job.name for job in jobs) == ["mark", "web"]


HOSTILE = {"team": "web", "com.docker.compose.project": "\x1b[31mred\n", "com.docker.compose.service": "a" * 5000}


def test_hostile_names_and_labels_are_shown_plainly(stage: Stage) -> None:
    stage.service.set_follows([stage.follow])
    stage.run("\x1b]0;t\x07\nweb", 0xA1, labels=HOSTILE)
    (job,) = stage.until(lambda jobs: jobs)
    shown = json.dumps([job.name, job.tags, job.command, job.findings], ensure_ascii=False)
    assert all(ord(character) >= 32 for character in shown)


@pytest.fixture
def verb(home: Path, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Calls `jobtop attach` with the engine of the stage; no agent is started."""
    monkeypatch.setattr("jobtop.cli.verbs.attach.call_agent", lambda *_: True)
    for name, value in (("DOCKER_HOST", stage.engine.url), ("XDG_RUNTIME_DIR", "/nowhere"), ("HOME", "/nowhere")):
        monkeypatch.setenv(name, value)
    return lambda *words: call("attach", *words)


def test_follows_are_begun_listed_and_ended(verb: Callable[..., Any], home: Path) -> None:
    assert "No labels are followed" in verb("--follows").stdout
    begun = verb("--label", "team=web", "--engine", "docker", "--tag", "a=b", "--note", "met")
    assert (begun.returncode, begun.stderr) == (0, "")
    (follow,) = json.loads(verb("--follows", "--json").stdout)
    assert (follow["label"], follow["engine"], follow["tags"], follow["running"]) == (
        "team=web",
        "docker",
        {"a": "b"},
        0,
    )
    listed = verb("--follows")
    assert "team=web" in listed.stdout
    assert_one_line(listed.stderr, "no agent is running")
    again = json.loads(verb("--label", "team=web", "--engine", "docker", "--json").stdout)
    assert (again[0]["tags"], again[0]["since"]) == ({}, follow["since"])
    (ended,) = json.loads(verb("--label", "team=web", "--stop", "--json").stdout)
    assert ended["label"] == "team=web"
    with closing(open_to_write(StatePaths(home, HERE))) as database:
        assert Follows(database, HERE).all() == []
    assert_one_line(verb("--label", "team=web", "--stop").stderr, "followed")


@pytest.mark.parametrize(
    ("words", "word"),
    [
        ((), "PID"),
        (("5", "--container", "web"), "only one of"),
        (("--label", "a", "--follows"), "only one of"),
        (("--stop", "--container", "web"), "--stop"),
        (("--label", "a=b", "--wait"), "--wait"),
        (("--label", "=b"), "label"),
        (("--label", ""), "label"),
        (("--label", "a\nb"), "label"),
        (("--engine", "docker", "5"), "--engine"),
        (("--label", "a=b", "--engine", "dockr"), "docker"),
        (("--container", "nothing"), "no container"),
    ],
)
def test_wrong_calls_are_refused_in_one_line(verb: Callable[..., Any], words: tuple[str, ...], word: str) -> None:
    answer = verb(*words)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert_one_line(answer.stderr, word)


def test_an_engine_that_does_not_answer_is_named(verb: Callable[..., Any], stage: Stage) -> None:
    os.unlink(stage.engine.path)
    for words in (("--label", "a=b"), ("--container", "web")):
        answer = verb(*words)
        assert answer.returncode == 125
        assert_one_line(answer.stderr, "does not run")
