"""`jobtop run`: runs a command under a shim, in the foreground or detached. Does not use click: see options.py."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress

from jobtop.cli.app import App, current_directory
from jobtop.cli.failure import print_error
from jobtop.cli.run.options import CONTAINER_KEYS, MONITOR_SETTINGS, RUN, misplaced_option, parse_run
from jobtop.core.errors import BadValue, ExitCode, StartError
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.model import Job, Limits, Status
from jobtop.core.procfs import CALL_FOR_AGENT
from jobtop.core.procfs import signals as signal
from jobtop.core.record import replace
from jobtop.core.run import outcome
from jobtop.core.run.facts import Facts
from jobtop.core.run.foreground import Foreground, in_background, set_up_terminal, terminal_descriptors
from jobtop.core.run.request import Request, prepare, typed
from jobtop.core.run.supervisor import Supervisor, Terminal, open_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from jobtop.cli.run.options import Option
    from jobtop.lifecycle.foreground_job import Host

SHIM_SECONDS = 2.0
LEAST_MEMORY_BYTES = 1024 * 1024
TOOL_CALL = "tool_call"  # among the options: the tool of the configuration that is called, and its script
CONTROLLING = "controlling"  # the job gets all keys, and a session of its own
PLAIN = "plain"  # output appears at once, and keys such as Ctrl-C mean what they mean without it


def run_from_arguments(arguments: Sequence[str], supervisor: Supervisor | None) -> int | None:
    """Run the job that the arguments describe; None if click has to parse them."""
    parsed = parse_run(arguments)
    if parsed is None:
        return None
    return run(App((), False, "auto", os.environ, supervisor), parsed[1], parsed[0])


def run(app: App, command: tuple[str, ...], options: dict[str, Any]) -> int:
    """Run the command, record what it used, return the exit code."""
    app.sets = (*app.sets, *monitor_settings(options))
    options = with_called_tool(app, RUN, command, options)
    check_options(command, options)
    warn_of_misplaced_option(app, command, options)
    with_cgroup = "cgroup" not in app.config.texts("monitor.without")
    request = with_image(app, make_request(app, command, options), options)
    use = terminal_use(app, request, options)
    supervisor = with_terminal(app.supervisor, use)
    request = replace(request, pty=use is not None and supervisor.terminal is not None)
    if options["pty"] and not request.pty and not request.detached:
        raise StartError("--pty: this machine has no pseudo-terminal to give (is /dev/pts mounted?)")
    if request.detached:
        return detach(app, supervisor, request)
    if os.isatty(0) and os.isatty(1) and use is not CONTROLLING and wants_console(app, options):
        from jobtop.cli.run.attended import run_in_console

        return run_in_console(app, supervisor, request, options)
    if use is PLAIN and supervisor.terminal is not None:
        supervisor.terminal.replaced, supervisor.terminal.is_controlling = terminal_descriptors(), False
    job, spec = prepare(request, supervisor.job_id, app.paths.host, app.config)
    from jobtop.lifecycle.foreground_job import Monitoring, pausing_of, run_to_end
    from jobtop.lifecycle.kinds.kind import Order
    from jobtop.lifecycle.recorder import Recorder
    from jobtop.lifecycle.spec_files import sweep_specs

    recorder = Recorder(app.paths, app.config.switch("store.network"), app.warn, app.config.texts("run.redact"))
    monitoring = Monitoring(host_of(app, options["report"]), recorder, job.id)
    recorder.begin(replace(job, recorder=identify(os.getpid())), spec)
    gc.freeze()  # nothing that exists by now is garbage: do not look through it
    gc.enable()
    if job.parent_id is None:
        signal.signal(CALL_FOR_AGENT, lambda *_: start_agent(app))
    with Foreground(
        supervisor, spec.grace_seconds, recorder.stop_requested, recorder.paused, pausing_of(recorder)
    ) as foreground:
        successor = recorder.successor(app.sets)
        order = Order(spec, recorder.directory, with_cgroup, not in_background(), successor, supervisor)
        job, ended_at, shim_report = run_to_end(order, recorder, foreground, monitoring)
    app.verbose |= options["verbose"]
    if job.parent_id is not None and job.settled:
        supervisor.wait(SHIM_SECONDS)  # otherwise the outer job would see our shim as left running
    report_outcome(app, job, options["record"], options["quiet"])
    monitoring.close(job)
    recorder.close()
    sweep_specs(app.paths, app.config.number("store.spec_days"))
    stop_signal = foreground.stop_signal(ended_at)
    if stop_signal is not None and stop_signal == signal.SIGINT and os.isatty(2):
        # A shell stops its loop or list only if the command died of SIGINT.
        signal.signal(stop_signal, signal.SIG_DFL)
        os.kill(os.getpid(), stop_signal)
    code = 128 + stop_signal if stop_signal is not None else exit_code(job, shim_report)
    return failing_on(app, job, code, options)


def with_image(app: App, request: Request, options: dict[str, Any]) -> Request:
    """Return the request; if it is for a container, with an engine that has the image."""
    if request.container is None:
        return request
    from jobtop.cli.run.containers import with_ready_image

    return with_ready_image(app, request, bool(options["quiet"]))


def host_of(app: App, report_seconds: float | None) -> Host:
    """Return what the job needs of this process."""
    from jobtop.lifecycle.foreground_job import Host

    def on_alert(severity: str, rule: str, text: str) -> None:
        from jobtop.cli.run.progress_lines import print_alert

        print_alert(severity, rule, text)

    host = Host(app.paths, app.config, app.environ, app.warn, on_alert)
    if report_seconds is None:
        return host
    from jobtop.cli.run.progress_lines import print_report

    return replace(host, on_report=print_report, report_seconds=report_seconds)


def failing_on(app: App, job: Job, code: int, options: dict[str, Any]) -> int:
    """Return the exit code, which --fail-on may change."""
    if options["fail_on"] is None:
        return code
    from jobtop.cli.run.fail_on import with_alerts

    return with_alerts(app, job, code, options["fail_on"])


def with_called_tool(
    app: App, rows: Sequence[Option], words: tuple[str, ...], options: dict[str, Any]
) -> dict[str, Any]:
    """Return the options; if the words call a tool of the configuration, with that call and the options in them."""
    if not words or "--" in sys.argv or options["like"] is not None or not app.config.tools:
        return options
    from jobtop.cli.run.tools import with_called_tool

    return with_called_tool(app, rows, words, options)


def warn_of_misplaced_option(app: App, command: tuple[str, ...], options: dict[str, Any]) -> None:
    """Warn if an option of ours stands behind the command, which gets it, and nothing says that this is meant."""
    name = None if options.get(TOOL_CALL) is not None else misplaced_option(command, sys.argv)
    if name is not None:
        app.warn(f"{name} went to {command[0]}; put it before the command, or -- before the command if that is right")


def start_agent(app: App) -> None:
    """Start an agent at the request of our job: an agent that the job started would be a member of the job."""
    from jobtop.lifecycle import agent_lock

    with suppress(OSError, StartError):  # the caller reports that no agent came
        agent_lock.start_agent(app.paths)


def terminal_use(app: App, request: Request, options: dict[str, Any]) -> str | None:
    """Return how the job uses a terminal of its own; None if it has none."""
    setting = app.config.text("run.pty")
    if options["detach"] or options["no_pty"] or (setting == "never" and not options["pty"]):
        return None
    if options["pty"] or (setting == "always" and not os.isatty(1)):
        return CONTROLLING
    if not os.isatty(1):
        return None
    from jobtop.core.run.interactive import takes_over_terminal

    has_keys = os.isatty(0) and not in_background()
    return CONTROLLING if has_keys and not request.is_shell and takes_over_terminal(request.command) else PLAIN


def with_terminal(early: Supervisor | None, use: str | None) -> Supervisor:
    """Return the shim that was started early, or a new one if there is none or it lacks a terminal."""
    if early is not None and use is not None and early.terminal is None:
        early.close()
        early = None
    supervisor = early or late_supervisor(open_terminal() if use is not None else None)
    if use is not None and supervisor.terminal is not None:
        set_up_terminal(supervisor.terminal)
    return supervisor


def wants_console(app: App, options: dict[str, Any]) -> bool:
    """Return whether to open the console: only if a user can see it, and the job does not need the terminal."""
    choice = "never" if options["no_ui"] else app.config.text("run.ui")
    if choice == "never" or options["pty"] or options["report"] is not None:
        return False
    is_in_job = "JOBTOP_JOB_ID" in app.environ
    return app.environ.get("TERM", "dumb") != "dumb" and not in_background() and (choice == "always" or not is_in_job)


def monitor_settings(options: dict[str, Any]) -> list[str]:
    """Return the settings, as KEY=VALUE, that the monitoring options stand for."""
    sets = [f"{key}={options[name]}" for name, key in MONITOR_SETTINGS.items() if options[name] is not None]
    return [*sets, "monitor.enabled=false"] if options["no_monitor"] else sets


def late_supervisor(terminal: Terminal | None) -> Supervisor:
    """Start a shim now, where the fast path could not start one early; StartError says why it cannot."""
    from jobtop.lifecycle.start import new_supervisor

    return new_supervisor(terminal)


def detach(app: App, supervisor: Supervisor, request: Request) -> int:
    """Start the job detached and print its id; return the exit code."""
    from jobtop.lifecycle.start import start_detached

    job, shim_report = start_detached(supervisor, app.paths, app.config, request, app.warn, print_job_id)
    if shim_report is None or "exec_error" in shim_report:
        report_outcome(app, job, None, quiet=False)
        return exit_code(job, shim_report)
    return ExitCode.OK


def print_job_id(job_id: str) -> None:
    print(job_id, flush=True)


def exit_code(job: Job, ended: Facts | None) -> int:
    is_unknown = ended is None and job.exit_code is None and job.signal is None
    if is_unknown or (ended is not None and "output_error" in ended and job.exit_code == 0):
        return ExitCode.FAILED
    return outcome.exit_code(job)


def report_outcome(app: App, job: Job, record: str | None, quiet: bool) -> None:
    """Write the outcome to jobtop's log, then print it."""
    from jobtop.core import journal

    level, line = journal.outcome(job)
    with suppress(OSError):  # the recorder has warned already
        journal.write(app.paths.names.log, level, line)
    if app.verbose:
        app.warn(f"{level} {line}")
    print_outcome(app, job, record, quiet)


def print_outcome(app: App, job: Job, record: str | None, quiet: bool) -> None:
    """Print the summary, and write the record if --record asks for it."""
    from jobtop.cli.run.summary import summary

    if record is not None:
        write_record(app, job, record)
    if job.status in (Status.ERROR, Status.LOST):
        app.warn(f"{job.reason}" + (f" (job {job.id[:8]})" if job.status is Status.LOST else ""))
    elif not quiet and os.isatty(1) and not os.isatty(2):
        print(summary(job, app.uses_color(1), cost_text(app, job)))  # standard error was redirected for the job
    elif not quiet:
        print_error(summary(job, app.uses_color(2), cost_text(app, job)))


def cost_text(app: App, job: Job) -> str | None:
    """Return what the job cost, if the user has configured that and it is known."""
    if not any(key.startswith("cost.") for key in app.config.entries):
        return None
    from jobtop.core.analysis.cost import cost_of
    from jobtop.core.text.cost_text import cost_parts

    return ", ".join(cost_parts(cost_of(job, app.prices))) or None


def write_record(app: App, job: Job, path: str) -> None:
    import json

    from jobtop.core.analysis.cost import cost_of

    record = job.to_json() | {"cost": cost_of(job, app.prices).to_json()}
    try:
        with open(path, "w") as file:
            file.write(json.dumps(record, indent=2) + "\n")
    except OSError as error:
        app.warn(f"cannot write the record to {path}: {os.strerror(error.errno or 0)}")


def check_options(command: tuple[str, ...], options: dict[str, Any]) -> None:
    """Raise BadValue for options that cannot work, before anything is started."""
    is_new = options["like"] is None
    if not command and is_new and options["image"] is None:
        raise BadValue("no command given: jobtop run [OPTIONS] -- COMMAND [ARGUMENT…]")
    if (is_new or options["cwd"] is not None) and not os.path.isdir(working_directory(options["cwd"])):
        raise BadValue(f"--cwd {options['cwd']}: there is no such directory")
    for key in CONTAINER_KEYS:
        if options[key] and is_new and options["image"] is None:
            raise BadValue(f"--{key} is for containers: give --image IMAGE too")
    if options["enforce"] and is_new and not (options["memory"] or options["cpus"]):
        raise BadValue("--enforce: there is nothing to enforce; give --memory SIZE, --cpus N or both")
    if options["enforce"] and 0 < (options["memory"] or 0) < LEAST_MEMORY_BYTES:
        raise BadValue("--enforce: no process can start with so little --memory; give at least 1M")
    if options["pty"] and options["no_pty"]:
        raise BadValue("--pty and --no-pty cannot be combined")
    check_record_path(options["record"])
    for name in ("record", "pty", "report"):
        if options["detach"] and options[name]:
            raise BadValue(f"--{name} cannot be combined with --detach, because jobtop then exits at once")


def working_directory(chosen: str | None) -> str:
    here = current_directory()
    if here is None and not os.path.isabs(chosen or ""):
        raise BadValue("the current directory was removed: give --cwd DIR")
    return os.path.normpath(os.path.join(here or "/", chosen or ""))


def make_request(app: App, command: tuple[str, ...], options: dict[str, Any]) -> Request:
    """Return the request that the command and the options describe."""
    if options["like"] is not None:
        from jobtop.cli.run.again import request_like

        return request_like(app, command, options)
    cwd, container = working_directory(options["cwd"]), None
    if options["image"] is not None:
        from jobtop.cli.run.containers import new_order

        container = new_order(app, options, cwd)
    request = Request(
        command=command,
        cwd=cwd,
        kind="process" if container is None else "container",
        container=container,
        is_shell=options["shell"],
        **{key: options[key] for key in ("name", "tool", "note", "external_id", "after_exit")},
        env=dict(options["env"]) if container is None else {},
        params={key: typed(value) for key, value in options["param"]},
        tags=dict(options["tag"]),
        parent_id=app.environ.get("JOBTOP_JOB_ID"),
        limits=Limits(
            cpus=options["cpus"],
            memory_bytes=options["memory"],
            runtime_seconds=options["runtime"],
            gpus=options["gpus"],
            timeout_seconds=options["timeout"] or None,
            enforced=options["enforce"] if container is None else holds_limits(options),
            pids=options["pids"],
        ),
        grace_seconds=options["grace"],
        detached=options["detach"],
        nice=options["nice"],
        ionice=options["ionice"],
    )
    if options.get(TOOL_CALL) is None:
        return request
    from jobtop.lifecycle.tools import with_tool

    tool, script = options[TOOL_CALL]
    return with_tool(request, tool, script, app.environ, bool(options.get("force")))


def holds_limits(options: dict[str, Any]) -> bool:
    """Return whether a container has a limit, which its engine then enforces."""
    return bool(options["memory"] or options["cpus"] or options["pids"])


def check_record_path(path: str | None) -> None:
    """Raise BadValue if the record could not be written after the job."""
    if path is None:
        return
    parent = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise BadValue(f"--record {path}: it is a directory; give the name of a file")
    if not os.path.isdir(parent):
        raise BadValue(f"--record {path}: there is no directory {parent}")
    if not os.access(path if os.path.exists(path) else parent, os.W_OK):
        raise BadValue(f"--record {path}: it cannot be written")
