"""Judges what an engine samples by the alert rules, and lets messages be sent and jobs be acted on."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from contextlib import suppress

from jobtop.core import journal
from jobtop.core.alerts.evaluator import Evaluator
from jobtop.core.alerts.model import BUILT_IN, OPEN_STATES, Rule, RuleKind, State, Transition
from jobtop.core.errors import JobtopError, StoreError
from jobtop.core.measure.collectors.host.reading import host_frame
from jobtop.core.metrics import Scope
from jobtop.core.record import replace
from jobtop.core.run.interactive import takes_over_terminal
from jobtop.core.units import printable
from jobtop.lifecycle.alerts.book import Book
from jobtop.lifecycle.alerts.dispatch import Dispatch
from jobtop.lifecycle.alerts.slow_keys import SlowKeys
from jobtop.store.alerts.alert_rows import AlertStore
from jobtop.store.alerts.marks import Marks
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.output.logs import log_sizes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobtop.core.config import Config
    from jobtop.core.measure.sampler import Batch, Sampler
    from jobtop.core.model import Job
    from jobtop.core.paths import StatePaths
    from jobtop.lifecycle.alerts.messages import Messages
    from jobtop.store.alerts.alert_rows import StoredAlert
    from jobtop.store.database import Database
    from jobtop.store.samples.sink import StoreSink

OUTPUT = "output.bytes"
SLOW_SECONDS = 10.0  # between two looks of rules that need a longer time to judge
RULES_SECONDS = 2.0  # between two looks at the files of rules
REMIND_SECONDS = 60.0
PATIENCE_SECONDS = 5.0
NOTEBOOKS = frozenset({"jupyter", "jupyterlab", "notebook", "rstudio", "marimo", "code"})
MOST_PAST = 20  # earlier runs of the same name


class AlertWatch:
    """What an engine calls with everything it samples, from its writer thread.

    `job_of` gives the current record of a job. `on_fired` is called when an alert has fired.
    """

    def __init__(
        self,
        paths: StatePaths,
        config: Config,
        job_of: Callable[[str], Job | None],
        on_fired: Callable[[Transition], None] | None = None,
    ) -> None:
        self.paths, self.config, self._job_of, self._on_fired = paths, config, job_of, on_fired
        self.network = config.switch("store.network")
        self.book = Book(config)
        self.evaluator = Evaluator(self.book.rules)
        self.dispatch = Dispatch(lambda: self.book, self._is_interactive)
        self.on_messages: Callable[[], None] | None = None  # called when there may be something to send
        self.sampler: Sampler | None = None  # to sample a job more often
        self.sink: StoreSink | None = None
        self._joined: dict[str, Job] = {}
        self._output_sizes: dict[str, float | None] = {}
        self._leaving: deque[str] = deque()
        self._stepping: dict[int, StoredAlert] = {}  # open alerts of rules with steps
        self._steps_at: float | None = None  # when the next step is due, by the wall clock; None: not known
        self._sees_host = False
        self._slow_keys = SlowKeys(paths, config.size("store.max_size"))
        now = time.monotonic()
        self._slow_due = self._remind_due = now + SLOW_SECONDS
        self._rules_due = now + RULES_SECONDS
        self._has_problem = False

    def connect(self, sink: StoreSink, sampler: Sampler) -> None:
        """Use the store and the sampler of the engine that calls this."""
        self.sink, self.sampler = sink, sampler

    def open_messages(self) -> Messages:
        """What sends the messages of this engine, in threads of its own."""
        from jobtop.lifecycle.alerts.messages import Messages

        return Messages(self.paths, self.network, lambda: self.book)

    def see(self, batch: Batch) -> Sequence[Transition]:
        """Judge a batch; return the changes of alerts, to be stored with it."""
        at, now = time.time(), time.monotonic()
        self._perform_deeds()
        while self._leaving:
            self._joined.pop(key := self._leaving.popleft(), None)
            self._output_sizes.pop(key, None)
            self.evaluator.leave(key, at)  # its open alerts are resolved with the record of its end
        changes = self._new_rules(now)
        for key, _ in batch.samples:
            if key not in self._joined:
                self._join(key)
        # Events first: that the machine was suspended has to be known when the first samples after it are judged.
        for owner, moment, kind, detail in batch.events:
            changes += self.evaluator.see_event(owner, kind, detail, moment)
        changes += self.evaluator.see_jobs(batch.samples, at)
        changes += self._see_machine(batch, at)
        if now >= self._slow_due:
            self._slow_due = now + SLOW_SECONDS
            changes += self._see_slow(at, now)
        self._step_or_remind(at, now)
        for change in changes:
            if change.state is State.FIRING and self._on_fired is not None:
                self._on_fired(change)
        self._note_failures()
        return changes

    def _note_failures(self) -> None:
        """Log the rules that failed, and store why: they are inactive until they are changed or a new engine starts."""
        failures = self.evaluator.isolation.take_failures()
        for rule, reason in failures:
            self._log("ERROR", f'alert rule "{printable(rule.name)}" is inactive: {reason}')
        if failures and self.sink is not None:
            with suppress(StoreError):
                self.sink.write(lambda database: Marks(database).set_failed(failures))

    def leave(self, key: str) -> None:
        """Judge a job no longer, from any thread."""
        self._leaving.append(key)

    def tell_of(self, database: Database, alerts: list[StoredAlert]) -> None:
        """Let messages be sent about stored alerts with a new state; in the transaction that stores them."""
        for alert in alerts:
            rule = self.book.rule(alert.rule)
            if alert.state not in OPEN_STATES:
                self._stepping.pop(alert.id, None)
            elif rule is not None and rule.steps:
                self._stepping[alert.id] = alert
        self._steps_at = None
        self.dispatch.tell_of(database, alerts)
        if self.on_messages is not None:
            self.on_messages()

    def _is_interactive(self, key: str) -> bool:
        """Whether a person works in a job: it is never ended by a rule."""
        job = self._joined.get(key)
        return job is not None and (takes_over_terminal(job.command) or not NOTEBOOKS.isdisjoint(program_names(job)))

    def _new_rules(self, now: float) -> list[Transition]:
        if now < self._rules_due:
            return []
        self._rules_due = now + RULES_SECONDS
        has_changed = self.book.read_again()
        for problem in self.book.take_problems():  # also of a file that became wrong and left the rules as they were
            self._log("WARNING", problem)
        if not has_changed:
            return []
        self._steps_at = None
        return self.evaluator.set_rules(self.book.rules)

    def _join(self, key: str) -> None:
        job = self._job_of(key)
        if job is None:
            return
        self._joined[key] = job
        self.evaluator.join(job, self._open_transitions(key))
        self._give_past(job)

    def _give_past(self, job: Job) -> None:
        """Tell the evaluator what earlier jobs of the same name used."""
        if self.sink is not None and any(rule.kind is RuleKind.DEVIATION for rule in self.book.rules):
            with suppress(StoreError):
                past = self.sink.write(lambda database: Jobs(database).earlier_runs(job, MOST_PAST))
                self.evaluator.set_past(job.id, past)

    def _open_transitions(self, key: str | None) -> list[Transition]:
        """The alerts that an earlier engine left open."""
        if self.sink is None:
            return []
        found = []
        for alert in self.sink.open_alerts(key):
            rule = self.book.rule(alert.rule) or removed_rule(alert)
            found.append(
                Transition(
                    rule,
                    alert.owner,
                    alert.state,
                    alert.fired_at or alert.began_at,
                    alert.began_at,
                    alert.value,
                    alert.text,
                    is_flapping=alert.is_flapping,
                )
            )
            if rule.steps:
                self._stepping[alert.id] = alert
                self._steps_at = None
        return found

    def _see_machine(self, batch: Batch, at: float) -> list[Transition]:
        """Judge the host and its devices, if this engine records them."""
        if self._sees_host and self.sampler is not None and not self.sampler.records_host:
            self._sees_host = False  # another engine does from now on, and goes on with the open alerts
            self.evaluator.leave_host()
        if batch.host is None and not batch.devices:
            return []
        if not self._sees_host:
            self._sees_host = True
            self.evaluator.resume(self._open_transitions(None))
        changes: list[Transition] = []
        if batch.host is not None:
            _, before, after = batch.host
            seconds = after.monotonic - before.monotonic
            made = {"cpu.percent": host_frame(before, after).cpu.percent, "cpu.count": len(after.cores) or None}
            values = {**after.values, **self._slow_keys.host, **made}
            changes += self.evaluator.see_host(before.values, values, seconds, at)
        for device, moment, readings in batch.devices:
            changes += self.evaluator.see_device(device, moment, readings, at)
        return changes

    def _see_slow(self, at: float, now: float) -> list[Transition]:
        """What is looked at every ten seconds: slow numbers and detectors."""
        changes: list[Transition] = []
        directories = frozenset(job.cwd for job in self._joined.values())
        has_disks = self._slow_keys.refresh(directories, now)
        for key, known in list(self._joined.items()):
            job = self._job_of(key) or known
            if job.status is not known.status:  # paused, or resumed
                self._joined[key] = job
                self.evaluator.join(job)
            # If no process of it has run, it has written nothing.
            is_known = key in self._output_sizes and self.evaluator.repeats_itself(key)
            if is_known and not has_disks:
                continue
            size = self._output_sizes[key] if is_known else output_bytes(self.paths, job)
            if has_disks or size != self._output_sizes.get(key):
                self._output_sizes[key] = size
                disk = self._slow_keys.of_job(job.cwd) if has_disks else {}
                changes += self.evaluator.see_extra(key, {OUTPUT: size, **disk}, at)
        return changes + self.evaluator.slow(at)

    def _step_or_remind(self, at: float, now: float) -> None:
        """Use the store if a step of a rule or a reminder is due; without one this costs next to nothing."""
        if self._steps_at is None:
            self._steps_at = min(map(self._next_step_at, self._stepping.values()), default=float("inf"))
        if self.sink is None or (at < self._steps_at and now < self._remind_due):
            return
        self._remind_due, self._steps_at = now + REMIND_SECONDS, at + SLOW_SECONDS
        with suppress(StoreError):  # it is tried again after ten seconds
            self.sink.write(lambda database: self._take_steps(database, at))
            self._steps_at = None
        self._perform_deeds()

    def _next_step_at(self, alert: StoredAlert) -> float:
        """When the next step of an alert is due, by the wall clock."""
        rule = self.book.rule(alert.rule)
        if rule is None or alert.state is State.PENDING or (place := following_step(rule, alert)) >= len(rule.steps):
            return float("inf")
        return alert.began_at + rule.steps[place].after_seconds

    def _take_steps(self, database: Database, at: float) -> None:
        """Take the steps of rules that are due, and remind of alerts that still fire."""
        stored = AlertStore(database)
        if not self._stepping and not stored.open_alerts():
            return
        with database.writing():
            for number in list(self._stepping):
                alert = stored.find(number)
                rule = None if alert is None else self.book.rule(alert.rule)
                if alert is None or rule is None or not alert.is_open:
                    del self._stepping[number]
                elif alert.state is not State.PENDING:
                    self._take_step(database, stored, rule, alert, at)
            mine = [alert for alert in stored.open_alerts() if self._is_mine(alert)]
            self.dispatch.remind(database, mine, at)

    def _take_step(self, database: Database, stored: AlertStore, rule: Rule, alert: StoredAlert, at: float) -> None:
        """Take the next step of a rule if its time has come."""
        following = following_step(rule, alert)
        if following < len(rule.steps) and at - alert.began_at >= rule.steps[following].after_seconds:
            stored.set_step(alert.id, following + 1)
            self._stepping[alert.id] = replace(alert, step=following + 1)
            self.dispatch.take_step(database, rule, alert, rule.steps[following].do, at)

    def _is_mine(self, alert: StoredAlert) -> bool:
        return alert.job_id in self._joined if alert.job_id is not None else self._sees_host

    def _perform_deeds(self) -> None:
        """Do in a thread of its own what alerts do to their jobs: a signal may have to wait for the store."""
        deeds, self.dispatch.deeds = self.dispatch.deeds, []
        if deeds:
            threading.Thread(target=self._perform, args=(deeds,), name="jobtop-deeds", daemon=True).start()

    def _perform(self, deeds: list[tuple[str, str, str]]) -> None:
        from jobtop.lifecycle.alerts.job_actions import JobActions

        try:
            database = open_to_write(self.paths, self.network, PATIENCE_SECONDS)
        except JobtopError as error:
            self._log("ERROR", f"alerts could not act on {len(deeds)} jobs: {error}")
            return
        set_interval = None if self.sampler is None else self.sampler.set_interval
        actions = JobActions(database, self.paths, self.config.texts("run.redact"), set_interval)
        for job_id, word, rule in deeds:
            self._log("WARNING", f"alert {rule}: job {job_id[:8]}: {actions.perform(word, job_id, rule)}")
        database.close()

    def _log(self, level: str, text: str) -> None:
        with suppress(OSError):
            journal.write(self.paths.names.log, level, text)


def following_step(rule: Rule, alert: StoredAlert) -> int:
    """The place of the next step of a rule; a first step that only warns is that the alert fires."""
    return max(int(rule.steps[0].do == "warn"), alert.step) if rule.steps else 0


def removed_rule(alert: StoredAlert) -> Rule:
    """A rule that stands for one that is not in force any more: the evaluator ends its alerts."""
    return Rule(alert.rule, alert.kind, Scope.JOB, alert.severity, BUILT_IN, is_enabled=False)


def program_names(job: Job) -> set[str]:
    """The names of what a command may start: `python -m jupyter lab` starts jupyter."""
    return {os.path.basename(word).partition("-")[0] for word in job.command[:4]}


def output_bytes(paths: StatePaths, job: Job) -> float | None:
    """How much output a job has written; None if that is not kept."""
    sizes = [size for size in log_sizes(paths.names.job(job.id)) if size is not None]
    return float(sum(sizes)) if sizes else None
