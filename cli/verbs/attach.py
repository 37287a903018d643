"""`jobtop attach`: records a running process and its descendants as a job."""

import click

from jobtop.cli.app import App
from jobtop.cli.run.submission import open_queue
from jobtop.cli.values import Count
from jobtop.core.errors import ExitCode
from jobtop.core.run.request import tag
from jobtop.lifecycle.attach import attach as make_job
from jobtop.lifecycle.attach import call_agent
from jobtop.lifecycle.wait import await_ends


@click.command()
@click.argument("pid", type=Count(1), metavar="PID")
@click.option("--name", metavar="N", help="The job's name; by default the script or the program.")
@click.option("--tool", metavar="T", help="The kind of job; by default the program.")
@click.option("--tag", "tags", metavar="K[=V]", multiple=True, help="A tag to find the job by; may be repeated.")
@click.option("--note", metavar="TEXT", help="A note to read later.")
@click.option("--wait", is_flag=True, help="Wait until it has ended; exit code 1, since its exit status is not known.")
@click.pass_obj
def attach(
    app: App, pid: int, name: str | None, tool: str | None, tags: tuple[str, ...], note: str | None, wait: bool
) -> int:
    """Monitor the process PID and its descendants as a job, print the job's id, and return.

    CPU time, faults, storage and the memory peak are counted from the start of the process. jobtop did not start it:
    its exit status stays unknown, its output is not kept, and what it uses after the last sample is missing. It can be
    stopped and paused like any job, and runs on without jobtop.
    """
    details = {"name": name, "tool": tool, "tags": dict(map(tag, tags)), "note": note}
    queue = open_queue(app)
    job = make_job(queue.jobs, app.paths, app.config, pid, details)
    print(job.id, flush=True)
    if not call_agent(queue.jobs, app.paths, app.environ):
        app.warn(
            "it is not monitored yet: no agent runs, and a job cannot start one (outside the job: jobtop agent start)"
        )
    if not wait:
        return ExitCode.OK
    (job,) = await_ends(queue, [job])
    app.warn(f"job {job.id[:8]}: {job.reason}")
    return ExitCode.BAD_ANSWER
