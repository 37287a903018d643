"""`jobtop run`: a command under its shim, in the foreground or detached."""

import os
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jobtop.cli.app import App
from jobtop.cli.values import Duration, KeyValue, Size
from jobtop.core import evidence
from jobtop.core.clock import cpus_allowed
from jobtop.core.collectors.proc import identify
from jobtop.core.errors import BadValue, ExitCode
from jobtop.core.evidence import Facts
from jobtop.core.foreground import Foreground, in_background, open_terminal
from jobtop.core.model import Job, JobSpec, Limits, Status, Usage
from jobtop.core.record import replace
from jobtop.core.redact import redact_command, redact_mapping
from jobtop.core.runner import Supervisor, job_environment
from jobtop.core.units import printable

if TYPE_CHECKING:
    from jobtop.store.recorder import Recorder

INTERPRETERS = ("python", "pypy", "bash", "sh", "zsh", "perl", "ruby", "node", "Rscript", "julia", "lua")


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--no-ui", is_flag=True, help="Stay headless: output and exit code pass through.")
@click.option("--detach", is_flag=True, help="Print the id and return; the job outlives the terminal.")
@click.option("--name", metavar="N", help="What to call the job; by default the script or the program.")
@click.option("--tool", metavar="T", help="What kind of job it is; by default the program.")
@click.option("--tag", "tags", type=KeyValue(), multiple=True, help="A tag to find it by; may be repeated.")
@click.option("--param", "params", type=KeyValue(), multiple=True, help="A parameter of the run; may be repeated.")
@click.option("--note", metavar="TEXT", help="A word for later.")
@click.option("--cwd", metavar="DIR", help="Where to run it.")
@click.option("--env", "env", type=KeyValue(), multiple=True, help="A variable for its environment; may be repeated.")
@click.option("--external-id", metavar="ID", help="Your own id for it; every verb finds it by that too.")
@click.option("--shell", is_flag=True, help="Hand the words to /bin/sh as one command line.")
@click.option("--cpus", type=float, metavar="N", help="Declare how many CPUs it asks for.")
@click.option("--memory", type=Size(), help="Declare how much memory it asks for, such as 8G.")
@click.option("--runtime", type=Duration(), help="Declare how long it should take, such as 1h30m.")
@click.option("--gpus", type=click.IntRange(0), metavar="N", help="Declare how many GPUs it asks for.")
@click.option("--timeout", type=Duration(), help="Stop it after this time; exit code 124.")
@click.option("--grace", type=Duration(), help="How long it may take to end after TERM before it is killed.")
@click.option(
    "--after-exit",
    type=click.Choice(["leave", "wait", "kill"]),
    help="What to do with descendants that outlive its main process.",
)
@click.option("--pty", is_flag=True, help="Give it a terminal of its own: progress bars, editors, pagers.")
@click.option("--quiet", is_flag=True, help="No summary at the end.")
@click.option("--record", metavar="PATH", help="Write the finished record there as JSON.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def run(app: App, /, command: tuple[str, ...], **options: Any) -> int:
    """Run COMMAND and record exactly what it cost, whatever it does with its children.

    Output, standard input, signals and the exit code pass through.
    """
    job, spec = prepare(app, command, options)
    terminal = open_terminal() if options["pty"] and not options["detach"] else None
    supervisor = Supervisor(terminal) if app.supervisor is None else app.supervisor
    with_cgroup = "cgroup" not in app.config.texts("monitor.without")
    from jobtop.store.recorder import Recorder

    recorder = Recorder(app.paths, app.config.switch("store.network"), app.warn)
    holder = [recorder.begin(replace(job, recorder=identify(os.getpid())), spec)]
    if options["detach"]:
        return detach(app, supervisor, recorder, holder[0], spec, with_cgroup)

    def stop_requested(number: int) -> None:
        holder[0] = recorder.stop_requested(holder[0], number)

    def paused(still: bool) -> None:
        holder[0] = recorder.paused(holder[0], still)

    with Foreground(supervisor, spec.grace_seconds, stop_requested, paused) as foreground:
        heard = supervisor.begin(spec, recorder.directory, with_cgroup, with_stdin=not in_background())
        if heard is not None and "exec_error" not in heard:
            holder[0] = recorder.started(holder[0], evidence.started(heard))
            heard = foreground.wait()
        ended_at = time.time()
        job = recorder.finish(holder[0], heard)
    conclude(app, job, options["record"], options["quiet"])
    told = foreground.told_to_stop(ended_at)
    return 128 + told if told is not None else exit_code(job, heard)


def detach(app: App, supervisor: Supervisor, recorder: "Recorder", job: Job, spec: JobSpec, with_cgroup: bool) -> int:
    """Start the job and leave it to its shim."""
    if recorder.directory is None:
        raise BadValue(f"a detached job needs a place for its output, and {app.paths.root} cannot be written")
    heard = supervisor.begin(spec, recorder.directory, with_cgroup, with_stdin=False)
    if heard is None or "exec_error" in heard:
        job = recorder.finish(job, heard)
        conclude(app, job, None, quiet=False)
        return exit_code(job, heard)
    recorder.detached(recorder.started(job, evidence.started(heard)))
    print(job.id)
    return ExitCode.OK


def exit_code(job: Job, ended: Facts | None) -> int:
    return ExitCode.FAILED if ended is None else evidence.exit_code(job)


def conclude(app: App, job: Job, record: str | None, quiet: bool) -> None:
    """The summary, the record if one was asked for, and a line in the log."""
    from jobtop.cli.summary import summary
    from jobtop.core import journal

    if record is not None:
        import json

        try:
            Path(record).write_text(json.dumps(job.to_json(), indent=2) + "\n")
        except OSError as error:
            app.warn(f"cannot write the record to {record}: {os.strerror(error.errno or 0)}")
    level, line = journal.outcome(job)
    with suppress(OSError):  # said already by the recorder
        journal.write(app.paths.log, level, line)
    if app.verbose:
        app.warn(f"{level} {line}")
    if job.status is Status.ERROR:
        app.warn(job.error or "the command could not be started")
    if not quiet and job.status is not Status.ERROR:
        try:
            print(summary(job, app.colored(2)), file=sys.stderr, flush=True)
        except OSError:  # standard error is gone: nobody is listening
            return


def prepare(app: App, command: tuple[str, ...], options: dict[str, Any]) -> tuple[Job, JobSpec]:
    """Everything about the job before it exists; what is wrong with the request is said here."""
    if not command:
        raise BadValue("what is to be run? jobtop run [OPTIONS] -- COMMAND [ARGUMENT…]")
    cwd = os.path.abspath(options["cwd"] or os.getcwd())
    if not os.path.isdir(cwd):
        raise BadValue(f"--cwd {options['cwd']}: there is no such directory")
    if options["record"] is not None and not Path(options["record"]).absolute().parent.is_dir():
        raise BadValue(f"--record {options['record']}: there is no such directory to write it to")
    if options["cpus"] is not None and not 0 <= options["cpus"] < 1e6:
        raise BadValue(f"--cpus {options['cpus']:g}: give a number of CPUs, such as 4 or 0.5")
    words = ("/bin/sh", "-c", " ".join(command)) if options["shell"] else command
    script = script_of(words)
    program = os.path.basename(words[0])
    config, job_id = app.config, str(uuid.uuid4())
    shown = tuple(redact_command(list(words), config.texts("run.redact")))
    limits = Limits(
        cpus=options["cpus"],
        memory_bytes=options["memory"],
        runtime_seconds=options["runtime"],
        gpus=options["gpus"],
        timeout_seconds=options["timeout"],
    )
    grace = options["grace"] if options["grace"] is not None else config.duration("run.grace")
    job = Job(
        id=job_id,
        name=options["name"] if options["name"] is not None else default_name(shown, script, options["shell"]),
        command=shown,
        host=app.paths.host,
        user=user_name(),
        cwd=cwd,
        status=Status.RUNNING,
        external_id=options["external_id"],
        parent_id=app.environ.get("JOBTOP_JOB_ID"),
        tool=options["tool"] or program,
        script=script,
        params=redact_mapping({key: typed(value) for key, value in options["params"]}),
        tags=dict(options["tags"]),
        note=options["note"],
        submitted_at=time.time(),
        limits=limits,
        usage=Usage(cpus_allowed=cpus_allowed()),
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
        timeout_seconds=options["timeout"],
        pty=options["pty"],
        detached=options["detach"],
    )
    return job, spec


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


def typed(value: str) -> Any:
    """A parameter as JSON reads it (0.1, true), else as text."""
    import json

    try:
        read = json.loads(value)
    except ValueError:
        return value
    return read if isinstance(read, int | float | bool) else value


def user_name() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
