"""A job that this process starts and waits for: starts it, samples it by an engine of this process, records its end."""

from __future__ import annotations

import gc
import time

from jobtop.core.errors import JobtopError, StartError
from jobtop.core.model import Status
from jobtop.core.record import record, replace
from jobtop.core.run import outcome
from jobtop.lifecycle.kinds.kind import Order
from jobtop.lifecycle.kinds.registry import kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobtop.core.alerts.model import Transition
    from jobtop.core.config import Config
    from jobtop.core.measure.derive import Frame
    from jobtop.core.measure.engine import Engine
    from jobtop.core.measure.target import Target
    from jobtop.core.model import Job
    from jobtop.core.paths import StatePaths
    from jobtop.core.run.facts import Facts, Started
    from jobtop.core.run.foreground import Foreground
    from jobtop.lifecycle.alerts.messages import Messages
    from jobtop.lifecycle.alerts.watching import AlertWatch
    from jobtop.lifecycle.recorder import Recorder

FLUSH_SECONDS = 1.0
CLOSE_SECONDS = 5.0


@record
class Host:
    """The process that runs a job in the foreground, and what it does with warnings, alerts and reports."""

    paths: StatePaths
    config: Config
    environ: Mapping[str, str]
    warn: Callable[[str], None]
    on_alert: Callable[[str, str, str], None]  # called with severity, rule and text
    on_report: Callable[[Frame], None] | None = None  # called with current values every `report_seconds`
    report_seconds: float = 0.0
    is_jobtop: bool = True  # False: another program, whose limits and garbage collection stay as they are


def run_to_end(
    order: Order, recorder: Recorder, foreground: Foreground, monitoring: Monitoring
) -> tuple[Job, float, Facts | None]:
    """Start the job that was ordered and wait for its end; its record, when it ended, and the last report of the shim.

    The report is None if the shim was killed.
    """
    shim_report = kind_of(recorder.job).start(order).answer()
    if shim_report is not None and "exec_error" not in shim_report:
        monitoring.started = shim_report.started()
        recorder.started(monitoring.started)
        shim_report = foreground.wait(monitoring.begin)
    return *finish_job(recorder, foreground, monitoring, shim_report), shim_report


def finish_job(
    recorder: Recorder, foreground: Foreground, monitoring: Monitoring, shim_report: Facts | None
) -> tuple[Job, float]:
    """Record the end of the job; return its record, and when it ended. A container may go on without its runner."""
    if recorder.job.kind == "process":
        ended_at = time.time()
        return recorder.finish(shim_report, monitoring.end()), ended_at
    from jobtop.lifecycle.containers.foreground import wait_for_container

    rest = wait_for_container(recorder, foreground, monitoring.host.warn)
    ended_at = time.time()
    job = recorder.finish(shim_report, monitoring.end())
    if rest is not None:
        rest.print()
    return job, ended_at


def pausing_of(recorder: Recorder) -> Callable[[bool], None] | None:
    """Return what pauses the job, or continues it, other than signals to its processes; None if these do it."""
    if recorder.job.kind == "process":
        return None
    from jobtop.lifecycle.containers.foreground import pausing

    return pausing(recorder)


class Monitoring:
    """Samples one foreground job from shortly after its start to its end."""

    def __init__(self, host: Host, recorder: Recorder, job_id: str) -> None:
        self.host, self.recorder, self.job_id = host, recorder, job_id
        self.enabled = host.config.boolean("monitor.enabled")
        self.interval = host.config.interval("monitor.interval")
        self.started: Started | None = None
        self.engine: Engine | None = None
        self.alerts: AlertWatch | None = None
        self.messages: Messages | None = None

    def begin(self) -> bool:
        """Start sampling; called once the job has run for a moment. True: call it again, its container is not there."""
        if self.started is None:
            return False
        target = self._target(self.started)
        if target is None:
            return True
        if self.enabled:
            self._start_engine(target)
        return False

    def _target(self, started: Started) -> Target | None:
        """What to sample; None for a container that has not started."""
        from jobtop.core.measure.target import target_in, target_of

        job, directory = self.recorder.job, self.recorder.directory
        if job.kind == "process" or directory is None:
            return target_of(started, job.limits)
        target = target_in(directory, job)
        if target is not None:
            from jobtop.core.run.containers.file import read_container

            if (file := read_container(directory)) is not None:
                self.recorder.found_container(file)
        return target

    def _start_engine(self, target: Target) -> None:
        from jobtop.core.measure.budget import shortage_notice
        from jobtop.core.measure.collectors.processes import raise_descriptor_limit
        from jobtop.core.measure.engine import Engine, chosen
        from jobtop.store.samples.sink import StoreSink

        if self.host.is_jobtop:
            raise_descriptor_limit()
        config = self.host.config
        if (notice := shortage_notice(config)) is not None:
            self.host.warn(notice)
        if config.boolean("alerts.enabled"):
            from jobtop.core.alerts.rule_set import notices_of
            from jobtop.lifecycle.alerts.watching import AlertWatch

            self.alerts = AlertWatch(self.host.paths, config, lambda _: self.recorder.job, self._tell_alert)
            for notice in notices_of(self.alerts.book.problems):
                self.host.warn(notice)
        sink = StoreSink(
            self.host.paths,
            config.switch("store.network"),
            config=config,
            record_of=lambda _: self.recorder.job,
            tell_of=None if self.alerts is None else self.alerts.tell_of,
        )
        engine = Engine(sink, chosen(config, self.interval), self.alerts)
        if self.alerts is not None:
            self.alerts.connect(sink, engine.sampler)
            self.alerts.on_messages = self._wake_messages
        engine.watch(self.job_id, target, self.host.on_report, self.host.report_seconds)
        try:
            engine.start()
        except StartError as error:
            self.enabled = False
            self.host.warn(f"the job runs, but is not sampled: {error}")
            return
        self.engine = engine
        if self.host.is_jobtop:
            gc.freeze()  # modules are imported by now; a collection during a tick need not scan them

    def end(self) -> Callable[[Job], Job] | None:
        """Stop sampling; return the function that adds what was observed to the record, None if nothing was."""
        if not self.enabled or self.started is None:
            return None
        if self.engine is None:
            return outcome.over_at_once
        observation = self.engine.conclude(self.job_id, FLUSH_SECONDS)
        return observation.of if observation is not None else None

    def _tell_alert(self, change: Transition) -> None:
        self.host.on_alert(change.rule.severity, change.rule.name, change.text)

    def _wake_messages(self) -> None:
        """Send messages about alerts from now on; from the writer thread, when there is one for the first time."""
        if self.messages is None and self.alerts is not None and self.alerts.book.has_messages:
            self.messages = self.alerts.open_messages()
        if self.messages is not None:
            self.messages.wake()

    def _judge_end(self, job: Job) -> None:
        """Judge the end of the job by the alert rules, and print what is unusual about it."""
        is_over_at_once = self.engine is None and job.status is Status.SUCCESS
        if is_over_at_once or self.recorder.jobs is None or not self.host.config.boolean("alerts.enabled"):
            return
        from jobtop.lifecycle.ends import judge_alerts

        if self.alerts is None and self.host.config.has_own_rules:  # it ended before `begin`, which names wrong rules
            from jobtop.core.alerts.rule_set import rule_notices

            for notice in rule_notices(self.host.config):
                self.host.warn(notice)
        was_running = replace(job, status=Status.RUNNING)
        for alert in judge_alerts(self.recorder.jobs, self.host.paths, was_running, job, self.host.config):
            if alert.kind == "deviation" and alert.state != "resolved":
                self.host.on_alert(alert.severity, alert.rule, alert.text)

    def close(self, job: Job) -> None:
        """Judge how the job ended, and end sampling for good."""
        self._judge_end(job)
        if self.engine is not None:
            self.engine.finish(self.job_id)
            self.engine.close(CLOSE_SECONDS)
        self._leave_messages(job)

    def _leave_messages(self, job: Job) -> None:
        """Leave unsent messages to an agent, or say what is left."""
        jobs, config = self.recorder.jobs, self.host.config
        may_send = self.messages is not None or (config.alerts or config.is_set("alerts.actions"))
        if jobs is None or not may_send:
            return
        from jobtop.lifecycle.alerts.messages import Messages, book_of, leave_messages

        def messages() -> Messages:
            return self.messages or Messages(self.host.paths, config.switch("store.network"), book_of(config))

        try:
            left = leave_messages(
                jobs.database, self.host.paths, messages, self.host.environ, job.parent_id is not None
            )
        except JobtopError as error:
            left = f"messages about alerts may wait: {error}"
        if self.messages is not None:
            self.messages.close()
        if left is not None:
            self.host.warn(left)
