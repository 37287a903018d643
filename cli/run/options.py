"""The options of `run`, one row each, and a reader for them that does without click.

click takes as long to import as the rest of a short `run` takes; it makes the help, the completion and the
complaints from the same rows.
"""

from __future__ import annotations

from jobtop.core.errors import BadValue
from jobtop.core.record import record
from jobtop.core.run.request import cpus, pair
from jobtop.core.units import parse_duration, parse_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn


def gpus(text: str) -> int:
    """A number of GPUs."""
    if not text.isascii() or not text.isdigit() or int(text) > 1_000_000:
        raise BadValue(f'"{printable(text)}" is not a number of GPUs, such as 2')
    return int(text)


def after_exit(text: str) -> str:
    """What becomes of descendants."""
    if text not in ("leave", "wait", "kill"):
        raise BadValue(f'"{printable(text)}" is not one of leave, wait, kill')
    return text


def nice(text: str) -> int:
    """A niceness this user may set."""
    from jobtop.core.run.priority import niceness

    return niceness(text)


def ionice(text: str) -> str:
    """A priority of I/O this user may set."""
    from jobtop.core.run.priority import io_class

    return io_class(text)


def setting(key: str) -> Callable[[str], str]:
    """The text of a setting, checked as if it were set elsewhere."""

    def read(text: str) -> str:
        from jobtop.core.config import check_setting

        return check_setting(key, text)

    return read


def memory(text: str) -> int:
    """How much memory; none at all is nothing to declare."""
    return parse_size(text) or _nothing(text)


def timeout(text: str) -> float:
    """After how long a job is stopped."""
    return parse_duration(text) or _nothing(text)


def _nothing(text: str) -> NoReturn:
    raise BadValue(f'"{printable(text)}" is nothing: leave it out for no limit')


def report(text: str) -> float:
    """A time between lines."""
    seconds = parse_duration(text)
    if seconds < 1:
        raise BadValue(f'"{printable(text)}" is too short: at least 1s')
    return seconds


@record
class Option:
    """One option: a flag if it has no metavar."""

    name: str
    help: str
    metavar: str | None = None
    read: Callable[[str], Any] = str
    repeated: bool = False
    short: str | None = None

    @property
    def key(self) -> str:
        return self.name.strip("-").replace("-", "_")


RUN = (
    Option("--no-ui", "Stay headless: output and exit code pass through."),
    Option("--detach", "Print the id and return; the job has no input and outlives the terminal."),
    Option("--name", "What to call the job; by default the script or the program.", "N"),
    Option("--tool", "What kind of job it is; by default the program.", "T"),
    Option("--tag", "A tag to find it by; may be repeated.", "K=V", pair, True),
    Option("--param", "A parameter of the run; may be repeated.", "K=V", pair, True),
    Option("--note", "A word for later.", "TEXT"),
    Option("--cwd", "Where to run it.", "DIR"),
    Option("--env", "A variable for its environment; may be repeated.", "K=V", pair, True),
    Option("--external-id", "Your own id for it; every verb finds it by that too.", "ID"),
    Option("--shell", "Hand the words to /bin/sh as one command line."),
    Option("--cpus", "Declare how many CPUs it asks for.", "N", cpus),
    Option("--memory", "Declare how much memory it asks for, such as 8G.", "SIZE", memory),
    Option("--runtime", "Declare how long it should take, such as 1h30m.", "D", parse_duration),
    Option("--gpus", "Declare how many GPUs it asks for.", "N", gpus),
    Option("--enforce", "Make --memory and --cpus hold: by a cgroup where one can be made, else by looking often."),
    Option("--nice", "Its niceness, from -20 (first) to 19 (last).", "N", nice),
    Option("--ionice", "Its turn at the disk: idle, best-effort or realtime.", "CLASS[:0-7]", ionice),
    Option("--timeout", "Stop it after this time; exit code 124.", "D", timeout),
    Option("--grace", "How long it may take to end after TERM before it is killed (default 10s).", "D", parse_duration),
    Option(
        "--after-exit",
        "What to do with descendants that outlive it (default leave).",
        "leave|wait|kill",
        after_exit,
    ),
    Option("--pty", "Give it a terminal of its own: progress bars, editors, pagers."),
    Option("--interval", "Time between samples, 0.1s at least, or auto.", "D", setting("monitor.interval")),
    Option(
        "--granularity",
        "Keep every sample, or only minima, means and peaks.",
        "time_series|summary",
        setting("monitor.granularity"),
    ),
    Option("--without", "What not to measure, such as pss,fds.", "LIST", setting("monitor.without")),
    Option("--no-monitor", "Take no samples: only the totals are recorded."),
    Option("--report", "Print a [Resources] line to standard error that often.", "D", report),
    Option("--quiet", "No summary at the end."),
    Option("--record", "Write the finished record there as JSON.", "PATH"),
    Option("--verbose", "Say on standard error what is also written to the log.", short="-v"),
)


MONITOR_SETTINGS = {name: f"monitor.{name}" for name in ("interval", "granularity", "without")}


def read_run(words: Sequence[str]) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """The options and the command of `run`."""
    return read_words(RUN, words)


def read_words(rows: Sequence[Option], words: Sequence[str]) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """The options and the command; None for what click has to explain. A value that does not parse is said here."""
    by_name = {name: option for option in rows for name in (option.name, option.short)}
    values = {option.key: nothing_said(option) for option in rows}
    index = 0
    while index < len(words) and words[index].startswith("-"):
        word = words[index]
        index += 1
        if word == "--":
            break
        name, has_value, text = word.partition("=")
        option = by_name.get(name)
        if option is None or (option.metavar is None and has_value):
            return None
        if option.metavar is None:
            values[option.key] = True
            continue
        if not has_value:
            if index == len(words):
                return None
            text = words[index]
            index += 1
        value = read_value(option, text)
        values[option.key] = (*values[option.key], value) if option.repeated else value
    return values, tuple(words[index:])


def nothing_said(option: Option) -> Any:
    """The value of an option nobody gave."""
    return () if option.repeated else False if option.metavar is None else None


def read_value(option: Option, text: str) -> Any:
    try:
        return option.read(text)
    except BadValue as error:
        raise BadValue(f"{option.name}: {error}") from None
