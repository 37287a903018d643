"""`run --fail-on SEVERITY`: a job that succeeded although alerts fired."""

from __future__ import annotations

from jobtop.core.errors import ExitCode, JobtopError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.cli.app import App
    from jobtop.core.model import Job

SEVERITIES = ("info", "warning", "critical")


def with_alerts(app: App, job: Job, code: int, least: str | None) -> int:
    """Return the exit code of `run`: 1 if the code was 0 and an alert of the job was at least this severe."""
    if code != 0 or least is None or job.seq is None:
        return code
    from jobtop.store.alerts.alert_rows import AlertStore

    wanted = SEVERITIES[SEVERITIES.index(least) :]
    try:
        alerts = AlertStore(app.jobs().database).listing(job_seq=job.seq)
    except JobtopError as error:
        app.warn(f"--fail-on: the alerts of this job cannot be read: {error}")
        return ExitCode.FAILED
    fired = [alert for alert in alerts if alert.fired_at is not None and alert.severity in wanted]
    if not fired:
        return code
    names = ", ".join(dict.fromkeys(alert.rule for alert in fired))
    app.warn(f"the job succeeded, but alerts fired: {names} (--fail-on {least})")
    return ExitCode.BAD_ANSWER
