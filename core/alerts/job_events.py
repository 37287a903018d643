"""Rules on events: an event of a running job or a device, and the end of a job. Pure."""

from __future__ import annotations

from jobtop.core.alerts.defaults import DEFAULT_NAMES
from jobtop.core.alerts.detector import Finding
from jobtop.core.alerts.state_machine import Verdict
from jobtop.core.analysis.evidence import Cause, evidence_of
from jobtop.core.measure.device import Device
from jobtop.core.metrics import Scope
from jobtop.core.text.event_text import event_text
from jobtop.core.units import format_duration, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from jobtop.core.alerts.isolation import Isolation
    from jobtop.core.alerts.model import Owner, Transition
    from jobtop.core.alerts.rule_watch import RuleWatch
    from jobtop.core.model import Job

# The words of rules for events that have another name, and the events that end an alert.
WORDS = {"gpu_throttled": "throttled", "limit_reached": "oom_killed"}
ENDS = {"gpu_unthrottled": "gpu_throttled", "gpu_found": "gpu_lost"}
CALM_SECONDS = 600.0  # without another event of its kind, until the alert of an event without an end is resolved
OOM_KILLED, DISK_FULL, LEFT_RUNNING = "oom_killed", "disk_full", "left_running"
FAILURES = (OOM_KILLED, DISK_FULL, "timeout", "lost", "error", "failed")  # the most exact word first
END_WORDS = (*FAILURES, "cancelled", "success", LEFT_RUNNING)
END_TEXTS = {
    OOM_KILLED: "killed because memory ran out",
    DISK_FULL: "failed because a disk is full",
    LEFT_RUNNING: "ended, and left descendants running,",
    "timeout": "timed out",
    "error": "could not start",
    "success": "succeeded",
}
OOM_FLAGS = ("oom_killed", "over_limit")


class EventRules:
    """The rules of the kind `event`."""

    def __init__(self, isolation: Isolation, watches: Sequence[RuleWatch]) -> None:
        self._run, self._watches = isolation.run, watches

    def see(self, owner: Owner, kind: str, detail: Mapping[str, Any], now: float, at: float) -> list[Transition]:
        """Fire on an event of a running job, the host or a device; events that repeat do not fire again."""
        ended = ENDS.get(kind)
        word = WORDS.get(ended or kind, ended or kind)
        changes: list[Transition] = []
        for watch in self._watches:
            if word not in watch.rule.events or not is_for_owner(watch, owner):
                continue
            if ended is not None:
                changes += self._run(watch, watch.close, owner, at, event_text(kind, detail))
            else:
                finding = Finding(owner, Verdict.BAD, text=event_text(kind, detail), detail={"event": kind, **detail})
                changes += self._run(watch, watch.take, finding, now, float("inf"), at)
        return changes

    def see_end(self, job: Job, at: float) -> list[Transition]:
        """Fire on the end of a job, each rule at most once.

        Of the rules that come with jobtop only those on the most exact word fire: a job that was killed because memory
        ran out has failed too. Rules of users fire on every word they name.
        """
        words = end_words(job)
        matched = [
            (watch, next(word for word in words if word in watch.rule.events))
            for watch in self._watches
            if not set(words).isdisjoint(watch.rule.events) and self._is_for(watch, job)
        ]
        exact = next((word for word in words if any(word == other for _, other in matched)), None)
        changes: list[Transition] = []
        for watch, word in matched:
            if word == exact or word not in FAILURES or watch.rule.name not in DEFAULT_NAMES:
                detail = {"event": word, "exit_code": job.exit_code, "signal": job.signal, "reason": job.reason}
                finding = Finding(job.id, Verdict.BAD, text=end_text(job, word), detail=detail)
                changes += self._run(watch, watch.take_once, finding, at)
        return changes

    def _is_for(self, watch: RuleWatch, job: Job) -> bool:
        """Whether a rule is for a job; a rule that raises is for none."""
        found: list[bool] = []
        self._run(watch, lambda: found.append(watch.is_for(job)))
        return any(found)

    def end_old(self, now: float, at: float) -> list[Transition]:
        """End alerts of events that have no end of their own and did not come again."""
        why = f"not again for {format_duration(CALM_SECONDS)}"
        changes: list[Transition] = []
        for watch in self._watches:
            for owner, track in list(watch.open.items()):
                if track.is_older_than(now, CALM_SECONDS) and not has_end(watch.rule.events):
                    changes += self._run(watch, watch.close, owner, at, why)
        return changes


def has_end(words: Sequence[str]) -> bool:
    """Whether all of these events have another event that ends them."""
    ending = {WORDS.get(kind, kind) for kind in ENDS.values()}
    return set(words) <= ending


def is_for_owner(watch: RuleWatch, owner: Owner) -> bool:
    """Whether a rule is for a job, a device or the host."""
    if isinstance(owner, str):
        return owner in watch.members
    return watch.rule.scope == (owner.kind if isinstance(owner, Device) else Scope.HOST)


def end_words(job: Job) -> list[str]:
    """Return the words of rules that say how a job ended, the most exact first."""
    words = {str(job.status)}
    if any(flag in job.flags for flag in OOM_FLAGS):
        words.add(OOM_KILLED)
    if any(seen.kind is Cause.DISK_FULL for seen in evidence_of(job.findings)):
        words.add(DISK_FULL)
    if LEFT_RUNNING in job.flags:
        words.add(LEFT_RUNNING)
    return [word for word in END_WORDS if word in words]


def end_text(job: Job, word: str) -> str:
    """Return how a job ended, in one line: `failed with exit code 3 after 4m10s: …`."""
    code = f" with exit code {job.exit_code}" if job.exit_code else ""
    what = END_TEXTS.get(word, f"{word}{code}")
    lasted = f" after {format_duration(job.duration_seconds)}" if job.duration_seconds is not None else ""
    reason = reason_beside(job, word)
    return f"{what}{lasted}{f': {printable(reason)}' if reason else ''}"


def reason_beside(job: Job, word: str) -> str:
    """Return what the reason of a job's end says beside its exit code or its timeout, which were said already."""
    first, _, rest = (job.reason or "").partition("; ")
    if word == "timeout":
        is_said = first.startswith("stopped after its timeout")
    else:
        is_said = word not in END_TEXTS and first == f"exit code {job.exit_code}"
    return rest if is_said else job.reason or ""
