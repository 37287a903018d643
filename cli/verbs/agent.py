"""`jobtop agent`: the process that watches jobs nobody stays with; it comes by itself, and can be kept by systemd."""

import os
import shlex
import signal
import sys
import time
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.text.tables import format_options, print_shapes
from jobtop.core.clock import iso
from jobtop.core.errors import ExitCode, UsageError
from jobtop.core.measure.collectors.proc import identify, is_alive, send
from jobtop.core.model import SCHEMA_VERSION, Identity
from jobtop.core.units import format_duration
from jobtop.lifecycle.agent_lock import agent_command, is_taken, lock_path, start_agent
from jobtop.store.agents import Registered, registered
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs

START_SECONDS, STOP_SECONDS = 10.0, 15.0
POLL_SECONDS = 0.02
UNIT = """\
[Unit]
Description=jobtop's agent: watches jobs, and starts those that wait

[Service]
ExecStart={command}
KillMode=process
Restart=on-failure

[Install]
WantedBy=default.target
"""


@click.group(invoke_without_command=True)
@click.pass_context
def agent(ctx: click.Context) -> int:
    """The process that watches jobs nobody stays with, and starts those that wait.

    It is started when it is needed and leaves when there has been nothing to do for a while (agent.idle). Without a
    word more: its status.
    """
    return ExitCode.OK if ctx.invoked_subcommand is not None else ctx.invoke(status, style="table")


@agent.command()
@click.pass_obj
def start(app: App) -> int:
    """Start it now, if there is none."""
    refuse_inside(app)
    with_store = app.store_to_write()
    there = registered(with_store)
    if there is not None and app.sets:
        app.warn(f"agent {there.who.pid} is there already, with settings of its own: jobtop agent stop, then again")
    if there is None:
        there = awaited(app, with_store, identify(start_agent(app.paths, app.sets)))
        if there is None:
            app.warn("the agent before has not left yet: the next one serves once it has (jobtop agent status)")
            return ExitCode.BAD_ANSWER
    print(f"agent {there.who.pid} serves {app.paths.store}")
    return ExitCode.OK


@agent.command()
@click.pass_obj
def stop(app: App) -> int:
    """Let it leave; jobs run on, and what waits goes on waiting until an agent is there again."""
    database = app.store_to_write() if app.has_store() else None
    there = None if database is None else registered(database)
    if database is None or there is None:
        app.warn("there is no agent")
        return ExitCode.OK
    send(there.who, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while is_alive(there.who):
        if time.monotonic() > deadline:
            app.warn(f"agent {there.who.pid} does not leave")
            return ExitCode.BAD_ANSWER
        time.sleep(POLL_SECONDS)
    if waiting := dict(Jobs(database).live_counts(app.paths.host)).get("queued"):
        jobs = "1 job waits" if waiting == 1 else f"{waiting} jobs wait"
        app.warn(f"{jobs} and will not start until an agent is there again: jobtop agent start")
    return ExitCode.OK


@agent.command()
@format_options
@click.pass_obj
def status(app: App, style: str) -> int:
    """Whether there is one, and what it has to do. Exit code 1 if there is none."""
    database = app.store_to_write() if app.has_store() else None
    there = registered(database) if database is not None else None
    counts = {} if database is None else dict(Jobs(database).live_counts(app.paths.host))
    running = counts.get("running", 0) + counts.get("paused", 0)
    if style != "table":
        shape: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "pid": None if there is None else there.who.pid,
            "running": running,
            "queued": counts.get("queued", 0),
            "since": None if there is None else iso(there.since),
        }
        print_shapes(style, [shape], single=True)
    elif there is None:
        print(f"no agent; {running} running, {counts.get('queued', 0)} queued")
    else:
        age = format_duration(max(0.0, time.time() - there.since))
        print(f"agent {there.who.pid} for {age}; {running} running, {counts.get('queued', 0)} queued")
    return ExitCode.OK if there is not None else ExitCode.BAD_ANSWER


@agent.command()
@click.pass_obj
def run(app: App) -> int:
    """Be the agent, in the foreground: for systemd and other supervisors."""
    refuse_inside(app)
    os.chdir("/")  # it serves jobs of all projects
    from jobtop.lifecycle.agent import Agent

    if not Agent(app.paths, app.config, app.sets).serve():
        app.warn(f"another agent serves {app.paths.store} (jobtop agent status)")
        return ExitCode.BAD_ANSWER
    return ExitCode.OK


@agent.command()
@click.pass_obj
def unit(app: App) -> int:
    """Print a unit for systemd that keeps one: save it as ~/.config/systemd/user/jobtop.service."""
    command = " ".join(shlex.quote(word).replace("%", "%%") for word in agent_command(app.paths, app.sets))
    sys.stdout.write(UNIT.format(command=command))
    return ExitCode.OK


def refuse_inside(app: App) -> None:
    if "JOBTOP_JOB_ID" in app.environ:
        raise UsageError("an agent cannot be a part of a job: start it outside")


def awaited(app: App, database: Database, started: Identity) -> Registered | None:
    """The agent that was just started, or another that came at the same time; None while one that leaves is there."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        is_over = not is_alive(started) or time.monotonic() > deadline
        there = registered(database)
        if there is not None:
            return there
        if is_over and is_taken(lock_path(app.paths, app.config.switch("store.network"))):
            return None
        if is_over:
            raise UsageError("the agent did not stay: jobtop agent run says why, or agent.idle is too short")
        time.sleep(POLL_SECONDS)
