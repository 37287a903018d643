"""What `jobtop run` does: a command under its shim, in the foreground or detached. Without click: see options.py."""

from __future__ import annotations

import gc
import os
import sys
import time
from contextlib import suppress

from jobtop.cli.app import App, current_directory
from jobtop.cli.run.monitoring import Monitoring
from jobtop.cli.run.options import MONITOR_SETTINGS, read_run
from jobtop.core.errors import BadValue, ExitCode, StartError
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.model import Job, Limits, Status
from jobtop.core.procfs import CALL_FOR_AGENT
from jobtop.core.procfs import signals as signal
from jobtop.core.record import replace
from jobtop.core.run import outcome
from jobtop.core.run.facts import Facts
from jobtop.core.run.foreground import Foreground, in_background, open_terminal
from jobtop.core.run.request import Request, prepare, typed
from jobtop.core.run.supervisor import Supervisor, Terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

SHIM_SECONDS = 2.0
LEAST_MEMORY_BYTES = 1024 * 1024


def run_words(words: Sequence[str], supervisor: Supervisor | None) -> int | None:
    """`run` with these words if they are in order; None if click has to explain."""
    read = read_run(words)
    if read is None:
        return None
    return run(App((), False, "auto", os.environ, supervisor), read[1], read[0])


def run(app: App, command: tuple[str, ...], options: dict[str, Any]) -> int:
    """Run the command and record what it cost; the exit code."""
    check(command, options)
    app.sets = (*app.sets, *monitor_sets(options))
    with_cgroup = "cgroup" not in app.config.texts("monitor.without")
    terminal = open_terminal() if options["pty"] and not options["detach"] else None
    supervisor = app.supervisor or late_supervisor(terminal)
    request = asked(app, command, options)
    if request.detached:
        return detach(app, supervisor, request)
    if os.isatty(0) and os.isatty(1) and wants_console(app, options):
        from jobtop.cli.run.attended import run_attended

        return run_attended(app, supervisor, request, options)
    job, spec = prepare(request, supervisor.job_id, app.paths.host, app.config)
    from jobtop.lifecycle.kinds.kind import Order
    from jobtop.lifecycle.kinds.registry import kind_of
    from jobtop.lifecycle.recorder import Recorder
    from jobtop.lifecycle.spec_files import sweep_specs

    recorder = Recorder(app.paths, app.config.switch("store.network"), app.warn)
    monitoring = Monitoring(app, recorder, job.id, options["report"])
    recorder.begin(replace(job, recorder=identify(os.getpid())), spec)
    gc.freeze()  # nothing that exists by now is garbage: do not look through it
    gc.enable()
    if job.parent_id is None:
        signal.signal(CALL_FOR_AGENT, lambda *_: start_agent(app))
    with Foreground(supervisor, spec.grace_seconds, recorder.stop_requested, recorder.paused) as foreground:
        successor = recorder.successor(app.sets)
        order = Order(spec, recorder.directory, with_cgroup, not in_background(), successor, supervisor)
        heard = kind_of(job).start(order).answer()
        if heard is not None and "exec_error" not in heard:
            monitoring.begun = heard.started()
            recorder.started(monitoring.begun)
            heard = foreground.wait(monitoring.begin)
        ended_at = time.time()
        job = recorder.finish(heard, monitoring.end())
    app.verbose |= options["verbose"]
    if job.parent_id is not None and job.settled:
        supervisor.wait(SHIM_SECONDS)  # or the outer job would find our shim left running
    conclude(app, job, options["record"], options["quiet"])
    monitoring.close()
    recorder.close()
    sweep_specs(app.paths, app.config.number("store.spec_days"))
    told = foreground.stop_signal(ended_at)
    if told is not None and told == signal.SIGINT and os.isatty(2):
        # A shell goes on with its loop or list unless what it ran died of the Ctrl-C.
        signal.signal(told, signal.SIG_DFL)
        os.kill(os.getpid(), told)
    return 128 + told if told is not None else exit_code(job, heard)


def start_agent(app: App) -> None:
    """A job that we run needs an agent: one that it started would be a part of it, and one of ours is not."""
    from jobtop.lifecycle import agent_lock

    with suppress(OSError, StartError):  # who called says that none came
        agent_lock.start_agent(app.paths)


def wants_console(app: App, options: dict[str, Any]) -> bool:
    """Whether the console is to show this job: if somebody sits there, and the job does not need the terminal."""
    wish = "never" if options["no_ui"] else app.config.text("run.ui")
    if wish == "never" or options["pty"] or options["report"] is not None:
        return False
    is_inside = "JOBTOP_JOB_ID" in app.environ
    return app.environ.get("TERM", "dumb") != "dumb" and not in_background() and (wish == "always" or not is_inside)


def monitor_sets(options: dict[str, Any]) -> list[str]:
    """The options that are short for settings."""
    sets = [f"{key}={options[name]}" for name, key in MONITOR_SETTINGS.items() if options[name] is not None]
    return [*sets, "monitor.enabled=false"] if options["no_monitor"] else sets


def late_supervisor(terminal: Terminal | None) -> Supervisor:
    from jobtop.lifecycle.start import new_supervisor

    return new_supervisor(terminal)


def detach(app: App, supervisor: Supervisor, request: Request) -> int:
    """Start the job and leave it to its shim."""
    from jobtop.lifecycle.start import start_detached

    job, heard = start_detached(supervisor, app.paths, app.config, request, app.warn, say)
    if heard is None or "exec_error" in heard:
        conclude(app, job, None, quiet=False)
        return exit_code(job, heard)
    return ExitCode.OK


def say(job_id: str) -> None:
    print(job_id, flush=True)


def exit_code(job: Job, ended: Facts | None) -> int:
    if ended is None or ("output_error" in ended and job.exit_code == 0):
        return ExitCode.FAILED
    return outcome.exit_code(job)


def conclude(app: App, job: Job, record: str | None, quiet: bool) -> None:
    """The summary, the record if one was asked for, and a line in the log."""
    from jobtop.core import journal

    level, line = journal.outcome(job)
    with suppress(OSError):  # said already by the recorder
        journal.write(app.paths.names.log, level, line)
    if app.verbose:
        app.warn(f"{level} {line}")
    tell(app, job, record, quiet)


def tell(app: App, job: Job, record: str | None, quiet: bool) -> None:
    """The summary, and the record if one was asked for."""
    from jobtop.cli.run.summary import summary

    if record is not None:
        write_record(app, job, record)
    if job.status in (Status.ERROR, Status.LOST):
        app.warn(f"{job.reason}" + (f" (job {job.id[:8]})" if job.status is Status.LOST else ""))
    elif not quiet:
        try:
            print(summary(job, app.colored(2)), file=sys.stderr, flush=True)
        except OSError:  # standard error is gone: nobody is listening
            return


def write_record(app: App, job: Job, path: str) -> None:
    import json

    try:
        with open(path, "w") as file:
            file.write(json.dumps(job.to_json(), indent=2) + "\n")
    except OSError as error:
        app.warn(f"cannot write the record to {path}: {os.strerror(error.errno or 0)}")


def check(command: tuple[str, ...], options: dict[str, Any]) -> None:
    """Say before anything is done what cannot be done."""
    if not command:
        raise BadValue("what is to be run? jobtop run [OPTIONS] -- COMMAND [ARGUMENT…]")
    if not os.path.isdir(working_directory(options["cwd"])):
        raise BadValue(f"--cwd {options['cwd']}: there is no such directory")
    if options["enforce"] and not (options["memory"] or options["cpus"]):
        raise BadValue("--enforce: there is nothing to enforce; say --memory SIZE, --cpus N or both")
    if options["enforce"] and 0 < (options["memory"] or 0) < LEAST_MEMORY_BYTES:
        raise BadValue("--enforce: nothing can be started with so little --memory; at least 1M")
    check_record_path(options["record"])
    for name in ("record", "pty", "report"):
        if options["detach"] and options[name]:
            raise BadValue(f"--{name} needs somebody to stay with the job: not with --detach")


def working_directory(chosen: str | None) -> str:
    here = current_directory()
    if here is None and not os.path.isabs(chosen or ""):
        raise BadValue("the current directory was removed: give --cwd DIR")
    return os.path.normpath(os.path.join(here or "/", chosen or ""))


def asked(app: App, command: tuple[str, ...], options: dict[str, Any]) -> Request:
    """What the words of `run` ask for."""
    return Request(
        command=command,
        cwd=working_directory(options["cwd"]),
        is_shell=options["shell"],
        **{key: options[key] for key in ("name", "tool", "note", "external_id", "after_exit")},
        env=dict(options["env"]),
        params={key: typed(value) for key, value in options["param"]},
        tags=dict(options["tag"]),
        parent_id=app.environ.get("JOBTOP_JOB_ID"),
        limits=Limits(
            cpus=options["cpus"],
            memory_bytes=options["memory"],
            runtime_seconds=options["runtime"],
            gpus=options["gpus"],
            timeout_seconds=options["timeout"] or None,
            enforced=options["enforce"],
        ),
        grace_seconds=options["grace"],
        pty=options["pty"] and not options["detach"],
        detached=options["detach"],
        nice=options["nice"],
        ionice=options["ionice"],
    )


def check_record_path(path: str | None) -> None:
    """Say before the job runs what would be too late to say after it."""
    if path is None:
        return
    parent = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise BadValue(f"--record {path}: it is a directory; give the name of a file")
    if not os.path.isdir(parent):
        raise BadValue(f"--record {path}: there is no directory {parent}")
    if not os.access(path if os.path.exists(path) else parent, os.W_OK):
        raise BadValue(f"--record {path}: it cannot be written")
