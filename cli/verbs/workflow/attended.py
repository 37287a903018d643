"""`jobtop workflow run` at a terminal: the agent runs the jobs, and the console shows them."""

from __future__ import annotations

from jobtop.cli.app import App
from jobtop.cli.failure import print_error
from jobtop.cli.verbs.console import console_options
from jobtop.cli.verbs.workflow.starting import print_end
from jobtop.core.errors import ExitCode
from jobtop.core.units import printable
from jobtop.lifecycle.queue import Queue
from jobtop.lifecycle.workflows.running import is_over
from jobtop.store.workflows import Workflows


def show_run(app: App, queue: Queue, workflow_id: int, run_id: int) -> int:
    """Show a run until it has ended or the user leaves, and print how it ended; 75 if it goes on."""
    from jobtop.tui.app import Console
    from jobtop.tui.opening import options_for_terminal, run_console

    when_done = app.config.text("run.when_done")
    options = console_options(app, workflow_run=(workflow_id, run_id), is_attended=True, when_done=when_done)
    code = run_console(Console(options_for_terminal(options)))
    workflows = Workflows(queue.jobs.database)
    workflow = workflows.find(str(workflow_id))
    jobs = workflows.with_states(workflows.jobs(workflow_id, run_id))
    if not is_over(jobs):
        print_error(f"jobtop: {printable(workflow.name)} goes on as workflow {workflow_id}, run {run_id}")
        print_error(
            f"  see it again: jobtop workflow status {workflow_id}; cancel it: jobtop workflow cancel {workflow_id}"
        )
        return code or ExitCode.NOT_FINISHED
    return code or print_end(workflow, workflows.run(workflow, run_id), jobs)
