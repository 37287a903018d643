"""Containers that jobtop did not start, as jobs: what is recorded, what is refused, how they end, who acts on them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fake_engine import FakeEngine, container_id, container_row, fake_engine
from jobtop.core.config import Config, load
from jobtop.core.errors import AlreadyAttached, EngineError, UsageError
from jobtop.core.measure.collectors.docker.model import JOB_LABEL
from jobtop.core.model import Job, Limits, Status
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.core.run.containers.end import ContainerEnd, end_from
from jobtop.core.run.containers.facts import container_facts
from jobtop.lifecycle.containers import attached_ends
from jobtop.lifecycle.containers.attach import attach_by_name
from jobtop.lifecycle.containers.attached_ends import FILE, read_end, write_end
from jobtop.lifecycle.control import Control
from jobtop.lifecycle.kinds.container_attached import KIND, PATIENCE_SECONDS
from jobtop.lifecycle.kinds.registry import kind_of, why_no_output
from jobtop.lifecycle.reconcile import reconcile
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from records import HERE, this_process

WEB, WEB_ID = "web", container_id(0xA1)
LABELS = {"com.docker.compose.project": "P", "com.docker.compose.service": "front", "team": "web"}
CPU_STAT = "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n"


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")


class Machine:
    """A store, an engine, and a process that the engine says is the first of the container `web`."""

    def __init__(self, engine: FakeEngine, jobs: Jobs, paths: StatePaths, config: Config) -> None:
        self.engine, self.jobs, self.paths, self.config = engine, jobs, paths, config
        self.started_at = round(time.time(), 6)
        self.process = subprocess.Popen(["sleep", "60"])
        self.say(Status="running", Running=True, Pid=self.process.pid)

    def say(self, **state: Any) -> None:
        """What the engine says about the container from now on."""
        host = {"Memory": 64 << 20, "NanoCpus": 1_500_000_000, "PidsLimit": 32}
        state = {"StartedAt": iso(self.started_at)} | state
        self.engine.details[WEB_ID] = {"State": state, "HostConfig": host, "Path": "serve", "Args": ["--token=secret1"]}

    def attach(self, reference: str = WEB, **options: Any) -> Job:
        environ = {"DOCKER_HOST": self.engine.url, "XDG_RUNTIME_DIR": "/nowhere", "HOME": "/nowhere"}
        return attach_by_name(self.jobs, self.paths, self.config, environ, f"docker/{reference}", options)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()

    def ended(self, job: Job) -> Job:
        """The record after the process has exited and a verb has looked at it."""
        self.end()
        reconcile(self.jobs, self.paths)
        return self.jobs.find(job.id)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    paths = StatePaths(tmp_path / "home", HERE)
    rows = [container_row(WEB, 0xA1, Labels=LABELS), container_row("db", 0xB1, State="exited")]
    config = load((), {"JOBTOP_RUN_GRACE": "2s"}, tmp_path)
    with fake_engine(tmp_path / "d.sock", rows) as engine, closing(open_to_write(paths)) as database:
        found = Machine(engine, Jobs(database), paths, config)
        try:
            yield found
        finally:
            found.end()


def test_the_record_says_what_the_engine_does(machine: Machine) -> None:
    job = machine.attach(tags={"a": "b"}, note="met")
    assert (job.kind, job.flags, job.status, job.name, job.tool) == ("container", ("attached",), "running", WEB, "box")
    assert job.tags == {"project": "P", "service": "front", "a": "b"}
    assert job.limits == Limits(cpus=1.5, memory_bytes=64 << 20, pids=32, enforced=True)
    assert (job.pid, job.shim is not None and job.shim.pid) == (machine.process.pid, machine.process.pid)
    assert job.command == ("serve", "--token=***")
    assert abs((job.start_time or 0) - machine.started_at) < 5
    facts = container_facts(job)
    assert facts is not None
    assert (facts.id, facts.name, facts.image, facts.project) == (WEB_ID, WEB, "box:1", "P")
    assert (facts.engine, job.findings["container"]["engine"]) == ("docker", machine.engine.url)
    assert kind_of(job) is KIND
    assert "jobtop containers logs web" in (why_no_output(job) or "")
    assert KIND.why_not_again(machine.paths, job) is not None
    target = KIND.target(machine.paths, job)
    assert target is not None
    assert (target.root, target.includes_root, target.main) == (job.shim, True, job.shim)


def test_a_container_is_one_job(machine: Machine) -> None:
    job = machine.attach()
    with pytest.raises(AlreadyAttached, match=f"job {job.id[:8]}"):
        machine.attach()
    machine.engine.rows[0]["Labels"] = {JOB_LABEL: str(job.id)}
    with pytest.raises(AlreadyAttached, match="already: jobtop show"):
        machine.attach()


@pytest.mark.parametrize(
    ("reference", "state", "word"),
    [
        ("db", {}, "does not run"),
        ("nothing", {}, "no container"),
        (WEB, {"Status": "restarting", "Pid": 0}, "try again"),
        (WEB, {"Status": "running", "Pid": 0}, "another machine"),
        (WEB, {"Status": "running", "Pid": 2**22 + 1}, "another machine"),
        (WEB, {"Status": "running", "Pid": 1}, "another machine"),  # of another machine: this one started at boot
    ],
)
def test_what_cannot_be_a_job_is_refused_in_one_line(
    machine: Machine, reference: str, state: dict[str, Any], word: str
) -> None:
    if state:
        machine.say(**state)
    with pytest.raises(UsageError, match=word) as refusal:
        machine.attach(reference)
    assert "\n" not in str(refusal.value)
    assert machine.jobs.unsettled(HERE) == []


def test_the_engine_says_how_a_container_ended(machine: Machine) -> None:
    job = machine.attach()
    finished = machine.started_at + 7.25
    machine.say(Status="exited", ExitCode=3, FinishedAt=iso(finished), Pid=0)
    done = machine.ended(job)
    assert (done.status, done.exit_code, done.reason, done.settled) == (Status.FAILED, 3, "exit code 3", True)
    assert done.end_time == pytest.approx(finished, abs=0.001)
    assert done.incomplete == ("all: it ended before it was sampled",)
    reconcile(machine.jobs, machine.paths)
    assert machine.jobs.find(job.id) == done


def stopping(machine: Machine, *, is_noted: bool) -> list[dict[str, Any]]:
    """What Podman answers in turn about a container that exits with 9; without the last answer it never notes the end.

    In the first two answers the exit code is 0, and there is no time of the end.
    """
    never = {"StartedAt": iso(machine.started_at), "ExitCode": 0, "FinishedAt": "0001-01-01T00:00:00Z"}
    done = {"Status": "exited", "ExitCode": 9, "FinishedAt": iso(machine.started_at + 2.0), "Pid": 0}
    first = [never | {"Status": "stopping", "Pid": machine.process.pid}, never | {"Status": "stopped", "Pid": 0}]
    return [*first, *([never | done] if is_noted else [])]


def test_an_exit_code_that_the_engine_has_not_noted_yet_is_waited_for(machine: Machine) -> None:
    job = machine.attach()
    machine.engine.states[WEB_ID] = stopping(machine, is_noted=True)
    done = machine.ended(job)
    assert (done.status, done.exit_code, done.reason) == (Status.FAILED, 9, "exit code 9")
    assert done.duration_seconds == pytest.approx(2.0, abs=0.1)


def test_an_exit_code_that_the_engine_never_notes_is_unknown_and_not_0(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attached_ends, "NOTE_SECONDS", 0.2)
    job = machine.attach()
    machine.engine.states[WEB_ID] = stopping(machine, is_noted=False)
    assert machine.ended(job).status == Status.RUNNING  # a later look may find it
    machine.jobs.change(job.id, lambda row: (replace(row, submitted_at=time.time() - PATIENCE_SECONDS - 1), ()))
    done = machine.ended(job)
    assert (done.status, done.exit_code) == (Status.UNKNOWN, None)
    assert "has not noted its end" in (done.reason or "")


@pytest.mark.parametrize("is_removed", [True, False], ids=["removed", "started again"])
def test_the_events_tell_of_a_container_that_was_removed_or_started_again(machine: Machine, is_removed: bool) -> None:
    job = machine.attach()
    for name, moment, code in (("die", -5.0, "8"), ("oom", 1.0, ""), ("die", 2.0, "4"), ("die", 9.0, "0")):
        machine.engine.tell(name, WEB_ID, machine.started_at + moment, **({"exitCode": code} if code else {}))
    if is_removed:
        machine.engine.rows.pop(0)
    else:
        machine.say(Status="running", Pid=machine.process.pid, StartedAt=iso(machine.started_at + 3.0))
    done = machine.ended(job)
    assert (done.status, done.exit_code, done.flags) == (Status.FAILED, 4, ("attached", "oom_killed"))
    assert done.duration_seconds == pytest.approx(2.0, abs=0.1)


def test_an_end_that_the_engine_has_forgotten_is_unknown(machine: Machine) -> None:
    job = machine.attach()
    machine.engine.rows.pop(0)
    machine.engine.tell("die", WEB_ID, machine.started_at - 60.0, exitCode="0")  # of an earlier start
    done = machine.ended(job)
    assert (done.status, done.exit_code) == (Status.UNKNOWN, None)
    assert "not known: the engine has removed" in (done.reason or "")


def test_an_engine_that_is_away_may_say_so_later(machine: Machine) -> None:
    job = machine.attach()
    path = machine.engine.path
    os.rename(path, f"{path}.away")
    assert machine.ended(job).status == Status.RUNNING
    os.rename(f"{path}.away", path)
    machine.say(Status="exited", ExitCode=0, FinishedAt=iso(machine.started_at + 1.0), Pid=0)
    assert machine.ended(job).status == Status.SUCCESS


def test_an_engine_that_stays_away_is_not_waited_for(machine: Machine) -> None:
    job = machine.attach()
    machine.jobs.change(job.id, lambda row: (replace(row, submitted_at=time.time() - PATIENCE_SECONDS - 1), ()))
    os.unlink(machine.engine.path)
    done = machine.ended(job)
    assert (done.status, done.exit_code) == (Status.UNKNOWN, None)
    assert "does not run" in (done.reason or "")


def test_an_oom_kill_is_named_with_its_evidence(machine: Machine) -> None:
    job = machine.attach()
    machine.say(Status="exited", ExitCode=137, OOMKilled=True, FinishedAt=iso(machine.started_at + 1.0), Pid=0)
    done = machine.ended(job)
    assert (done.status, done.exit_code, done.flags) == (Status.FAILED, 137, ("attached", "oom_killed"))
    assert "over its memory limit of 64.0 MiB" in (done.reason or "")
    assert done.findings["evidence"][0]["kind"] == "out_of_memory"


def test_an_exit_code_of_137_alone_is_not_called_out_of_memory(machine: Machine) -> None:
    job = machine.attach()
    machine.say(Status="exited", ExitCode=137, OOMKilled=False, FinishedAt=iso(machine.started_at + 1.0), Pid=0)
    done = machine.ended(job)
    assert (done.status, done.flags, done.usage.oom_kills) == (Status.FAILED, ("attached",), None)
    assert "SIGKILL" in (done.reason or "")


def test_totals_come_from_the_cgroup_as_it_was_right_after_the_exit(machine: Machine) -> None:
    job = machine.attach()
    texts = {"cpu.stat": CPU_STAT, "memory.peak": "1048576\n", "memory.events": "oom 0\noom_kill 0\n"}
    end = ContainerEnd(0, machine.started_at + 5.0, cgroup=texts, seen_at=machine.started_at + 5.0)
    write_end(machine.paths.job(job.id), end)
    done = machine.ended(job)
    usage = done.usage
    assert usage.cpu_user_seconds == pytest.approx(2.0)
    assert usage.cpu_total_seconds == pytest.approx(2.5)
    assert (usage.memory_cgroup_peak_bytes, usage.oom_kills) == (1048576, 0)
    assert (done.sources["cpu"], done.incomplete) == ("cgroup", ("io: it ended before it was sampled",))
    assert not any(request.startswith("GET /events") for request in machine.engine.asked)


def test_requests_go_to_the_engine(machine: Machine) -> None:
    job = machine.attach()
    warnings: list[str] = []
    control = Control(machine.jobs, machine.paths, warnings.append)
    assert control.refusal(job) is None
    place = f"POST /containers/{WEB_ID}"
    control.pause(job)
    assert machine.jobs.find(job.id).status == Status.PAUSED
    KIND.signal(job, signal.SIGUSR1)
    machine.engine.rows[0]["State"] = "paused"
    machine.say(Status="paused", Pid=machine.process.pid)
    control.resume(job)
    control.kill(job, "jobtop kill")
    control.stop(job, "jobtop stop")
    acts = [request for request in machine.engine.asked if request.startswith("POST")]
    assert acts == [
        f"{place}/pause",
        f"{place}/kill?signal=10",
        f"{place}/unpause",
        f"{place}/unpause",
        f"{place}/kill?signal=9",
        f"{place}/stop?t=2",
    ]
    machine.engine.refusals["stop"] = "it is busy"
    with pytest.raises(EngineError, match="it is busy"):
        control.stop(job, "jobtop stop")
    machine.say(Status="exited", ExitCode=9, FinishedAt=iso(machine.started_at + 1.0), Pid=0)
    done = machine.ended(job)
    assert (done.status, done.exit_code, done.reason) == (Status.CANCELLED, 9, "stopped by jobtop stop: exit code 9")
    assert KIND.stop(job) is False
    assert warnings == []


def test_a_user_who_may_use_the_engine_may_act_on_its_containers(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, control = machine.attach(), Control(machine.jobs, machine.paths, print)
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    assert control.forbids(job) is None
    assert control.forbids(replace(job, kind="process", flags=(), shim=this_process())) is not None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"exit_code": true, "cgroup": {"a": 1}, "odd": 2}', "[" * 9999])
def test_a_damaged_file_of_the_end_tells_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert read_end(tmp_path) in (ContainerEnd(), ContainerEnd(cgroup={}))


def test_the_end_is_kept_as_it_is(tmp_path: Path) -> None:
    end = ContainerEnd(3, 5.5, True, "words", 2, "healthy", None, {"cpu.stat": "x"}, 6.5)
    write_end(tmp_path, end)
    assert read_end(tmp_path) == end_from(end.to_json()) == end
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_an_agent_without_containers_does_not_import_their_client() -> None:
    modules = "jobtop.lifecycle.agent, jobtop.lifecycle.kinds.container_attached, jobtop.cli.verbs.attach"
    code = f"import sys, {modules}; print([name for name in ('docker', 'requests') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
