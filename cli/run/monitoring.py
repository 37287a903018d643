"""How `run` samples its job: not in the first moments, since most short commands end then; later by its own engine."""

from __future__ import annotations

import gc

from jobtop.cli.failure import print_error
from jobtop.core.errors import JobtopError, StartError
from jobtop.core.model import Status
from jobtop.core.record import replace
from jobtop.core.run import outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.cli.app import App
    from jobtop.core.alerts.model import Transition
    from jobtop.core.measure.derive import Frame
    from jobtop.core.measure.engine import Engine
    from jobtop.core.measure.target import Target
    from jobtop.core.model import Job
    from jobtop.core.run.facts import Started
    from jobtop.lifecycle.alerts.messages import Messages
    from jobtop.lifecycle.alerts.watching import AlertWatch
    from jobtop.lifecycle.recorder import Recorder

FLUSH_SECONDS = 1.0
CLOSE_SECONDS = 5.0


class Monitoring:
    """Samples one foreground job from shortly after its start to its end."""

    def __init__(self, app: App, recorder: Recorder, job_id: str, report_seconds: float | None) -> None:
        self.app, self.recorder, self.job_id, self.report_seconds = app, recorder, job_id, report_seconds
        self.enabled = app.config.boolean("monitor.enabled")
        self.interval = app.config.interval("monitor.interval")
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

        raise_descriptor_limit()
        config = self.app.config
        if (notice := shortage_notice(config)) is not None:
            self.app.warn(notice)
        if config.boolean("alerts.enabled"):
            from jobtop.core.alerts.rule_set import notices_of
            from jobtop.lifecycle.alerts.watching import AlertWatch

            self.alerts = AlertWatch(self.app.paths, config, lambda _: self.recorder.job, print_change)
            for notice in notices_of(self.alerts.book.problems):
                self.app.warn(notice)
        sink = StoreSink(
            self.app.paths,
            config.switch("store.network"),
            config=config,
            record_of=lambda _: self.recorder.job,
            tell_of=None if self.alerts is None else self.alerts.tell_of,
        )
        engine = Engine(sink, chosen(config, self.interval), self.alerts)
        if self.alerts is not None:
            self.alerts.connect(sink, engine.sampler)
            self.alerts.on_messages = self._wake_messages
        report = print_report if self.report_seconds else None
        engine.watch(self.job_id, target, report, self.report_seconds or 0.0)
        try:
            engine.start()
        except StartError as error:
            self.enabled = False
            self.app.warn(f"the job runs, but is not sampled: {error}")
            return
        self.engine = engine
        gc.freeze()  # modules are imported by now; a collection during a tick need not scan them

    def end(self) -> Callable[[Job], Job] | None:
        """Stop sampling; return the function that adds what was observed to the record, None if nothing was."""
        if not self.enabled or self.started is None:
            return None
        if self.engine is None:
            return outcome.over_at_once
        observation = self.engine.conclude(self.job_id, FLUSH_SECONDS)
        return observation.of if observation is not None else None

    def _wake_messages(self) -> None:
        """Send messages about alerts from now on; from the writer thread, when there is one for the first time."""
        if self.messages is None and self.alerts is not None and self.alerts.book.has_messages:
            self.messages = self.alerts.open_messages()
        if self.messages is not None:
            self.messages.wake()

    def _judge_end(self, job: Job) -> None:
        """Judge the end of the job by the alert rules, and print what is unusual about it."""
        is_over_at_once = self.engine is None and job.status is Status.SUCCESS
        if is_over_at_once or self.recorder.jobs is None or not self.app.config.boolean("alerts.enabled"):
            return
        from jobtop.lifecycle.ends import judge_alerts

        if self.alerts is None:  # it ended before `begin`, which names wrong rules
            for notice in self.app.rule_notices(self.app.config):
                self.app.warn(notice)
        was_running = replace(job, status=Status.RUNNING)
        for alert in judge_alerts(self.recorder.jobs, self.app.paths, was_running, job, self.app.config):
            if alert.kind == "deviation" and alert.state != "resolved":
                print_alert(alert.severity, alert.rule, alert.text)

    def close(self, job: Job) -> None:
        """Judge how the job ended, and end sampling for good."""
        self._judge_end(job)
        if self.engine is not None:
            self.engine.finish(self.job_id)
            self.engine.close(CLOSE_SECONDS)
        self._leave_messages(job)

    def _leave_messages(self, job: Job) -> None:
        """Leave unsent messages to an agent, or say what is left."""
        jobs, config = self.recorder.jobs, self.app.config
        may_send = self.messages is not None or (config.alerts or config.is_set("alerts.actions"))
        if jobs is None or not may_send:
            return
        from jobtop.lifecycle.alerts.messages import Messages, book_of, leave_messages

        def messages() -> Messages:
            return self.messages or Messages(self.app.paths, config.switch("store.network"), book_of(config))

        try:
            left = leave_messages(jobs.database, self.app.paths, messages, self.app.environ, job.parent_id is not None)
        except JobtopError as error:
            left = f"messages about alerts may wait: {error}"
        if self.messages is not None:
            self.messages.close()
        if left is not None:
            self.app.warn(left)


def print_change(change: Transition) -> None:
    """Print a line about an alert that has fired to standard error."""
    print_alert(change.rule.severity, change.rule.name, change.text)


def print_alert(severity: str, rule: str, text: str) -> None:
    from jobtop.core.units import printable

    print_error(f"jobtop: {severity} alert {printable(rule)}: {printable(text)}")


def print_report(frame: Frame) -> None:
    """Print a line of current values to standard error, for the log of a batch job."""
    from jobtop.core.units import format_bytes, format_duration, number_of

    values = frame.values
    cpu, memory = values["cpu.percent"], values["mem.used"]
    parts = [
        f"CPU {'–' if cpu is None else f'{cpu:.1f}%'}",
        f"memory {format_bytes(memory)}",
        f"read {format_bytes(values['io.read_bytes'])}/s, write {format_bytes(values['io.write_bytes'])}/s",
        f"{number_of(values['proc.count'], 'process', 'processes')}, {number_of(values['proc.threads'], 'thread')}",
    ]
    print_error(f"[Resources] {format_duration(frame.elapsed)}: {'; '.join(parts)}")
