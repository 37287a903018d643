"""What `jobtop workflow` prints of a run: a line for each job that ends, the closing lines, and graphs for others."""

from pathlib import Path

import pytest

from jobtop.cli.text.workflow_lines import closing_lines
from jobtop.cli.verbs.workflow.starting import Lines
from jobtop.core.model import Status
from jobtop.core.text.workflow_graph import mermaid_lines
from jobtop.core.workflow.model import Workflow, WorkflowJob
from jobtop.core.workflow.plan import JOB
from jobtop.core.workflow.progress import RunJob, summarize
from records import assert_one_line, call


def ran(name: str, status: Status, **values: object) -> RunJob:
    found = {"id": f"{name}-id", "start_time": 1.0, "end_time": 3.0} | values
    return RunJob(0, name, JOB, name, status=status, **found)  # type: ignore[arg-type]


def test_kept_jobs_are_counted_once_and_a_failure_that_is_tried_again_is_not_an_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept = ran("kept", Status.SUCCESS, is_kept=True)
    failed = ran("flaky", Status.FAILED, reason="exit code 7", will_retry=True)
    lines = Lines([kept, failed], is_quiet=False, now=lambda: 5.0)
    lines.begin("a run")
    lines.update([kept, failed])
    lines.update([kept, ran("flaky", Status.SUCCESS, id="second", attempt=2)])
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "a run, 1 of them kept from an earlier run"
    assert said[1].startswith("      ✗ flaky  failed: exit code 7; it is tried again")
    assert said[2:] == ["[2/2] ✓ flaky  2s, attempt 2"]


def test_a_run_that_goes_on_has_no_last_end() -> None:
    done, live = ran("a", Status.SUCCESS), ran("b", Status.RUNNING, end_time=None)
    assert "last end" in closing_lines(summarize([done], 9.0))[0]
    assert closing_lines(summarize([done, live], 9.0))[0].startswith("time           8s since the first start")


def test_names_are_plain_text_in_mermaid() -> None:
    jobs = {name: WorkflowJob(name, "x") for name in ("<b>x</b>", "`id`", 'a"b#c')}
    nodes = mermaid_lines(Workflow("w", jobs))[1:]
    assert nodes == ['  j0["#lt;b#gt;x#lt;/b#gt;"]', '  j1["#96;id#96;"]', '  j2["a#quot;b#35;c"]']


def test_a_retry_whose_file_is_gone_says_how_to_name_another(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text("name: w\njobs: [{name: a, command: x}]\n")
    from jobtop.core.paths import StatePaths
    from jobtop.store.database import open_to_write
    from jobtop.store.workflows import Workflows
    from records import HERE

    database = open_to_write(StatePaths(home, HERE))
    workflows = Workflows(database)
    workflows.add_run(workflows.add("w", str(path), str(tmp_path), HERE, "ada"), {})
    database.close()
    path.unlink()
    answer = call("workflow", "retry")
    assert answer.returncode == 2
    assert_one_line(answer.stderr, "--file")
