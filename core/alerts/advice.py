"""What follows from an alert and when, a command that helps, and where to look. Pure."""

from __future__ import annotations

from jobtop.core.alerts.defaults import DEFAULT_NAMES
from jobtop.core.alerts.expressions.expression import format_value
from jobtop.core.alerts.model import BUILT_IN, RuleKind, Severity, State
from jobtop.core.analysis.advice import MEMORY_FACTOR, TIME_FACTOR, size_text
from jobtop.core.clock import local
from jobtop.core.metrics import Scope
from jobtop.core.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobtop.core.alerts.messages import AlertRow
    from jobtop.core.alerts.model import Rule
    from jobtop.core.model import Job

WARN = "warn"
DONE = {"stop": "stopped", "kill": "killed", "pause": "paused"}
STARTS_AGAIN = "process"  # the kind of job that `rerun` can start
MOST_NAMED = 5
LIMIT = "limit.memory"


def consequence_of(rule: Rule | None, alert: AlertRow, job: Job | None, at: float, is_armed: bool) -> str | None:
    """What happens next and when, and what usually helps; None if neither is known."""
    if rule is None:
        return None
    parts = (_forecast(rule, alert, job, at), _next_step(rule, alert, at, is_armed), rule.remedy)
    return ". ".join(part[:1].upper() + part[1:].rstrip(".") for part in parts if part) + "." if any(parts) else None


def _forecast(rule: Rule, alert: AlertRow, job: Job | None, at: float) -> str | None:
    left, limit = _number(alert.detail.get("eta_seconds")), _number(alert.detail.get("limit"))
    if rule.kind is not RuleKind.FORECAST or left is None:
        return None
    is_known = rule.expression is not None and limit is not None
    what = f"its limit of {format_value(rule.expression, limit)}" if is_known and rule.expression else "its limit"
    moment = (alert.fired_at or at) + left
    when = f"in {format_duration(moment - at)}, at {_clock(moment)}" if moment > at else f"about {_clock(moment)}"
    is_held = job is not None and job.limits.enforced and _is_about_memory(rule)
    return f"it reaches {what} {when}{'; then it is killed' if is_held else ''}"


def _next_step(rule: Rule, alert: AlertRow, at: float, is_armed: bool) -> str | None:
    """The next step that acts on the job, whether or not the rule may take it."""
    step = next((step for step in rule.steps if step.do != WARN and alert.began_at + step.after_seconds > at), None)
    if step is None:
        return None
    moment = alert.began_at + step.after_seconds
    deed = DONE.get(step.do) or f"sent {step.do.partition(':')[2] or step.do}"
    if not is_armed:
        return (
            f"it would be {deed} at {local(moment)}, but the rule is not armed (jobtop alerts arm {_word(rule.name)})"
        )
    keep = f"jobtop alerts mute {alert.job_id[:8]} keeps it" if alert.job_id else ""
    return f"it will be {deed} at {local(moment)}, in {format_duration(moment - at)}" + (f"; {keep}" if keep else "")


def command_for(rule: Rule | None, alerts: Sequence[AlertRow], jobs: Mapping[str, Job]) -> str | None:
    """A command to paste that helps; None if none is certain to fit."""
    ids = list(dict.fromkeys(alert.job_id for alert in alerts if alert.job_id is not None))
    if not ids:
        about_jobs = rule is not None and rule.scope is Scope.HOST and _is_about_memory(rule)
        return "jobtop history --status running --sort memory" if about_jobs else None
    if len(ids) > 1:
        if rule is None or not _may_stop(rule):
            return None
        running = [job_id for job_id in ids if job_id in jobs and not jobs[job_id].status.ended]
        return f"jobtop stop {' '.join(job_id[:8] for job_id in running)}" if 0 < len(running) <= MOST_NAMED else None
    job = jobs.get(ids[0])
    if rule is None or job is None:
        return None
    return _command_for_job(rule, alerts[0], job)


def _command_for_job(rule: Rule, alert: AlertRow, job: Job) -> str | None:
    short, event = job.id[:8], alert.detail.get("event")
    can_rerun = job.kind == STARTS_AGAIN
    if not job.status.ended and (alert.state is State.RESOLVED or not _may_stop(rule)):
        return f"jobtop show {short}"
    stop = "" if job.status.ended else f"jobtop stop {short}"
    needs_memory = LIMIT in _keys(rule) or event == "oom_killed"
    if can_rerun and needs_memory and (size := _more_memory(alert, job)):
        return f"{stop}{' && ' if stop else ''}jobtop rerun {short} --memory {size}"
    if event == "timeout" and can_rerun and job.limits.timeout_seconds is not None:
        return f"jobtop rerun {short} --timeout {format_duration(job.limits.timeout_seconds * TIME_FACTOR)}"
    if job.status.ended:
        return f"jobtop logs {short} --tail 50"
    return stop


def _more_memory(alert: AlertRow, job: Job) -> str | None:
    """More than the job has and more than it used; None if neither is known."""
    values = alert.detail.get("values")
    seen = _number(values.get("mem.used")) if isinstance(values, dict) else None
    known = (job.limits.memory_bytes, job.usage.memory_peak_bytes, seen)
    used = max((size for size in known if size is not None), default=0)
    return size_text(used * MEMORY_FACTOR) if used > 0 else None


def look_at(alerts: Sequence[AlertRow], rule: str) -> str:
    """The command that shows more."""
    if len(alerts) > 1:
        return f"jobtop alerts list --rule {_word(rule)}"
    alert = alerts[0]
    if alert.job_id is not None:
        return f"jobtop show {alert.job_id[:8]}"
    device = f" --device {_word(f'{alert.device.kind}:{alert.device.name}')}" if alert.device is not None else ""
    return f"jobtop metrics --host{device} --since 1h --no-follow"


def _may_stop(rule: Rule) -> bool:
    """Whether to propose the end of a running job: only jobtop's own rules are known to be about a job in trouble."""
    is_known = rule.origin == BUILT_IN or rule.name in DEFAULT_NAMES
    return is_known and rule.severity is not Severity.INFO


def _is_about_memory(rule: Rule) -> bool:
    return any(key.startswith("mem.") or key == LIMIT for key in _keys(rule))


def _keys(rule: Rule) -> set[str]:
    expressions = (rule.expression, rule.limit)
    return {key for expression in expressions if expression is not None for key in expression.keys}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _clock(moment: float) -> str:
    return local(moment)[:-3]  # to the minute


def _word(text: str) -> str:
    """A word of a command line that cannot become two, or anything else than text."""
    from jobtop.core.text.shell_text import shell_text

    return shell_text([text])
