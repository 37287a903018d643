"""`jobtop history --long`: a few lines for each job, with its tool and script, its CPU time in parts, and its error."""

from collections.abc import Iterator, Sequence

from jobtop.cli.app import App
from jobtop.cli.text.history_columns import COLUMNS, with_usage_so_far_of
from jobtop.core.clock import local
from jobtop.core.model import Job, Status
from jobtop.core.text.usage_text import cpu_text, memory_peak
from jobtop.core.units import ABSENT, printable
from jobtop.store.jobs import Jobs

LONGEST_ERROR = 300


def long_text(app: App, found: Sequence[tuple[Jobs, Job]]) -> str:
    """Return the jobs as text, an empty line between two."""
    jobs = enumerate(with_usage_so_far_of(found), 1)
    return "\n\n".join("\n".join(job_lines(app, number, store, job)) for number, (store, job) in jobs)


def job_lines(app: App, number: int, store: Jobs, job: Job) -> Iterator[str]:
    """Yield the lines of one job; those that are not known are left out."""
    begin = f"{number}. "
    on = f" on {printable(job.host)}" if app.fleet.has_several else ""
    yield f"{begin}{job.id[:8]}  {printable(job.name)}  {COLUMNS['status'].text(app, store, job)}{on}"
    script = f", script {printable(job.script)}" if job.script else ""
    rows = (
        ("task", printable(job.external_id) if job.external_id else None),
        ("tool", f"{printable(job.tool)}{script}" if job.tool else None),
        ("started", local(job.start_time) if job.start_time is not None else None),
        ("time", COLUMNS["time"].text(app, store, job)),
        ("cpu", cpu_text(job)),
        ("memory", f"{memory_peak(job)} peak" if job.usage.memory_peak_bytes is not None else None),
        ("error", error_text(job)),
    )
    for title, value in rows:
        if value and value != ABSENT:
            yield f"{'':<{len(begin)}}{title:<9}{value}"


def error_text(job: Job) -> str | None:
    """Return why the job did not succeed; None for one that did, or runs."""
    error = job.error or job.reason
    if not error or not job.status.ended or job.status is Status.SUCCESS:
        return None
    return printable(error if len(error) <= LONGEST_ERROR else error[: LONGEST_ERROR - 1] + "…")
