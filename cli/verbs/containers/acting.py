"""`jobtop containers stop`, `restart`, `pause` and `resume`: ask first, then let the engines act on all at once."""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.failure import print_error
from jobtop.cli.text.tables import TableColumn, table
from jobtop.cli.values import Duration
from jobtop.cli.verbs.containers.choices import Found, containers_named, names_options
from jobtop.core.errors import EngineError, ExitCode, JobtopError, UsageError
from jobtop.core.job_id import is_job_id
from jobtop.core.measure.collectors.docker.client import Engine
from jobtop.core.measure.collectors.docker.finding import SHORT_ID
from jobtop.core.units import number_of, printable
from jobtop.lifecycle.containers.grace import grace_of

ACT_SECONDS = 10.0  # for an answer, beyond the grace period
MOST_AT_ONCE = 8
COLUMNS = (
    *(TableColumn("ENGINE"), TableColumn("ID"), TableColumn("NAME", widest=60)),
    *(TableColumn("STATE"), TableColumn("IMAGE", widest=60)),
)
DONE = {"stop": "stopped", "restart": "restarted", "pause": "paused", "resume": "resumed"}
Act = Callable[[Engine, str], None]

yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
grace_option = click.option(
    "--grace", type=Duration(), help="Time from SIGTERM to SIGKILL; by default that of the container, else 10s."
)


@click.command()
@names_options
@grace_option
@yes_option
@click.pass_obj
def stop(app: App, /, grace: float | None, **chosen: Any) -> int:
    """Stop containers: SIGTERM, and SIGKILL after the grace period. Asks first."""
    return act_on(app, "stop", lambda engine, key: engine.stop(key, grace_of(engine, key, grace)), **chosen)


@click.command()
@names_options
@grace_option
@yes_option
@click.pass_obj
def restart(app: App, /, grace: float | None, **chosen: Any) -> int:
    """Stop containers and start them again. Asks first."""
    return act_on(app, "restart", lambda engine, key: engine.restart(key, grace_of(engine, key, grace)), **chosen)


@click.command()
@names_options
@yes_option
@click.pass_obj
def pause(app: App, /, **chosen: Any) -> int:
    """Freeze all processes of containers. Asks first."""
    return act_on(app, "pause", Engine.pause, **chosen)


@click.command()
@names_options
@yes_option
@click.pass_obj
def resume(app: App, /, **chosen: Any) -> int:
    """Let paused containers run on. Asks first."""
    return act_on(app, "resume", Engine.unpause, **chosen)


def act_on(
    app: App, verb: str, act: Act, names: Sequence[str], project: str | None, engine_name: str | None, yes: bool
) -> int:
    """Act on all containers that are meant; exit code 125 if an engine refused one."""
    with containers_named(app, names, engine_name, project) as named:
        for _, container in named:
            refuse_jobs(app, verb, container.name, container.job_id)
        found = running_ones(app, named) if verb == "stop" else named
        if not found:
            return ExitCode.OK
        if not yes:
            confirm(verb, found)

        def done(pair: Found) -> str | None:
            engine, container = pair
            try:
                with Engine(engine.endpoint, ACT_SECONDS) as own:
                    act(own, container.id)
            except EngineError as error:
                return str(error)
            return None

        with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
            is_refused = False
            for (engine, container), problem in zip(found, pool.map(done, found), strict=True):
                if problem is None:
                    print(f"{DONE[verb]} {engine.endpoint.name}/{printable(container.name)}", flush=True)
                else:
                    is_refused = True
                    app.warn(f"{container.name} was not {DONE[verb]}: {problem}")
        return ExitCode.FAILED if is_refused else ExitCode.OK


def running_ones(app: App, found: Sequence[Found]) -> list[Found]:
    """Return the containers that run; say of each other one that there is nothing to stop."""
    for _, container in found:
        if not container.is_alive:
            app.warn(f"{printable(container.name)} does not run: it is {printable(container.state)}")
    return [(engine, container) for engine, container in found if container.is_alive]


def refuse_jobs(app: App, verb: str, name: str, job_id: str | None) -> None:
    """UsageError for the container of a job that runs here: acting on the job keeps its record right."""
    if not is_job_id(job_id) or job_id is None:
        return
    try:
        _, job = app.find(job_id)
    except JobtopError:
        return  # a job of another store
    if not job.status.ended and job.host == app.paths.host:
        other = "stop" if verb == "restart" else verb
        raise UsageError(f"{name} is the container of job {job_id[:8]}: jobtop {other} {job_id[:8]}")


def confirm(verb: str, found: Sequence[Found]) -> None:
    """List the containers and ask on the terminal; exit with 1 after a no, UsageError without a terminal."""
    rows = (
        (engine.endpoint.name, each.id[:SHORT_ID], each.name, each.state, each.image or each.image_id or "")
        for engine, each in found
    )
    print_error(table(COLUMNS, rows))
    count = number_of(len(found), "container")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"add --yes to {verb} {'it' if len(found) == 1 else 'them'} without being asked")
    if not click.confirm(f"{verb.capitalize()} {count}?", default=False, err=True):
        print_error("jobtop: nothing was changed")
        raise click.exceptions.Exit(ExitCode.BAD_ANSWER)
