"""`jobtop attach`: makes a job of a process that runs already, and of everything below it."""

import click

from jobtop.cli.app import App
from jobtop.cli.run.submission import opened
from jobtop.core.errors import ExitCode
from jobtop.core.run.request import pair
from jobtop.lifecycle.attach import attach as make_job
from jobtop.lifecycle.attach import call_agent
from jobtop.lifecycle.wait import await_ends


@click.command()
@click.argument("pid", type=click.IntRange(1))
@click.option("--name", metavar="N", help="What to call the job; by default the script or the program.")
@click.option("--tool", metavar="T", help="What kind of job it is; by default the program.")
@click.option("--tag", "tags", metavar="K=V", multiple=True, help="A tag to find it by; may be repeated.")
@click.option("--note", metavar="TEXT", help="A word for later.")
@click.option("--wait", is_flag=True, help="Wait until it has ended; exit code 1, for how is not known.")
@click.pass_obj
def attach(
    app: App, pid: int, name: str | None, tool: str | None, tags: tuple[str, ...], note: str | None, wait: bool
) -> int:
    """Watch the process PID and everything below it as a job, print its id, and return.

    CPU time, faults and storage are counted since it began, and its memory peak is known since then. jobtop did not
    start it: its exit status stays unknown, its output is not kept, and what it uses after its last sample is missing.
    It is stopped and paused like any job, and does not need jobtop to go on.
    """
    said = {"name": name, "tool": tool, "tags": dict(map(pair, tags)), "note": note}
    queue = opened(app)
    job = make_job(queue.jobs, app.paths, app.config, pid, said)
    print(job.id, flush=True)
    if not call_agent(queue.jobs, app.paths, app.environ):
        app.warn("nobody watches it yet: this is inside of a job, and there is no agent (outside: jobtop agent start)")
    if not wait:
        return ExitCode.OK
    (job,) = await_ends(queue, [job])
    app.warn(f"job {job.id[:8]}: {job.reason}")
    return ExitCode.BAD_ANSWER
