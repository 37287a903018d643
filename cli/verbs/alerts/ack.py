"""`jobtop alerts ack`: note that a person has seen alerts and failures."""

import click
from click.shell_completion import CompletionItem

from jobtop.cli.app import App
from jobtop.cli.completion import complete_job_id
from jobtop.cli.text.alert_lines import alert_json, owner_text
from jobtop.cli.text.tables import json_option, print_records
from jobtop.cli.verbs.alerts.choices import alert_number, complete_alert
from jobtop.core.errors import UnknownJob, UsageError
from jobtop.core.model import SCHEMA_VERSION, Job
from jobtop.core.record import record
from jobtop.core.run.request import user_name
from jobtop.core.units import number_of, printable
from jobtop.store.alerts.alert_rows import AlertStore, StoredAlert
from jobtop.store.alerts.fired import FAILURES
from jobtop.store.alerts.marks import Marks
from jobtop.store.incidents import unacknowledged_failures
from jobtop.store.jobs import Jobs
from jobtop.store.references import FORMS_HELP


@record
class Chosen:
    """The ids of alerts, and the failed jobs, that a word means."""

    alerts: tuple[int, ...] = ()
    failed: tuple[Job, ...] = ()


def complete_alert_or_job(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [*map(CompletionItem, complete_alert(ctx, param, incomplete)), *complete_job_id(ctx, param, incomplete)]


@click.command(epilog=FORMS_HELP, short_help="Note that you have seen alerts or failed jobs.")
@click.argument("words", nargs=-1, metavar="ALERT… | JOB…", shell_complete=complete_alert_or_job)
@click.option("--note", metavar="TEXT", help="Why, or what is done about it; kept with the alert.")
@click.option("--all", "everything", is_flag=True, help="Acknowledge all alerts and all failed jobs.")
@json_option
@click.pass_obj
def ack(app: App, words: tuple[str, ...], note: str | None, everything: bool, as_json: bool) -> int:
    """Note that you have seen alerts or failed jobs.

    ALERT is the id of an alert. JOB means the failure of a job and all its alerts. They are no longer
    counted as new. An acknowledged alert stays open until its condition is no longer true.
    """
    if everything and words:
        raise UsageError("--all and ids cannot be combined")
    if not everything and not words:
        raise UsageError("no alert given: name alerts or jobs (jobtop alerts lists alerts), or give --all")
    jobs, _ = app.jobs_to_change(())
    chosen = [choose(app, jobs, word) for word in words]
    store, by = AlertStore(jobs.database), user_name()
    numbers = unseen(store) if everything else [number for one in chosen for number in one.alerts]
    found = store.acknowledge(dict.fromkeys(numbers), by, note)
    failed = {job.id: job for one in chosen for job in one.failed}
    failed_ids = unacknowledged_failures(jobs.database) if everything else list(failed)
    Marks(jobs.database).acknowledge_failures(failed_ids, by, note)
    if as_json:
        shown = {"alerts": [alert_json(alert) for alert in found], "failed_jobs": list(failed_ids)}
        print_records("json", [{"schema_version": SCHEMA_VERSION, **shown}], single=True)
        return 0
    if everything:
        print(f"acknowledged {number_of(len(found), 'alert')} and {number_of(len(failed_ids), 'failed job')}")
        return 0
    for alert in found:
        print(f"acknowledged {alert.id} {printable(alert.rule)}, {printable(owner_text(alert))}")
    for job in failed.values():
        print(f"acknowledged the failure of {job.id[:8]} {printable(job.name)}")
    return 0


def choose(app: App, jobs: Jobs, word: str) -> Chosen:
    """Return what a word means: the id of an alert, or a job; UsageError if there is nothing to acknowledge."""
    store, number = AlertStore(jobs.database), alert_number(word)
    if number is not None and store.find(number) is not None:
        return Chosen(alerts=(number,))
    try:
        _, [job] = app.jobs_to_change([word])
    except UnknownJob as error:
        if number is None:
            raise
        raise UsageError(
            f"there is no alert {number}, and no such job (jobtop alerts list --all lists alerts)"
        ) from error
    alerts = [alert for alert in store.listing(job_seq=job.seq) if is_unseen(alert)]
    failed = (job,) if job.status in FAILURES else ()
    if not alerts and not failed:
        raise UsageError(f"job {job.id[:8]} has not failed, and has no alert that is not acknowledged")
    return Chosen(tuple(alert.id for alert in alerts), failed)


def unseen(store: AlertStore) -> list[int]:
    """Return the ids of all alerts that fired and were not acknowledged."""
    return [alert.id for alert in store.listing(limit=None) if is_unseen(alert)]


def is_unseen(alert: StoredAlert) -> bool:
    return alert.fired_at is not None and alert.acknowledged_at is None
