"""The kind of jobs in containers: a runner below a shim starts the container and waits for it.

If the runner or the shim is killed, the container goes on: then `shim` in the record becomes the first process of the
container, and its engine says how it ended.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

from jobtop.core.errors import EngineError, StartError
from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.model import JobSpec
from jobtop.core.procfs import name_of, status_value
from jobtop.core.procfs import signals as signal
from jobtop.core.record import replace
from jobtop.core.run.containers.facts import container_facts
from jobtop.core.run.containers.file import Told, read_container, with_finding, write_order
from jobtop.core.run.containers.outcome import completed, conclude_with, facts_without_shim
from jobtop.core.run.facts import ENDED, read_facts, read_started
from jobtop.lifecycle.containers.engines import engine_at
from jobtop.lifecycle.containers.recovery import given_up, recover, recovering, remove_orphans
from jobtop.lifecycle.containers.silence import ENGINE_SECONDS, SILENCE
from jobtop.lifecycle.ends import stored_observation
from jobtop.lifecycle.kinds.kind import Order
from jobtop.lifecycle.kinds.process import ProcessKind, finish, root_of, update_from_files
from jobtop.store.jobs import Event, event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobtop.core.measure.collectors.docker.client import Engine
    from jobtop.core.measure.target import Target
    from jobtop.core.model import Identity, Job
    from jobtop.core.paths import StatePaths
    from jobtop.core.run.containers.file import ContainerFile
    from jobtop.core.run.facts import Facts
    from jobtop.lifecycle.kinds.kind import Watched
    from jobtop.lifecycle.kinds.process import ProcessStart
    from jobtop.store.jobs import Jobs

RUNNER = "jobtop.lifecycle.containers.runner"
TAKEN_OVER = "taken_over"  # an event: the runner or the shim was killed, and the container goes on
NO_DIRECTORY = "a container job needs a place for its files: set JOBTOP_HOME to a directory that can be written"
NO_ENGINE = "the files of its runner are damaged"
LOG_MAX_BYTES = 256 * 1024 * 1024


class ContainerKind(ProcessKind):
    """A container below a runner below a shim."""

    name = "container"

    def start(self, order: Order) -> ProcessStart:
        if order.directory is None:
            raise StartError(NO_DIRECTORY)
        write_order(order.directory, runner_order(order))
        command = (sys.executable, "-P", "-m", RUNNER, order.directory)
        spec = replace(order.spec, command=command, nice=None, ionice=None, after_exit="wait")
        return super().start(Order(spec, order.directory, False, order.with_stdin, order.successor, order.supervisor))

    def target(self, paths: StatePaths, job: Job) -> Target | None:
        from jobtop.core.measure.target import target_in

        return target_in(paths.job(job.id), job)

    def has_ended(self, paths: StatePaths, job: Job) -> bool:
        """Whether there is a valid `ended`, and no container goes on without its runner."""
        if not super().has_ended(paths, job):
            return False
        file = read_container(paths.names.job(job.id))
        return file is None or file.told is not None or file.init is None or not is_alive(file.init)

    def ensure_reachable(self, job: Job) -> None:
        if container_of(job) is not None and self.is_alive(job):
            engine, _ = engine_of(job)
            with engine:
                SILENCE.check(engine)

    def stop(self, job: Job) -> bool:
        """Send TERM to the shim; without one the engine sends TERM to the container, and KILL after the grace."""
        if not is_container(job):
            return super().stop(job)
        if not is_alive(root_of(job)):
            return False
        engine, container_id = engine_of(job, job.grace_seconds + ENGINE_SECONDS)
        with engine:
            with suppress(EngineError):  # it is not paused
                engine.unpause(container_id)
            engine.stop(container_id, job.grace_seconds)
        return True

    def kill(self, job: Job) -> None:
        if container_of(job) is None:
            super().kill(job)  # the runner, which has not started its container
            return
        with suppress(EngineError):  # it has ended
            self.signal(job, signal.SIGKILL)

    def signal(self, job: Job, number: int) -> None:
        if container_of(job) is None:
            super().signal(job, number)
            return
        engine, container_id = engine_of(job)
        with engine:
            if number == signal.SIGKILL:
                with suppress(EngineError):  # it is not paused
                    engine.unpause(container_id)
            engine.kill(container_id, number)

    def pause(self, job: Job) -> None:
        if container_of(job) is None:
            super().pause(job)
            return
        engine, container_id = engine_of(job)
        with engine:
            engine.pause(container_id)

    def resume(self, job: Job) -> None:
        if container_of(job) is None:
            super().resume(job)
            return
        engine, container_id = engine_of(job)
        with engine:
            engine.unpause(container_id)

    def survivors(self, paths: StatePaths, job: Job) -> list[Identity]:
        return []  # its engine ends what is left

    def finish(
        self,
        jobs: Jobs,
        paths: StatePaths,
        job: Job,
        ended: Facts,
        add_samples: Callable[[Job], Job] | None = None,
        secrets: Sequence[str] | None = None,
    ) -> Job:
        """Write how the job ended; a container that goes on without its runner is left running."""
        file = read_container(paths.names.job(job.id))
        if file is None or file.is_complete:
            return self._finish(jobs, paths, job, file, ended, add_samples, secrets)
        file = self._recovered(paths, job, file, ended)
        if file is None:
            return self._unfinished(jobs, paths, job)
        return self._finish(jobs, paths, job, file, ended, add_samples, secrets)

    @staticmethod
    def _finish(
        jobs: Jobs,
        paths: StatePaths,
        job: Job,
        file: ContainerFile | None,
        ended: Facts,
        add_samples: Callable[[Job], Job] | None = None,
        secrets: Sequence[str] | None = None,
    ) -> Job:
        if file is None:
            return finish(jobs, paths, job, ended, add_samples=add_samples, secrets=secrets)
        if file.id is None and file.told is None and file.engine is not None:
            with engine_at(file.engine, timeout_seconds=ENGINE_SECONDS) as engine, suppress(EngineError):
                SILENCE.check(engine)
                remove_orphans(engine, job.id)
        started = read_started(paths.names.job(job.id))
        return finish(
            jobs,
            paths,
            job,
            ended,
            settled=True,
            add_samples=lambda done: completed(done if add_samples is None else add_samples(done), file),
            started=started,
            secrets=secrets,
            conclude=conclude_with(file),
        )

    def concluded(self, paths: StatePaths, job: Job, ended: Facts) -> Job:
        file = read_container(paths.names.job(job.id))
        return super().concluded(paths, job, ended) if file is None else conclude_with(file)(job, ended)

    def without_shim(self, jobs: Jobs, paths: StatePaths, job: Job) -> Job:
        """The same as at any later look: the container goes on, or has ended."""
        done = self.record_end(jobs, paths, job)
        return done if done.status.ended or done.shim is not None else super().without_shim(jobs, paths, done)

    def record_end(self, jobs: Jobs, paths: StatePaths, job: Job, watched: Watched | None = None) -> Job:
        directory = paths.names.job(job.id)
        started = read_started(directory)
        has_shim = started is not None and is_alive(started.shim)  # before `ended`, which it writes before it exits
        ended, file = read_facts(directory, ENDED)[0], read_container(directory)
        if ended is None and has_shim:
            job = update_from_files(jobs, paths, job)
            return job if file is None else self._noted(jobs, job, file)
        if file is None or started is None or (ended is None and file.id is None):
            return super().record_end(jobs, paths, job, watched)
        if not file.is_complete:
            file = self._recovered(paths, job, file, ended)
            if file is None:
                return self._unfinished(jobs, paths, job)
        facts = facts_without_shim(started, file, time.time()) if ended is None else ended
        if watched is None:
            add_samples = None if job.status.ended else stored_observation(jobs, job)
        else:
            facts.note("recorder_cpu", watched.cpu_seconds or 0.0)
            facts.note("recorder_rss", watched.rss_bytes or status_value(os.getpid(), "VmHWM:") * 1024)
            add_samples = None if watched.observation is None else watched.observation.of
        return self._finish(jobs, paths, job, file, facts, add_samples)

    @staticmethod
    def _noted(jobs: Jobs, job: Job, file: ContainerFile) -> Job:
        """The record of a running job, with its container."""
        if file.id is None or job.status.ended or with_finding(job, file) == job:
            return job
        return jobs.change(job.id, lambda row: (with_finding(row, file), ()))

    @staticmethod
    def _recovered(paths: StatePaths, job: Job, file: ContainerFile, ended: Facts | None) -> ContainerFile | None:
        """The file of a container with its end, asked of its engine; None while it runs, or until the engine answers.

        A runner that still runs knows more, and writes it itself.
        """
        if file.runner is not None and is_alive(file.runner):
            return None
        if file.engine is None:
            return replace(file, told=Told(error=NO_ENGINE))
        directory, is_running = paths.names.job(job.id), file.init is not None and is_alive(file.init)
        must_end = ended is not None and "stop" in ended
        if is_running and not must_end:
            return None
        with recovering(directory) as is_alone:
            if not is_alone:
                return None
            now = read_container(directory) or file  # another process may have recovered it meanwhile
            return now if now.is_complete else asked_end(paths, job, now, must_end)

    @staticmethod
    def _unfinished(jobs: Jobs, paths: StatePaths, job: Job) -> Job:
        """The record of a container that goes on without its runner: its first process takes the place of the shim."""
        file = read_container(paths.names.job(job.id))
        if file is None or file.init is None or not is_alive(file.init) or job.shim == file.init:
            return job

        def taken_over(row: Job) -> tuple[Job, tuple[Event, ...]]:
            if row.status.ended or row.shim == file.init:
                return row, ()
            return with_finding(replace(row, shim=file.init), file), (event(TAKEN_OVER),)

        return jobs.change(job.id, taken_over)


def asked_end(paths: StatePaths, job: Job, file: ContainerFile, must_end: bool) -> ContainerFile | None:
    """The file with the end of its container, as its engine says; one that had to be stopped is killed first."""
    from jobtop.lifecycle.start import kept_spec

    directory, spec = paths.names.job(job.id), kept_spec(paths, job.id)
    log_max = LOG_MAX_BYTES if spec is None else spec.log_max_bytes
    started, killed = read_started(directory), None
    assert file.engine is not None
    with engine_at(file.engine, file.engine_name, ENGINE_SECONDS) as engine:
        try:
            SILENCE.check(engine)
        except EngineError as error:
            return given_up(directory, file, str(error))
        if must_end and file.id is not None:
            if file.init is not None and is_alive(file.init):
                killed = f"{file.init.pid} {name_of(file.init.pid)}"
            end_container(engine, file.id)
        sent = (signal.SIGKILL, signal.SIGTERM) if must_end or job.stop_request is not None else ()
        start_boottime = started.start_boottime if started else 0.0
        found = recover(engine, directory, file, sent, start_boottime, log_max)
    if found is None or found.told is None or killed is None:
        return found
    return replace(found, told=replace(found.told, killed=killed))


def container_of(job: Job) -> tuple[str, str] | None:
    """The address of the engine and the id of the container of a job; None if it has none yet."""
    facts = container_facts(job)
    return None if facts is None or facts.address is None or facts.id is None else (facts.address, facts.id)


def is_container(job: Job) -> bool:
    """Whether the record names the container itself in place of the shim, because that was killed."""
    return container_of(job) is not None and job.shim is not None and job.shim.pid == job.pid


def engine_of(job: Job, timeout_seconds: float | None = None) -> tuple[Engine, str]:
    """The engine of a job, and the id of its container."""
    found = container_of(job)
    assert found is not None
    return engine_at(found[0], timeout_seconds=timeout_seconds or ENGINE_SECONDS), found[1]


def end_container(engine: Engine, container_id: str) -> None:
    """Kill a container that had to be stopped, and wait a moment for its end."""
    with suppress(EngineError):
        engine.kill(container_id, signal.SIGKILL)
    due = time.monotonic() + ENGINE_SECONDS
    while time.monotonic() < due:
        with suppress(EngineError):
            if engine.inspect(container_id).is_over:
                return
        time.sleep(0.02)


def runner_order(order: Order) -> dict[str, object]:
    """What the runner needs to know: everything but its environment."""
    spec, job_limits = order.spec, order.spec.container or {}
    return {
        "container": spec.container,
        "command": list(spec.command),
        "limits": job_limits.get("limits") or {},
        "gpus": chosen_gpus(spec),
        "grace_seconds": spec.grace_seconds,
        "is_detached": spec.detached,
        "has_input": order.with_stdin and not spec.detached,
        "ordered_at": time.time(),
    }


def chosen_gpus(spec: JobSpec) -> list[str]:
    """The GPUs that the queue, or the caller by CUDA_VISIBLE_DEVICES, has chosen for the job."""
    wanted = (spec.container or {}).get("gpus") or 0
    visible = [word.strip() for word in spec.env.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.strip()]
    return visible[:wanted] if wanted and len(visible) >= wanted and "-1" not in visible else []


KIND = ContainerKind()
