"""A follower of runs reads what changed, and has what a full reading has."""

from pathlib import Path

from jobtop.core.model import Queued, Status
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.core.workflow.progress import RunJob
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.workflow_states import RunStates
from jobtop.store.workflows import Workflows
from records import HERE, made_job, running_job


def test_a_change_and_a_new_attempt_are_seen_without_reading_all(home: Path) -> None:
    database = open_to_write(StatePaths(home, HERE))
    jobs, workflows, states = Jobs(database), Workflows(database), RunStates()
    first, other = (jobs.insert(running_job(name=name, queue=Queued(retries=1))) for name in ("a", "b"))
    key = workflows.add("sweep", "f", "/", HERE, "ada"), 1
    workflows.add_run(key[0], {})
    workflows.add_jobs(*key, [RunJob(0, "a", "job", first.id), RunJob(1, "b", "job", other.id)])
    assert states.read(database, [key]) == {key}
    assert states.read(database, [key]) == set()
    failed = replace(first, status=Status.FAILED, end_time=1_700_000_009.0)
    jobs.change(first.id, lambda _: (failed, []))
    assert states.read(database, [key]) == {key}
    assert states.jobs[key][0].will_retry
    second = jobs.insert(made_job(name="a", queue=Queued(attempt=2)))
    jobs.change(first.id, lambda _: (replace(failed, queue=Queued(retried_by=second.id)), []))
    assert states.read(database, [key]) == {key}
    assert [job.id for job in states.jobs[key]] == [second.id, other.id]
    assert states.jobs[key] == workflows.with_states(workflows.jobs(*key))
    jobs.change(second.id, lambda job: (replace(job, exit_code=7), []))
    states.read(database, [key])
    assert states.jobs[key][0].exit_code == 7
    database.close()


def test_reasons_name_jobs_and_a_retry_that_never_started_leaves_the_job_failed(home: Path) -> None:
    database = open_to_write(StatePaths(home, HERE))
    jobs, workflows, states = Jobs(database), Workflows(database), RunStates()
    first = jobs.insert(running_job(name="a", queue=Queued(retries=1)))
    other = jobs.insert(made_job(name="b", status=Status.QUEUED, start_time=None, end_time=None, queue=Queued()))
    key = workflows.add("sweep", "f", "/", HERE, "ada"), 1
    workflows.add_run(key[0], {})
    workflows.add_jobs(*key, [RunJob(0, "a", "job", first.id), RunJob(1, "b", "job", other.id)])
    states.read(database, [key])
    waiting = made_job(name="a", status=Status.QUEUED, start_time=None, end_time=None, queue=Queued(attempt=2))
    second = jobs.insert(waiting)
    queue = Queued(retried_by=second.id)
    jobs.change(first.id, lambda job: (replace(job, status=Status.FAILED, reason="exit code 5", queue=queue), []))
    states.read(database, [key])
    jobs.change(second.id, lambda job: (replace(job, status=Status.CANCELLED, reason="the recovery failed"), []))
    why = f"job {first.id[:8]}, which had to succeed first, failed"
    jobs.change(other.id, lambda job: (replace(job, status=Status.CANCELLED, reason=why), []))
    assert states.read(database, [key]) == {key}
    assert states.jobs[key] == workflows.with_states(workflows.jobs(*key))
    assert states.jobs[key][0].status is Status.FAILED
    assert states.jobs[key][1].reason == 'job "a", which had to succeed first, failed'
    database.close()
