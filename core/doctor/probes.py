"""What can only be known by doing it: a job is started under a shim, looked at and stopped. For the doctor."""

import os
import select
import signal
import time
from collections.abc import Mapping, Sequence

from jobtop.core.doctor.checks import Finding, Machine, State, cgroup_kind
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

PATIENCE_SECONDS = 10.0
COMMAND = ("sleep", "60")
LIMIT_BYTES = 256 * 1024 * 1024


@record
class Trial:
    """How starting and stopping a job went; None is not known.

    `problems` are the files of a member that cannot be read, `counted` the keys of what its own cgroup counts.
    `is_explained` says that the words of the problem name the remedy.
    """

    problem: str | None = None
    start_seconds: float | None = None
    private_bytes: int | None = None
    is_subreaper: bool | None = None
    has_clock: bool | None = None
    problems: Mapping[str, int] | None = None
    counted: frozenset[str] = frozenset()
    made: cgroup.JobCgroup = cgroup.JobCgroup()
    joined: bool = False
    is_explained: bool = False


@record
class Holding:
    """By what the limits of a job are held, why not by more, and why those of a job that nobody stays with are not."""

    by: Mapping[str, str] | None = None
    problems: Sequence[str] = ()
    detached_problem: str | None = None


def start_and_stop(directory: str) -> Trial:
    """Run a command that sleeps, look at it and at its shim, stop it; `directory` is empty and ours."""
    possible = cgroup.make(new_id())
    cgroup.discard(possible.directories)
    before = time.monotonic()
    try:
        supervisor = Supervisor()
    except OSError as error:
        problem = missing_part() or explanation(error.errno or 0)
        why = problem or f"it cannot be executed ({os.strerror(error.errno or 0)})"
        return Trial(why, made=possible, is_explained=problem is not None)
    try:
        begun = supervisor.begin(sleeper(supervisor.job_id), directory, with_cgroup=True, with_stdin=False)
        took = time.monotonic() - before
        if begun is None:
            return Trial("it ended before it started the command", made=possible)
        if "exec_error" in begun:
            stage, number = begun.exec_error()
            return Trial(f"{COMMAND[0]} could not be started ({stage}: {os.strerror(number)})", made=possible)
        trial = look(begun.started(), took, bool(begun.integer("subreaper")), possible)
        os.kill(supervisor.pid, signal.SIGTERM)
        return check_end(supervisor, trial)
    finally:
        end(supervisor)


def sleeper(job_id: JobId) -> JobSpec:
    """A job that only sleeps, and not for long."""
    return JobSpec(
        id=job_id,
        command=COMMAND,
        cwd="/",
        env=job_environment({}, job_id),
        grace_seconds=1.0,
        after_exit="kill",
        timeout_seconds=PATIENCE_SECONDS,
        detached=True,
    )


def hold_and_stop() -> Holding:
    """Run a command that sleeps with limits that are to hold, as one that somebody stays with, and stop it."""
    try:
        supervisor = Supervisor()
    except OSError:
        return Holding()
    spec = replace(sleeper(supervisor.job_id), detached=False, hold_memory_bytes=LIMIT_BYTES, hold_cpus=1.0)
    try:
        begun = supervisor.begin(spec, None, with_cgroup=True, with_stdin=False)
        if begun is None or "exec_error" in begun:
            return Holding()
        os.kill(supervisor.pid, signal.SIGTERM)
        by = begun.limits()
        is_scope = by["memory"] == BY_SYSTEMD
        return Holding(by, supervisor.problems, scope.detached_problem() if is_scope else None)
    finally:
        end(supervisor)


def look(begun: Started, took: float, is_subreaper: bool, possible: cgroup.JobCgroup) -> Trial:
    """The numbers of a job and its shim while both live."""
    member = begun.main.pid
    memory = read_text(f"/proc/{begun.shim.pid}/smaps_rollup")
    private = value_in(memory, "Private_Clean:") + value_in(memory, "Private_Dirty:") if memory else None
    places = read_text(f"/proc/{member}/cgroup")
    return Trial(
        start_seconds=took,
        private_bytes=None if private is None else private * 1024,
        is_subreaper=is_subreaper,
        has_clock=can_read_clock(member),
        problems=member_problems(member),
        counted=counted_in(begun.cgroups),
        made=possible,
        joined=bool(begun.cgroups) and all(os.path.basename(place) in places for place in begun.cgroups),
    )


def counted_in(cgroups: Sequence[str]) -> frozenset[str]:
    """The catalogue keys of what a job's own cgroups count."""
    collector = CgroupReader(cgroups)
    values, _ = collector.read()
    collector.close()
    return frozenset(values)


def can_read_clock(pid: int) -> bool:
    """Whether the CPU clock of another process answers: clock_getcpuclockid(3) by hand."""
    try:
        return time.clock_gettime(pid_clock(pid)) >= 0
    except OSError:
        return False


def check_end(supervisor: Supervisor, trial: Trial) -> Trial:
    """Hear how the job ended; it has to be by the signal that we sent."""
    if not select.select([supervisor.status_read], [], [], PATIENCE_SECONDS)[0]:
        return Trial("it did not stop its job", made=trial.made)
    ended = supervisor.receive()
    if ended is None or os.waitstatus_to_exitcode(ended.integer("status")) != -signal.SIGTERM:
        return Trial("it did not tell how its job ended", made=trial.made)
    return trial


def end(supervisor: Supervisor) -> None:
    """Wait for the shim, which is our child, kill it if it does not go by itself, and leave nothing of its job."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while os.waitpid(supervisor.pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.kill(supervisor.pid, signal.SIGKILL)
            time.sleep(0.002)
    except ChildProcessError:  # waited for when it had nothing more to tell
        pass
    os.close(supervisor.status_read)
    cgroup.discard(cgroup.possible_directories(supervisor.job_id))


def shim(trial: Trial) -> Finding:
    if trial.problem is not None:
        remedy = "jobtop -v run -- true says more; is the Python that jobtop runs with still installed?"
        meaning = f"a job cannot be run: {trial.problem}"
        return Finding("shim", State.FAILS, meaning, None if trial.is_explained else remedy)
    words = f"a command runs after {format_duration(trial.start_seconds)}"
    held = "" if trial.private_bytes is None else f"; its supervisor holds {format_bytes(trial.private_bytes)}"
    return Finding("shim", State.WORKS, words + held)


def subreaper(trial: Trial, machine: Machine) -> Finding:
    name = "child subreaper"
    if machine.platform != "linux":
        return Finding(name, State.ABSENT, "not part of this system: processes that daemonise leave their job")
    if trial.is_subreaper:
        return Finding(name, State.WORKS, "daemons and orphans stay members of their job")
    if trial.is_subreaper is None:
        return Finding(name, State.ABSENT, "not known, since no job could be run")
    meaning = "prctl could not be called: processes that daemonise are lost to their job"
    remedy = "use a Python with ctypes (one built where libffi's headers are, or the system's own)"
    return Finding(name, State.FAILS, meaning, remedy)


def limits(holding: Holding, machine: Machine) -> Finding:
    """Who holds what `--enforce` is to hold; a kernel that does not has a reason, and often a remedy."""
    name = "limits"
    if holding.by is None:
        return Finding(name, State.ABSENT, "not known, since no job could be run")
    words = f"--enforce holds memory by {holding.by['memory']}, CPUs by {holding.by['cpus']}"
    if holding.detached_problem is not None:
        words += f"; of jobs that nobody stays with by sampling and affinity, since {holding.detached_problem}"
    if all(how.startswith("cgroup") for how in holding.by.values()):
        return Finding(name, State.WORKS, words, None if holding.detached_problem is None else scope.LINGER)
    why = holding.problems[-1] if holding.problems else "no cgroup has both controllers"
    remedy = None
    if machine.has_systemd and machine.uid and cgroup_kind(machine) == "v2":
        if scope.NOT_THERE in why:
            remedy = f"as root: loginctl enable-linger {machine.user}"
        elif scope.NOT_GIVEN in why:
            remedy = (
                "as root: D=/etc/systemd/system/user@.service.d; mkdir -p $D;"
                " printf '[Service]\\nDelegate=yes\\n' > $D/delegate.conf; systemctl daemon-reload; then log in again"
            )
    return Finding(name, State.FAILS, f"{words}; {why}", remedy)
