"""The options of `run`, one row each, and a parser for them that does not need click.

Importing click would double the time of a short `run`. click builds the help, the completion and the error messages
from the same rows.
"""

from __future__ import annotations

from jobtop.core.errors import BadValue
from jobtop.core.record import record
from jobtop.core.run.request import (
    after_exit,
    cpus,
    gpus,
    image,
    ionice,
    memory,
    nice,
    pair,
    pids,
    pull,
    tag,
    timeout,
    variable,
)
from jobtop.core.units import parse_duration, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


def setting(key: str) -> Callable[[str], str]:
    """Return a parser that checks text as the value of a setting and returns it unchanged."""

    def check(text: str) -> str:
        from jobtop.core.config import check_setting

        return check_setting(key, text)

    return check


def report(text: str) -> float:
    """Parse the time between two lines of --report."""
    seconds = parse_duration(text)
    if seconds < 1:
        raise BadValue(f'"{printable(text)}" is too short: at least 1s')
    return seconds


def severity(text: str) -> str:
    """Check the severity of an alert."""
    if text not in ("info", "warning", "critical"):
        raise BadValue(f'"{printable(text)}" is not one of info, warning, critical')
    return text


@record
class Option:
    """One option; a flag if it has no metavar. `parse` turns the text of a value into the value."""

    name: str
    help: str
    metavar: str | None = None
    parse: Callable[[str], Any] = str
    repeated: bool = False
    short: str | None = None
    group: str | None = None  # the heading in the help; None: with the other options

    @property
    def key(self) -> str:
        return self.name.strip("-").replace("-", "_")


CONTAINERS = "Containers"
# Options that only work with --image; without it they are refused.
IN_CONTAINERS = (
    Option(
        "--volume",
        "Mount a directory or a volume; may be repeated.",
        "SOURCE:TARGET[:ro]",
        repeated=True,
        group=CONTAINERS,
    ),
    Option("--user", "The user in the container.", "U", group=CONTAINERS),
    Option("--workdir", "The working directory in the container.", "D", group=CONTAINERS),
    Option("--network", "The network of the container, such as none or host.", "N", group=CONTAINERS),
    Option("--entrypoint", "The program to run in place of the image's own entry point.", "E", group=CONTAINERS),
    Option("--pull", "When to pull the image (default missing).", "missing|always|never", pull, group=CONTAINERS),
    Option("--pids", "The most processes and threads at the same time.", "N", pids, group=CONTAINERS),
    Option("--keep", "Keep the container after its record is complete.", group=CONTAINERS),
    Option("--engine", "The engine: its address, or its name, such as podman.", "URL|NAME", group=CONTAINERS),
)
IMAGE = Option(
    "--image",
    "Run the command in a container of this image; --cpus, --memory, --gpus and --pids then hold.",
    "IMAGE",
    image,
    group=CONTAINERS,
)
RUN = (
    Option("--no-ui", "Do not open the console: output and exit code pass through."),
    Option("--detach", "Print the id and return; the job has no input and outlives the terminal."),
    Option("--like", "Use the command and options of an earlier job; options given here replace them.", "ID"),
    Option("--name", "The job's name; by default the script or the program.", "N"),
    Option("--tool", "The kind of job, by default the program; a [[tool]] of the settings runs a script.", "T"),
    Option("--tag", "A tag to find the job by; may be repeated.", "K[=V]", tag, True),
    Option("--param", "A parameter of the run; may be repeated.", "K=V", pair, True),
    Option("--note", "A note to read later.", "TEXT"),
    Option("--cwd", "The directory to run it in.", "DIR"),
    Option("--env", "An environment variable for the job; K alone takes its value of here.", "K[=V]", variable, True),
    Option("--external-id", "Your own id for the job; every verb accepts it.", "ID"),
    Option("--shell", "Run the command as one line of /bin/sh."),
    Option("--cpus", "Declare how many CPUs the job needs.", "N", cpus),
    Option("--memory", "Declare how much memory the job needs, such as 8G.", "SIZE", memory),
    Option("--runtime", "Declare how long the job takes, such as 1h30m.", "D", parse_duration),
    Option("--gpus", "Declare how many GPUs the job needs.", "N", gpus),
    Option("--enforce", "Enforce --memory and --cpus: by a cgroup where possible, else by frequent sampling."),
    Option("--nice", "The niceness, from -20 (first) to 19 (last).", "N", nice),
    Option("--ionice", "The I/O priority: idle, best-effort or realtime.", "CLASS[:0-7]", ionice),
    Option("--timeout", "Stop it after this time; exit code 124.", "D", timeout),
    Option("--grace", "The time between SIGTERM and SIGKILL when it is stopped (default 10s).", "D", parse_duration),
    Option(
        "--after-exit",
        "What to do with descendants that outlive the job (default leave).",
        "leave|wait|kill",
        after_exit,
    ),
    Option("--pty", "Give the job the whole terminal, as an editor or a shell needs it; implies --no-ui."),
    Option("--no-pty", "Give the job no terminal of its own, even if standard output is a terminal."),
    Option("--interval", "Time between samples, at least 0.1s, or auto.", "D", setting("monitor.interval")),
    Option(
        "--granularity",
        "Keep every sample, or only minima, means and peaks.",
        "time_series|summary",
        setting("monitor.granularity"),
    ),
    Option("--without", "What not to measure, such as pss,fds.", "LIST", setting("monitor.without")),
    Option("--no-monitor", "Take no samples: record only the totals."),
    Option("--report", "Print a [Resources] line to standard error at this interval.", "D", report),
    Option(
        "--fail-on",
        "Exit with 1 if the job succeeds, but an alert of this severity or a worse one has fired.",
        "info|warning|critical",
        severity,
    ),
    Option("--quiet", "Print no summary at the end."),
    Option("--record", "Write the finished record to this file as JSON.", "PATH"),
    Option("--verbose", "Print log lines to standard error too.", short="-v"),
    IMAGE,
    *IN_CONTAINERS,
)
CONTAINER_KEYS = tuple(option.key for option in IN_CONTAINERS)


# Options that other programs hardly have, and the programs that do have some of them.
SURELY_OURS = frozenset(
    "--no-ui --detach --like --external-id --memory --cpus --enforce --ionice --after-exit --no-monitor --granularity"
    " --no-pty".split()
)
PROGRAMS_WITH_SUCH_OPTIONS = frozenset(
    "jobtop docker podman nerdctl buildah singularity apptainer kubectl minikube kind k3d srun sbatch salloc scontrol"
    " systemd-run tmux screen nextflow snakemake cromwell".split()
)

MONITOR_SETTINGS = {name: f"monitor.{name}" for name in ("interval", "granularity", "without")}


def parse_run(arguments: Sequence[str]) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """Parse the arguments of `run`; None if click has to explain them."""
    return parse_arguments(RUN, arguments)


def parse_arguments(rows: Sequence[Option], arguments: Sequence[str]) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """Return the options and the command; None for what click has to explain. BadValue if a value does not parse."""
    by_name = {name: option for option in rows for name in (option.name, option.short)}
    values = {option.key: unset_value(option) for option in rows}
    index = 0
    while index < len(arguments) and arguments[index].startswith("-"):
        argument = arguments[index]
        index += 1
        if argument == "--":
            break
        name, has_value, text = argument.partition("=")
        option = by_name.get(name)
        if option is None or (option.metavar is None and has_value):
            return None
        if option.metavar is None:
            values[option.key] = True
            continue
        if not has_value:
            if index == len(arguments):
                return None
            text = arguments[index]
            index += 1
        value = parse_option_value(option, text)
        values[option.key] = (*values[option.key], value) if option.repeated else value
    return values, tuple(arguments[index:])


def misplaced_option(command: Sequence[str], arguments: Sequence[str]) -> str | None:
    """Return the first option behind the command that is surely meant for jobtop; None if there is none.

    `--` among all arguments of jobtop tells that the command has been set apart on purpose.
    """
    if "--" in arguments or not command or command[0].rpartition("/")[2] in PROGRAMS_WITH_SUCH_OPTIONS:
        return None
    names = (word.partition("=")[0] for word in command[1:])
    return next((name for name in names if name in SURELY_OURS), None)


def unset_value(option: Option) -> Any:
    """Return the value of an option that is not given."""
    return () if option.repeated else False if option.metavar is None else None


def parse_option_value(option: Option, text: str) -> Any:
    try:
        return option.parse(text)
    except BadValue as error:
        raise BadValue(f"{option.name}: {error}") from None
