"""The jobs that are queued for a workflow, what a retry leaves out, and how far a run is."""

from pathlib import Path
from typing import Any

import pytest

from jobtop.core.errors import UsageError
from jobtop.core.model import JobSpec, Queued, RetryRule, Status
from jobtop.core.record import replace
from jobtop.core.run.supervisor import new_id
from jobtop.core.workflow.model import (
    Action,
    MonitorSettings,
    Requirements,
    UserData,
    Workflow,
    WorkflowFile,
    WorkflowJob,
)
from jobtop.core.workflow.plan import ACTION, JOB, PlannedJob, fingerprint, planned_jobs, to_run_again
from jobtop.core.workflow.progress import RunJob, critical_path, results, summarize, with_names
from jobtop.lifecycle.queue import Queue, retry_rule
from jobtop.lifecycle.queue_runner import numbered
from jobtop.lifecycle.workflows.submission import RunOptions, Submission, data_paths
from jobtop.store.workflows import Workflows
from records import made_job


def flow(*jobs: WorkflowJob, **values: Any) -> Workflow:
    return Workflow("w", {job.name: job for job in jobs}, **values)


def job(name: str, *after: str, **values: Any) -> WorkflowJob:
    return WorkflowJob(name, f"run {name}", after, **values)


def plans(workflow: Workflow) -> dict[str, PlannedJob]:
    return {plan.name: plan for plan in planned_jobs(workflow, {}, {})}


def ran(name: str, *after: str, start: float = 0.0, end: float | None = 1.0, **values: Any) -> RunJob:
    status = values.pop("status", Status.SUCCESS if end is not None else Status.RUNNING)
    return RunJob(0, name, JOB, name, after, id=name, status=status, start_time=start, end_time=end, **values)


def test_paths_of_files_and_user_data_are_put_into_commands() -> None:
    one = WorkflowJob("a", "cat ${files.input.raw} ${user_data.output.conf} ${HOME}")
    (plan,) = planned_jobs(flow(one), {"raw": "raw.csv"}, {"conf": "out/conf.json"})
    assert plan.command == "cat raw.csv out/conf.json ${HOME}"


def test_a_job_that_is_not_cancelled_by_failures_waits_only_for_ends() -> None:
    found = plans(flow(job("a"), job("b", "a", cancel_on_failure=False), job("c", "a")))
    assert (found["b"].after, found["b"].after_end) == ((), ("a",))
    assert (found["c"].after, found["c"].after_end) == (("a",), ())


def test_actions_are_jobs_in_the_right_place() -> None:
    actions = (
        Action("on_workflow_complete", ("bye",)),
        Action("on_workflow_start", ("hello", "again")),
        Action("on_jobs_ready", ("ready",), ("c",)),
        Action("on_jobs_complete", ("over",), ("a",)),
    )
    found = plans(flow(job("a"), job("b"), job("c", "a", "b"), actions=actions))
    assert found["a"].after_end == ("on_workflow_start",)
    assert found["on_workflow_start"].command.splitlines() == ["set -e", "hello", "again"]
    assert found["on_jobs_ready"].after == ("a", "b")
    assert (found["c"].after, found["c"].after_end) == (("a", "b"), ("on_jobs_ready",))
    assert found["on_jobs_complete"].after_end == ("a",)
    assert set(found["on_workflow_complete"].after_end) == found.keys() - {"on_workflow_complete"}


def test_an_action_before_jobs_does_not_wait_for_what_comes_after_them() -> None:
    chain = flow(job("a"), job("b", "a"), job("c", "b"), actions=(Action("on_jobs_ready", ("x",), ("a", "c")),))
    assert plans(chain)["on_jobs_ready"].after == ()


def test_an_action_with_the_name_of_a_job_gets_another_name() -> None:
    found = plans(flow(job("on_workflow_start"), actions=(Action("on_workflow_start", ("x",)),)))
    assert found["on_workflow_start 2"].role == ACTION


@pytest.mark.parametrize(
    ("method", "order"),
    [("none", "abc"), ("gpus_runtime_memory", "cba"), ("gpus_memory_runtime", "cab")],
)
def test_the_largest_jobs_come_first_if_the_file_says_so(method: str, order: str) -> None:
    asked = {
        "a": Requirements("", memory_bytes=9, runtime_seconds=1),
        "b": Requirements("", memory_bytes=1, runtime_seconds=9),
        "c": Requirements("", gpus=1),
    }
    workflow = flow(*(job(name, requirements=each) for name, each in asked.items()), sort_method=method)
    assert "".join(plans(workflow)) == order


def test_what_failed_and_all_that_comes_after_it_runs_again() -> None:
    found = list(plans(flow(job("a"), job("b", "a"), job("c", "b"), job("d", "a"))).values())
    assert to_run_again(found, {"a", "c", "d"}) == {"b", "c"}
    assert to_run_again(found, {"a", "b", "c", "d"}) == set()


def test_an_action_that_failed_makes_no_job_run_again() -> None:
    found = list(plans(flow(job("a"), actions=(Action("on_workflow_start", ("x",)),))).values())
    assert to_run_again(found, {"a"}) == {"on_workflow_start"}


def test_a_fingerprint_changes_with_what_a_job_does_and_reads() -> None:
    plan = PlannedJob("a", JOB, "run", job=job("a"))
    changed = [
        fingerprint(replace(plan, command="walk"), "/", []),
        fingerprint(plan, "/home", []),
        fingerprint(replace(plan, job=job("a", env={"A": "1"})), "/", []),
        fingerprint(replace(plan, job=job("a", image="busybox")), "/", []),
        fingerprint(plan, "/", [("raw", [1, 2])]),
    ]
    assert len({fingerprint(plan, "/", []), *changed}) == 6
    assert fingerprint(replace(plan, after=("b",)), "/", []) == fingerprint(plan, "/", [])


def test_files_that_are_read_or_written_decide_what_is_done(queue: Queue, tmp_path: Path) -> None:
    one = job("a", inputs=("raw",), outputs=("out",))
    files = {name: WorkflowFile(name, f"{name}.txt") for name in ("raw", "out")}
    workflow = flow(one, files=files)

    def done(earlier: list[RunJob]) -> set[str]:
        return set(Submission(queue, workflow, "f.yaml", RunOptions(str(tmp_path))).done_before(1, earlier))

    (tmp_path / "raw.txt").write_text("1")
    (tmp_path / "out.txt").write_text("1")
    earlier = [ran("a", fingerprint=Submission(queue, workflow, "f", RunOptions(str(tmp_path))).fingerprints["a"])]
    assert done(earlier) == {"a"}
    assert done([replace(earlier[0], status=Status.CANCELLED)]) == set()
    (tmp_path / "out.txt").unlink()
    assert done(earlier) == set()
    (tmp_path / "out.txt").write_text("1")
    (tmp_path / "raw.txt").write_text("another")
    assert done(earlier) == set()


def test_a_run_is_kept_with_its_jobs_and_their_order(queue: Queue, tmp_path: Path) -> None:
    workflow = flow(job("a", retries=2), job("b", "a", tags={"k": "v"}, params={"lr": 0.1}))
    started = Submission(queue, workflow, "f.yaml", RunOptions(str(tmp_path), parallel=3)).start({}, ())
    store = Workflows(queue.jobs.database)
    row = store.find("w")
    assert store.find(str(row.id)) == store.find("last") == row
    assert (row.file, row.cwd) == (str(tmp_path / "f.yaml"), str(tmp_path))
    first, second = store.with_states(store.jobs(row.id, 1))
    assert (first.name, second.name, second.after) == ("a", "b", ("a",))
    assert (first.id, second.id) == tuple(each.id for each in started.jobs)
    queued = queue.jobs.find(second.id)
    assert queued.tags == {"k": "v", "workflow": "w", "workflow_run": f"{row.id}.1"}
    assert queued.params == {"lr": 0.1}
    assert queued.queue is not None
    assert (queued.queue.after, queued.queue.slots) == ((first.id,), 3)
    assert store.workflow_of(second.id) == (row.id, 1)
    with pytest.raises(UsageError, match="has no run 2"):
        store.run(row, 2)
    with pytest.raises(UsageError, match="workflow list"):
        store.find("nosuch")


def test_a_job_in_a_container_is_told_its_number_and_its_attempt_too() -> None:
    env, order = {"TORC_WORKFLOW_ID": "3", "A": "b"}, {"image": "i", "env": {"A": "b"}}
    spec = JobSpec(id=new_id(), command=("x",), cwd="/", env=env, container=order)
    found = numbered(spec, made_job(seq=17, queue=Queued(attempt=2)))
    numbers = {"TORC_JOB_ID": "17", "TORC_ATTEMPT_ID": "2"}
    assert found.env == env | numbers
    assert found.container == {"image": "i", "env": {"A": "b"} | numbers}
    recovery = replace(spec, env=env | {"TORC_JOB_ID": "16"})
    assert numbered(recovery, made_job(seq=18)) == recovery


def test_the_last_step_has_a_name_of_its_own(queue: Queue, tmp_path: Path) -> None:
    monitor = MonitorSettings(granularity="time_series")
    submission = Submission(queue, flow(job("report"), monitor=monitor), "w.yaml", RunOptions(str(tmp_path)))
    assert [each.name for each in submission.start({}, ()).jobs] == ["report", "report 2"]


def test_a_run_that_cannot_be_queued_leaves_nothing(queue: Queue, tmp_path: Path) -> None:
    broken = flow(job("a"), job("b", params={"x": object()}), job("c"))
    with pytest.raises(TypeError, match="JSON"):
        Submission(queue, broken, "f.yaml", RunOptions(str(tmp_path))).start({}, ())
    assert Workflows(queue.jobs.database).newest() == []
    assert list(queue.paths.specs.iterdir()) == []


def test_user_data_is_a_private_file_below_the_output_directory(queue: Queue, tmp_path: Path) -> None:
    data = {name: UserData(name, {"x": 1}) for name in ("../../up", "a b", "a_b", "")}
    paths = data_paths(flow(job("a"), user_data=data), "out")
    assert len(set(paths.values())) == 4
    assert all(Path(path).parent == Path("out") and ".." not in path for path in paths.values())
    Submission(queue, flow(job("a"), user_data=data), "f", RunOptions(str(tmp_path))).start({}, ())
    (directory,) = (tmp_path / "output" / "user_data").iterdir()
    assert directory.stat().st_mode & 0o777 == 0o700
    written = list(directory.iterdir())
    assert len(written) == 4
    assert {path.stat().st_mode & 0o777 for path in written} == {0o600}


def test_two_workflows_in_one_directory_have_user_data_of_their_own(queue: Queue, tmp_path: Path) -> None:
    for value in (1, 2):
        workflow = flow(job("a"), user_data={"conf": UserData("conf", value)})
        Submission(queue, workflow, "f", RunOptions(str(tmp_path))).start({}, ())
    written = sorted((tmp_path / "output" / "user_data").glob("*/conf.json"))
    assert [path.read_text() for path in written] == ["1", "2"]


def test_a_job_that_reads_user_data_is_the_same_in_a_retry(queue: Queue, tmp_path: Path) -> None:
    one = WorkflowJob("a", "cat ${user_data.input.conf}", data_inputs=("conf",))
    workflow = flow(one, user_data={"conf": UserData("conf", 1)})
    started = Submission(queue, workflow, "f", RunOptions(str(tmp_path))).start({}, ())
    done = [replace(each, status=Status.SUCCESS) for each in started.jobs]
    again = Submission(queue, workflow, "f", RunOptions(str(tmp_path), str(tmp_path / "output")))
    assert again.to_run_again(started.workflow_id, done) == set()
    assert f"user_data/{started.workflow_id}/conf.json" in queue.jobs.find(done[0].id).command[-1]


def test_an_action_with_a_pattern_that_matches_no_job_does_not_run() -> None:
    assert list(plans(flow(job("a"), actions=(Action("on_jobs_complete", ("x",)),)))) == ["a"]


def test_reasons_name_the_jobs_of_the_run() -> None:
    first, other = "3f8a21b2-0000-4000-8000-000000000000", "job 7b9e3f1a, which had to succeed first, failed"
    jobs = [ran("a"), replace(ran("b"), first_id=first, id=first), ran("c", reason="job 3f8a21b2 failed; " + other)]
    assert with_names(jobs)[2].reason == 'job "b" failed; ' + other


@pytest.mark.parametrize(("code", "attempt", "script"), [(7, 1, "fix"), (7, 3, None), (5, 1, "any"), (5, 2, None)])
def test_the_first_rule_that_fits_decides_over_a_retry(code: int, attempt: int, script: str | None) -> None:
    rules = (RetryRule((7,), "fix", 2), RetryRule((), "any", 1))
    ended = made_job(status=Status.FAILED, exit_code=code, queue=Queued(retries=1, attempt=attempt))
    spec = JobSpec(ended.id, ("x",), "/", {}, retry_rules=rules)
    if script is None:
        with pytest.raises(UsageError):
            retry_rule(ended, spec)
    else:
        found = retry_rule(ended, spec)
        assert found is not None
        assert found.recovery_script == script


def test_the_critical_path_is_the_chain_that_took_longest() -> None:
    jobs = [ran("a", end=5.0), ran("b", end=1.0), ran("c", "a", "b", start=5.0, end=6.0), ran("d", start=0.0, end=5.5)]
    assert critical_path(jobs, 9.0) == (("a", "c"), 6.0)
    summary = summarize(jobs, 9.0)
    assert (summary.elapsed_seconds, summary.busy_seconds) == (6.0, 12.5)
    assert summary.speed_up == pytest.approx(12.5 / 6.0)


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        ("success success", "success"),
        ("success running", "running"),
        ("queued queued", "queued"),
        ("success cancelled", "cancelled"),
        ("failed cancelled success", "failed"),
        ("timeout success", "failed"),
        ("success deleted", "unknown"),
        ("failed deleted", "failed"),
    ],
)
def test_the_status_of_a_run_is_that_of_its_jobs(statuses: str, status: str) -> None:
    words = statuses.split()
    jobs = [ran(str(index), status=None if word == "deleted" else Status(word)) for index, word in enumerate(words)]
    assert str(summarize(jobs, 9.0).status) == status


def test_results_have_the_names_and_units_of_torc() -> None:
    found = results(ran("a", peak_cpu_percent=350.0, mean_cpu_percent=99.5, peak_memory_bytes=3 << 29))
    assert found == {"peak_cpu_percent": 350.0, "avg_cpu_percent": 99.5, "peak_memory_gb": 1.5, "avg_memory_gb": None}
