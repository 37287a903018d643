"""What `jobtop run` does: a command under its shim, in the foreground or detached. Without click: see options.py."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from contextlib import suppress

from jobtop.cli.app import App, current_directory
from jobtop.cli.monitoring import Monitoring
from jobtop.cli.options import MONITOR_SETTINGS, read_run
from jobtop.core import evidence
from jobtop.core.collectors.proc import cpus_allowed, identify
from jobtop.core.errors import BadValue, ExitCode, StartError, StoreUnavailable
from jobtop.core.evidence import Facts
from jobtop.core.foreground import Foreground, in_background, open_terminal
from jobtop.core.model import Job, JobSpec, Limits, Monitor, Status, Usage
from jobtop.core.record import replace
from jobtop.core.redact import redact_command, redact_mapping
from jobtop.core.runner import Supervisor, Terminal, job_environment
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from jobtop.core.config import Config
    from jobtop.store.recorder import Recorder

SHIM_SECONDS = 2.0
INTERPRETERS = ("python", "pypy", "bash", "sh", "zsh", "perl", "ruby", "node", "Rscript", "julia", "lua")


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
    supervisor = app.supervisor or new_supervisor(terminal)
    job, spec = prepare(app, supervisor.job_id, command, options)
    monitoring = Monitoring(app, job.id, options["report"])
    from jobtop.store.reconcile import sweep_specs
    from jobtop.store.recorder import Recorder

    problems: list[str] = []
    recorder = Recorder(app.paths, app.config.switch("store.network"), problems.append if spec.detached else app.warn)
    recorder.begin(replace(job, recorder=identify(os.getpid())), spec)
    if spec.detached:
        if recorder.directory is None:
            raise StoreUnavailable(f"a detached job needs a place for its output: {problems[0]}")
        for problem in problems:
            app.warn(problem)
        return detach(app, supervisor, recorder, spec, with_cgroup)
    gc.enable()
    with Foreground(supervisor, spec.grace_seconds, recorder.stop_requested, recorder.paused) as foreground:
        heard = supervisor.begin(spec, recorder.directory, with_cgroup, with_stdin=not in_background())
        if heard is not None and "exec_error" not in heard:
            monitoring.begun = evidence.started(heard)
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
    told = foreground.told_to_stop(ended_at)
    if told == signal.SIGINT and os.isatty(2):
        # A shell goes on with its loop or list unless what it ran died of the Ctrl-C.
        signal.signal(told, signal.SIG_DFL)
        os.kill(os.getpid(), told)
    return 128 + told if told is not None else exit_code(job, heard)


def monitor_sets(options: dict[str, Any]) -> list[str]:
    """The options that are short for settings."""
    sets = [f"{key}={options[name]}" for name, key in MONITOR_SETTINGS.items() if options[name] is not None]
    return [*sets, "monitor.enabled=false"] if options["no_monitor"] else sets


def new_supervisor(terminal: Terminal | None) -> Supervisor:
    try:
        return Supervisor(terminal)
    except OSError as error:
        raise StartError(f"cannot start {sys.executable}: {os.strerror(error.errno or 0)}") from error


def detach(app: App, supervisor: Supervisor, recorder: Recorder, spec: JobSpec, with_cgroup: bool) -> int:
    """Start the job and leave it to its shim."""
    heard = supervisor.begin(spec, recorder.directory, with_cgroup, with_stdin=False)
    if heard is None or "exec_error" in heard:
        job = recorder.finish(heard)
        conclude(app, job, None, quiet=False)
        return exit_code(job, heard)
    print(spec.id, flush=True)
    recorder.started(evidence.started(heard))
    recorder.detached()
    recorder.close()
    return ExitCode.OK


def exit_code(job: Job, ended: Facts | None) -> int:
    if ended is None or ("output_error" in ended and job.exit_code == 0):
        return ExitCode.FAILED
    return evidence.exit_code(job)


def conclude(app: App, job: Job, record: str | None, quiet: bool) -> None:
    """The summary, the record if one was asked for, and a line in the log."""
    from jobtop.cli.summary import summary
    from jobtop.core import journal

    if record is not None:
        write_record(app, job, record)
    level, line = journal.outcome(job)
    with suppress(OSError):  # said already by the recorder
        journal.write(app.paths.log, level, line)
    if app.verbose:
        app.warn(f"{level} {line}")
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
    check_record_path(options["record"])
    for name in ("record", "pty", "report"):
        if options["detach"] and options[name]:
            raise BadValue(f"--{name} needs somebody to stay with the job: not with --detach")


def working_directory(chosen: str | None) -> str:
    here = current_directory()
    if here is None and not os.path.isabs(chosen or ""):
        raise BadValue("the current directory was removed: give --cwd DIR")
    return os.path.normpath(os.path.join(here or "/", chosen or ""))


def prepare(app: App, job_id: str, command: tuple[str, ...], options: dict[str, Any]) -> tuple[Job, JobSpec]:
    """Everything about the job before it exists."""
    cwd = working_directory(options["cwd"])
    words = ("/bin/sh", "-c", " ".join(command)) if options["shell"] else command
    config = app.config
    secret = config.texts("run.redact")
    shown = tuple(redact_command(list(words), secret))
    script, program = script_of(shown), os.path.basename(shown[0])
    limits = Limits(
        cpus=options["cpus"],
        memory_bytes=options["memory"],
        runtime_seconds=options["runtime"],
        gpus=options["gpus"],
        timeout_seconds=options["timeout"] or None,
    )
    grace = options["grace"] if options["grace"] is not None else config.duration("run.grace")
    job = Job(
        id=job_id,
        name=options["name"] or default_name(shown, script, options["shell"]),
        command=shown,
        host=app.paths.host,
        user=user_name(),
        cwd=cwd,
        status=Status.RUNNING,
        external_id=options["external_id"],
        parent_id=app.environ.get("JOBTOP_JOB_ID"),
        tool=options["tool"] or program,
        script=script,
        params=redact_mapping({key: typed(value) for key, value in options["param"]}, secret),
        tags=dict(options["tag"]),
        note=options["note"],
        submitted_at=time.time(),
        limits=limits,
        usage=Usage(cpus_allowed=cpus_allowed()),
        monitor=Monitor(interval_seconds=sampling_seconds(config)),
        grace_seconds=grace,
    )
    spec = JobSpec(
        id=job_id,
        command=tuple(words),
        cwd=cwd,
        env=job_environment(dict(options["env"]), job_id),
        grace_seconds=grace,
        after_exit=options["after_exit"] or config.text("run.after_exit"),
        log_max_bytes=config.size("run.log_max"),
        timeout_seconds=options["timeout"] or None,
        pty=options["pty"] and not options["detach"],
        detached=options["detach"],
    )
    return job, spec


def sampling_seconds(config: Config) -> float | None:
    """How often the job will be sampled at first; None: not at all."""
    if not config.boolean("monitor.enabled"):
        return None
    return config.interval("monitor.interval") or 1.0


def script_of(command: tuple[str, ...]) -> str | None:
    """The script an interpreter is given, if the command looks like that."""
    program = os.path.basename(command[0]).rstrip("0123456789.")
    if program not in INTERPRETERS:
        return None
    for word in command[1:]:
        if word in ("-c", "-m", "-e", "-"):
            return None
        if not word.startswith("-"):
            return word
    return None


def default_name(command: tuple[str, ...], script: str | None, shell: bool) -> str:
    """The script without its suffix, else the program, else the first word of the shell's command line."""
    if script is not None:
        return os.path.splitext(os.path.basename(script))[0] or script
    if shell:
        return printable((command[2].split() or ["sh"])[0])
    return os.path.basename(command[0]) or command[0]


def typed(value: str) -> str | int | float | bool:
    """A parameter as a number or a truth value if it is one, else as text; 1.10 stays what it is, a version."""
    if value in ("true", "false"):
        return value == "true"
    for kind in (int, float):
        try:
            number = kind(value)
        except ValueError:
            continue
        if abs(number) < float("inf") and (str(number) == value or "e" in value.lower()):
            return number
    return value


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


def user_name() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
