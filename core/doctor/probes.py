"""Checks that need a real job: starts one under a shim, inspects it and stops it. For the doctor."""

import os
import select
import signal
import time
from collections.abc import Mapping, Sequence

from jobtop.core.doctor.checks import Finding, MachineFiles, State, cgroup_kind
from jobtop.core.doctor.sources import member_problems
from jobtop.core.job_id import JobId
from jobtop.core.measure.collectors import cgroup
from jobtop.core.measure.collectors.job_cgroup import CgroupReader
from jobtop.core.model import JobSpec
from jobtop.core.procfs import pid_clock, read_text, value_in
from jobtop.core.record import record, replace
from jobtop.core.run import scope
from jobtop.core.run.facts import Started
from jobtop.core.run.limits import BY_SYSTEMD
from jobtop.core.run.start_problems import explanation, missing_part
from jobtop.core.run.supervisor import Supervisor, job_environment, new_id
from jobtop.core.units import format_bytes, format_duration

TRIAL_SECONDS = 10.0
COMMAND = ("sleep", "60")
LIMIT_BYTES = 256 * 1024 * 1024


@record
class TrialJob:
    """What was learned by starting and stopping a job; None is not known.

    `problems` are the files of a member that cannot be read, `cgroup_keys` the metrics that its own cgroup counts.
    `is_explained` says that the text of `problem` names the remedy.
    """

    problem: str | None = None
    start_seconds: float | None = None
    private_bytes: int | None = None
    is_subreaper: bool | None = None
    has_clock: bool | None = None
    problems: Mapping[str, int] | None = None
    cgroup_keys: frozenset[str] = frozenset()
    made: cgroup.JobCgroup = cgroup.JobCgroup()
    joined: bool = False
    is_explained: bool = False


@record
class LimitSupport:
    """How a job's limits are enforced, why not better, and why those of a detached job are not enforced by systemd."""

    by: Mapping[str, str] | None = None
    problems: Sequence[str] = ()
    detached_problem: str | None = None


def run_trial_job(directory: str) -> TrialJob:
    """Run a command that sleeps, inspect it and its shim, stop it; `directory` is empty and private."""
    possible = cgroup.make(new_id())
    cgroup.discard(possible.directories)
    before = time.monotonic()
    try:
        supervisor = Supervisor()
    except OSError as error:
        problem = missing_part() or explanation(error.errno or 0)
        why = problem or f"it cannot be executed ({os.strerror(error.errno or 0)})"
        return TrialJob(why, made=possible, is_explained=problem is not None)
    try:
        report = supervisor.begin(sleep_spec(supervisor.job_id), directory, with_cgroup=True, with_stdin=False)
        took = time.monotonic() - before
        if report is None:
            return TrialJob("it ended before it started the command", made=possible)
        if "exec_error" in report:
            stage, number = report.exec_error()
            return TrialJob(f"{COMMAND[0]} could not be started ({stage}: {os.strerror(number)})", made=possible)
        trial = inspect_job(report.started(), took, bool(report.integer("subreaper")), possible)
        os.kill(supervisor.pid, signal.SIGTERM)
        return check_end(supervisor, trial)
    finally:
        end_supervisor(supervisor)


def sleep_spec(job_id: JobId) -> JobSpec:
    """Return the spec of a job that only sleeps, for a limited time."""
    return JobSpec(
        id=job_id,
        command=COMMAND,
        cwd="/",
        env=job_environment({}, job_id),
        grace_seconds=1.0,
        after_exit="kill",
        timeout_seconds=TRIAL_SECONDS,
        detached=True,
    )


def probe_limits() -> LimitSupport:
    """Run a command that sleeps with enforced limits, in the foreground, and stop it."""
    try:
        supervisor = Supervisor()
    except OSError:
        return LimitSupport()
    spec = replace(sleep_spec(supervisor.job_id), detached=False, hold_memory_bytes=LIMIT_BYTES, hold_cpus=1.0)
    try:
        report = supervisor.begin(spec, None, with_cgroup=True, with_stdin=False)
        if report is None or "exec_error" in report:
            return LimitSupport()
        os.kill(supervisor.pid, signal.SIGTERM)
        by = report.limits()
        is_scope = by["memory"] == BY_SYSTEMD
        return LimitSupport(by, supervisor.problems, scope.detached_problem() if is_scope else None)
    finally:
        end_supervisor(supervisor)


def inspect_job(started: Started, took: float, is_subreaper: bool, possible: cgroup.JobCgroup) -> TrialJob:
    """Inspect a job and its shim while both run."""
    member = started.main.pid
    memory = read_text(f"/proc/{started.shim.pid}/smaps_rollup")
    private = value_in(memory, "Private_Clean:") + value_in(memory, "Private_Dirty:") if memory else None
    places = read_text(f"/proc/{member}/cgroup")
    return TrialJob(
        start_seconds=took,
        private_bytes=None if private is None else private * 1024,
        is_subreaper=is_subreaper,
        has_clock=can_read_clock(member),
        problems=member_problems(member),
        cgroup_keys=cgroup_metrics(started.cgroups),
        made=possible,
        joined=bool(started.cgroups) and all(os.path.basename(place) in places for place in started.cgroups),
    )


def cgroup_metrics(cgroups: Sequence[str]) -> frozenset[str]:
    """Return the catalogue keys of the metrics that a job's own cgroups count."""
    collector = CgroupReader(cgroups)
    values, _ = collector.read()
    collector.close()
    return frozenset(values)


def can_read_clock(pid: int) -> bool:
    """Return whether the CPU clock of another process can be read; computes the id as clock_getcpuclockid(3) does."""
    try:
        return time.clock_gettime(pid_clock(pid)) >= 0
    except OSError:
        return False


def check_end(supervisor: Supervisor, trial: TrialJob) -> TrialJob:
    """Wait for the job's end, which must be by the signal that was sent; return the trial, or one with the problem."""
    if not select.select([supervisor.status_read], [], [], TRIAL_SECONDS)[0]:
        return TrialJob("it did not stop its job", made=trial.made)
    ended = supervisor.receive()
    if ended is None or os.waitstatus_to_exitcode(ended.integer("status")) != -signal.SIGTERM:
        return TrialJob("it did not report how its job ended", made=trial.made)
    return trial


def end_supervisor(supervisor: Supervisor) -> None:
    """Wait for the shim, a child of this process; kill it if it does not exit, and remove the job's cgroups."""
    deadline = time.monotonic() + TRIAL_SECONDS
    try:
        while os.waitpid(supervisor.pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.kill(supervisor.pid, signal.SIGKILL)
            time.sleep(0.002)
    except ChildProcessError:  # already reaped
        pass
    os.close(supervisor.status_read)
    cgroup.discard(cgroup.possible_directories(supervisor.job_id))


def shim(trial: TrialJob) -> Finding:
    if trial.problem is not None:
        remedy = "jobtop -v run -- true says more; is the Python that jobtop runs with still installed?"
        meaning = f"a job cannot be run: {trial.problem}"
        return Finding("shim", State.FAILS, meaning, None if trial.is_explained else remedy)
    text = f"a command starts within {format_duration(trial.start_seconds)}"
    memory = "" if trial.private_bytes is None else f"; its supervisor uses {format_bytes(trial.private_bytes)}"
    return Finding("shim", State.WORKS, text + memory)


def subreaper(trial: TrialJob, machine: MachineFiles) -> Finding:
    name = "child subreaper"
    if machine.platform != "linux":
        return Finding(
            name, State.ABSENT, "not part of this system: processes that daemonise are not counted as part of their job"
        )
    if trial.is_subreaper:
        return Finding(name, State.WORKS, "daemons and orphans stay members of their job")
    if trial.is_subreaper is None:
        return Finding(name, State.ABSENT, "not known, since no job could be run")
    meaning = "prctl could not be called: processes that daemonise are not counted as part of their job"
    remedy = "use a Python with ctypes (one built where libffi's headers are, or the system's own)"
    return Finding(name, State.FAILS, meaning, remedy)


def limits(support: LimitSupport, machine: MachineFiles) -> Finding:
    """Check how `--enforce` is enforced; if not by cgroups, say why and name the remedy if there is one."""
    name = "limits"
    if support.by is None:
        return Finding(name, State.ABSENT, "not known, since no job could be run")
    text = f"--enforce limits memory by {support.by['memory']}, CPUs by {support.by['cpus']}"
    if support.detached_problem is not None:
        text += f"; of detached jobs by sampling and affinity, since {support.detached_problem}"
    if all(how.startswith("cgroup") for how in support.by.values()):
        return Finding(name, State.WORKS, text, None if support.detached_problem is None else scope.LINGER)
    why = support.problems[-1] if support.problems else "no cgroup has both controllers"
    remedy = None
    if machine.has_systemd and machine.uid and cgroup_kind(machine) == "v2":
        if scope.NOT_THERE in why:
            remedy = f"as root: loginctl enable-linger {machine.user}"
        elif scope.NOT_GIVEN in why:
            remedy = (
                "as root: D=/etc/systemd/system/user@.service.d; mkdir -p $D;"
                " printf '[Service]\\nDelegate=yes\\n' > $D/delegate.conf; systemctl daemon-reload; then log in again"
            )
    return Finding(name, State.FAILS, f"{text}; {why}", remedy)
