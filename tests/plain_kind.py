"""A kind of job that only tests have: a command without a shim; a shell beside it writes down its exit status."""

import os
import shlex
import signal
import subprocess
import time

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collectors.proc import identify, is_alive, send, send_to_members
from jobtop.core.measure.target import Target, target_in
from jobtop.core.model import Identity, Job, Status
from jobtop.core.paths import StatePaths
from jobtop.core.procfs import descendants
from jobtop.core.record import replace
from jobtop.core.run.facts import Facts
from jobtop.lifecycle.ends import end_events, observation_in
from jobtop.lifecycle.kinds import registry
from jobtop.lifecycle.kinds.kind import Order, Unanswered, Watched
from jobtop.lifecycle.kinds.started import create_started
from jobtop.store.jobs import Event, Jobs


class PlainStart:
    """The answer is there at once."""

    def __init__(self, text: bytes) -> None:
        self.fd, write = os.pipe()
        os.write(write, text)
        os.close(write)

    def answer(self) -> Facts | None:
        return Facts(os.read(self.fd, 65536).decode())

    def give_up(self) -> Unanswered:
        return Unanswered()

    def close(self) -> None:
        os.close(self.fd)


class PlainKind:
    """A shell that runs a command; the shell is the root, and a part of the job."""

    name = "plain"
    has_shim = False
    why_no_output: str | None = "its output is not kept"
    knows_exit_status = True
    signals_processes = True

    def __init__(self, paths: StatePaths) -> None:
        self.paths = paths

    def start(self, order: Order) -> PlainStart:
        spec = order.spec
        script = f"{shlex.join(spec.command)}; echo $? > {shlex.quote(f'{order.directory}/status')}"
        shell = subprocess.Popen(["sh", "-c", script], cwd=spec.cwd, env=spec.env, start_new_session=True)
        boottime = time.clock_gettime(BOOTTIME)
        return PlainStart(create_started(self.paths, spec.id, identify(shell.pid), time.time(), boottime))

    def target(self, paths: StatePaths, job: Job) -> Target | None:
        return target_in(paths.job(job.id), job)

    def is_alive(self, job: Job) -> bool:
        return job.shim is not None and is_alive(job.shim)

    def has_ended(self, paths: StatePaths, job: Job) -> bool:
        return False

    def refusal(self, job: Job) -> str | None:
        return None

    def ensure_reachable(self, job: Job) -> None:
        """No engine is needed."""

    def stop(self, job: Job) -> bool:
        assert job.shim is not None
        os.killpg(job.shim.pid, signal.SIGTERM)
        return True

    def kill(self, job: Job) -> None:
        self.signal(job, signal.SIGKILL)

    def signal(self, job: Job, number: int) -> None:
        assert job.shim is not None
        send_to_members(job.shim, number)
        send(job.shim, number)

    def pause(self, job: Job) -> None:
        self.signal(job, signal.SIGSTOP)

    def resume(self, job: Job) -> None:
        self.signal(job, signal.SIGCONT)

    def processes(self, job: Job) -> int:
        return 0 if job.shim is None else 1 + len(descendants(job.shim.pid))

    def survivors(self, paths: StatePaths, job: Job) -> list[Identity]:
        return []

    def record_end(self, jobs: Jobs, paths: StatePaths, job: Job, watched: Watched | None = None) -> Job:
        if job.shim is None or self.is_alive(job):
            return job
        status = paths.job(job.id) / "status"
        code = int(status.read_text()) if status.exists() else None
        observation = observation_in(jobs, job) if watched is None else watched.observation

        def concluded(row: Job) -> tuple[Job, tuple[Event, ...]]:
            if row.status.ended:
                return row, ()
            outcome = Status.CANCELLED if row.stop_request else Status.SUCCESS if code == 0 else Status.FAILED
            now = time.time()
            done = replace(row, status=outcome, exit_code=code, end_time=now, settled=True)
            done = replace(done, duration_seconds=now - (row.start_time or now))
            return (done if observation is None else observation.of(done)), end_events(row, done, now)

        return jobs.change(job.id, concluded)

    def why_not_again(self, paths: StatePaths, job: Job) -> str | None:
        return None


def register(paths: StatePaths) -> None:
    registry.register(PlainKind(paths))
