"""`jobtop agent`: starts, stops and describes the background process that runs queued and monitors detached jobs."""

import os
import shlex
import signal
import sys
import time
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.text.tables import format_options, print_records
from jobtop.core.clock import iso
from jobtop.core.errors import ExitCode, UsageError
from jobtop.core.measure.collectors.proc import identify, is_alive, send
from jobtop.core.model import SCHEMA_VERSION, Identity
from jobtop.core.units import format_duration, number_of
from jobtop.lifecycle.agent_lock import agent_command, is_taken, lock_path, start_agent
from jobtop.store.agents import Registered, registered
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs

START_SECONDS, STOP_SECONDS = 10.0, 15.0
POLL_SECONDS = 0.02
UNIT = """\
[Unit]
Description=jobtop's agent: runs queued jobs and monitors detached ones

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
    """The background process that runs queued jobs and monitors detached ones.

    It is started when it is needed and exits when there has been nothing to do for a while (agent.idle). Without a
    subcommand, print its status.
    """
    return ExitCode.OK if ctx.invoked_subcommand is not None else ctx.invoke(status, style="table")


@agent.command()
@click.pass_obj
def start(app: App) -> int:
    """Start the agent now, if none is running."""
    refuse_inside_job(app)
    database = app.store_to_write()
    current_agent = registered(database)
    if current_agent is not None and app.sets:
        app.warn(
            f"agent {current_agent.identity.pid} already runs, with its own settings: jobtop agent stop, then start"
        )
    if current_agent is None:
        current_agent = wait_for_agent(app, database, identify(start_agent(app.paths, app.sets)))
        if current_agent is None:
            app.warn("the previous agent has not exited yet: the next one takes over then (jobtop agent status)")
            return ExitCode.BAD_ANSWER
    print(f"agent {current_agent.identity.pid} serves {app.paths.store}")
    return ExitCode.OK


@agent.command(short_help="Stop the agent; running jobs go on.")
@click.pass_obj
def stop(app: App) -> int:
    """Stop the agent; running jobs go on, queued jobs wait until an agent runs again."""
    database = app.store_to_write() if app.has_store() else None
    current_agent = None if database is None else registered(database)
    if database is None or current_agent is None:
        app.warn("no agent is running")
        return ExitCode.OK
    send(current_agent.identity, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while is_alive(current_agent.identity):
        if time.monotonic() > deadline:
            app.warn(f"agent {current_agent.identity.pid} does not exit")
            return ExitCode.BAD_ANSWER
        time.sleep(POLL_SECONDS)
    if waiting := dict(Jobs(database).live_counts(app.paths.host)).get("queued"):
        app.warn(f"{number_of(waiting, 'job waits', 'jobs wait')} until an agent runs again: jobtop agent start")
    return ExitCode.OK


@agent.command()
@format_options
@click.pass_obj
def status(app: App, style: str) -> int:
    """Print whether an agent runs, and how many jobs run or wait. Exit code 1 if there is none."""
    database = app.store_to_write() if app.has_store() else None
    current_agent = registered(database) if database is not None else None
    counts = {} if database is None else dict(Jobs(database).live_counts(app.paths.host))
    running = counts.get("running", 0) + counts.get("paused", 0)
    if style != "table":
        record: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "pid": None if current_agent is None else current_agent.identity.pid,
            "running": running,
            "queued": counts.get("queued", 0),
            "since": None if current_agent is None else iso(current_agent.since),
        }
        print_records(style, [record], single=True)
    elif current_agent is None:
        print(f"no agent; {running} running, {counts.get('queued', 0)} queued")
    else:
        age = format_duration(max(0.0, time.time() - current_agent.since))
        print(f"agent {current_agent.identity.pid} for {age}; {running} running, {counts.get('queued', 0)} queued")
    return ExitCode.OK if current_agent is not None else ExitCode.BAD_ANSWER


@agent.command(short_help="Run the agent in the foreground, as systemd needs it.")
@click.pass_obj
def run(app: App) -> int:
    """Run the agent in the foreground, for systemd and other supervisors."""
    refuse_inside_job(app)
    os.chdir("/")  # it serves jobs of all projects
    from jobtop.lifecycle.agent import Agent

    if not Agent(app.paths, app.config, app.sets).serve():
        app.warn(f"another agent serves {app.paths.store} (jobtop agent status)")
        return ExitCode.BAD_ANSWER
    return ExitCode.OK


@agent.command(short_help="Print a systemd unit that keeps an agent running.")
@click.pass_obj
def unit(app: App) -> int:
    """Print a systemd unit that keeps an agent running: save it as ~/.config/systemd/user/jobtop.service."""
    command = " ".join(shlex.quote(word).replace("%", "%%") for word in agent_command(app.paths, app.sets))
    sys.stdout.write(UNIT.format(command=command))
    return ExitCode.OK


def refuse_inside_job(app: App) -> None:
    if "JOBTOP_JOB_ID" in app.environ:
        raise UsageError("an agent cannot be a part of a job: start it outside")


def wait_for_agent(app: App, database: Database, started: Identity) -> Registered | None:
    """Return the agent just started, or one that started at the same time; None while a previous one is exiting."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        has_given_up = not is_alive(started) or time.monotonic() > deadline
        current_agent = registered(database)
        if current_agent is not None:
            return current_agent
        if has_given_up and is_taken(lock_path(app.paths, app.config.switch("store.network"))):
            return None
        if has_given_up:
            raise UsageError("the agent exited at once: jobtop agent run says why, or agent.idle is too short")
        time.sleep(POLL_SECONDS)
