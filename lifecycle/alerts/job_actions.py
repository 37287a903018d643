"""What an alert may do to its job: stop, kill, pause, send a signal, sample more often, capture."""

from __future__ import annotations

from jobtop.core.alerts.rule_fields import JOB_ACTIONS, signal_number
from jobtop.core.errors import BadValue, JobtopError, did_you_mean
from jobtop.core.units import parse_duration
from jobtop.lifecycle.control import Control
from jobtop.lifecycle.kinds.registry import kind_of
from jobtop.store.jobs import Jobs, event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobtop.core.model import Job
    from jobtop.core.paths import StatePaths
    from jobtop.store.database import Database


class JobActions:
    """Acts on jobs of this host. `set_interval` is None in a process that does not sample."""

    def __init__(
        self,
        database: Database,
        paths: StatePaths,
        secrets: Sequence[str] = (),
        set_interval: Callable[[str, float], bool] | None = None,
    ) -> None:
        self.jobs, self.paths, self.secrets, self.set_interval = Jobs(database), paths, secrets, set_interval
        self.problems: list[str] = []

    def perform(self, word: str, job_id: str, rule: str) -> str:
        """Do it, and return what was done or why not; the timeline of the job shows it."""
        self.problems.clear()
        try:
            done = self._perform(word, job_id, rule)
        except (JobtopError, OSError, ValueError) as error:
            done = f"not done: {error}"
        return "; ".join([done, *self.problems])

    def _perform(self, word: str, job_id: str, rule: str) -> str:
        control = Control(self.jobs, self.paths, self.problems.append)
        job = control.find(job_id)
        if (why := control.refusal(job)) is not None:
            return f"not done: {why}"
        name, _, value = word.partition(":")
        by = f"alert {rule}"
        match name:
            case "stop":
                control.stop(job, by)
                return "stopped"
            case "kill":
                control.kill(job, by)
                return "killed"
            case "pause":
                return "paused" if control.pause(job) else "not paused"
            case "signal":
                kind_of(job).signal(job, signal_number(value))
                return f"sent SIG{value.upper().removeprefix('SIG')}"
            case "interval":
                seconds = parse_duration(value)
                changed = self.set_interval is not None and self.set_interval(job_id, seconds)
                return f"sampled every {value}" if changed else "not done: another process samples it"
            case "capture":
                return self._capture(job, rule)
        raise BadValue(f'"{word}" is not an action{did_you_mean(word, JOB_ACTIONS)}')

    def _capture(self, job: Job, rule: str) -> str:
        from jobtop.lifecycle.alerts.capture import capture

        name = capture(self.paths, job, f"alert: {rule}", self.secrets)
        self.jobs.change(job.id, lambda row: (row, (event("captured", reason=name, rule=rule),)))
        return f"captured in {name}"
