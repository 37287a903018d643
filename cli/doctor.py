"""`jobtop doctor`: what works here, what does not, what that means, and the remedy."""

import os
import resource
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Iterator

import click

from jobtop.cli.app import App
from jobtop.cli.output import format_options, print_shapes
from jobtop.core import checks, sources, trial
from jobtop.core.checks import Finding, Machine, State
from jobtop.core.errors import ExitCode
from jobtop.core.model import SCHEMA_VERSION
from jobtop.core.paths import StatePaths
from jobtop.core.units import format_bytes, printable

GLYPHS = {State.WORKS: "✓", State.FAILS: "✗", State.ABSENT: "–"}
COLORS = {State.WORKS: "32", State.FAILS: "31", State.ABSENT: "2"}
NARROWEST, WIDEST = 60, 100
Topics = dict[str, list[Finding]]


@click.command()
@format_options
@click.pass_obj
def doctor(app: App, style: str) -> int:
    """Say what works here, what does not, what that means, and the remedy.

    Exit code 1 if something is wrong that no job can be run or recorded without.
    """
    with tempfile.TemporaryDirectory(prefix="jobtop-doctor-") as directory:
        tried = trial.start_and_stop(directory)
    topics = examine(app.paths, app.config.switch("store.network"), Machine(user=user_name()), tried)
    findings = [finding for group in topics.values() for finding in group]
    if style == "table":
        print("\n".join(page(topics, app.colored(1), page_width())))
    else:
        print_shapes(style, [shape(topic, finding) for topic, group in topics.items() for finding in group])
    broken = any(finding.essential and finding.state is State.FAILS for finding in findings)
    return ExitCode.BAD_ANSWER if broken else ExitCode.OK


def examine(paths: StatePaths, network: bool | None, machine: Machine, tried: trial.Trial) -> Topics:
    """Every finding under its heading, in the order a person would ask."""
    return {
        "Running jobs": [
            checks.python(sys.version_info[:3], sys.executable),
            checks.process_table(machine),
            trial.shim(tried),
            trial.subreaper(tried, machine),
            checks.logout(machine),
        ],
        "Sampling their processes": [
            sources.clocks(tried.has_clock),
            *sources.members(tried.problems, machine),
            sources.child_lists(machine),
            sources.hidden_processes(machine),
            checks.open_files(*resource.getrlimit(resource.RLIMIT_NOFILE)),
        ],
        "Sampling their cgroups": [
            *checks.cgroups(machine, tried.made, tried.joined),
            *(sources.own_cgroup(machine, tried.counted) if tried.joined else ()),
        ],
        "Sampling the machine": sources.host(machine, checks.existing(str(paths.root))),
        "Keeping and showing them": [
            checks.state_directory(str(paths.root)),
            checks.privacy(str(paths.root)),
            history(paths, network),
            unrecorded(paths),
            checks.encoding(sys.stdout.encoding),
        ],
    }


def history(paths: StatePaths, network: bool | None = None) -> Finding:
    """The store: whether it can be read, is sound and of our time, and where it lies."""
    from jobtop.store.database import is_network
    from jobtop.store.inspection import inspect

    shared = is_network(paths.store) if network is None else network
    where = "on a network file system, with a rollback journal" if shared else "on a local disk"
    if not paths.store.exists():
        return Finding("history", State.ABSENT, f"{paths.store}, made by the first job; {where}")
    found = inspect(paths.store)
    if found.is_sound is False:
        return Finding("history", State.FAILS, f"damaged: {found.problem}", setting_aside(paths))
    if found.problem is not None:
        return Finding("history", State.FAILS, found.problem)
    if not os.access(paths.store, os.W_OK):
        meaning = f"{paths.store} can only be read: jobs are recorded beside it"
        return Finding("history", State.FAILS, meaning, f"chmod u+w {paths.store}")
    checked = "sound" if found.is_sound else "too large to check in a few seconds"
    jobs = f"{found.jobs} job{'' if found.jobs == 1 else 's'}"
    words = f"{jobs} in {format_bytes(found.size_bytes)}, version {found.version}, {checked}, {where}"
    return Finding("history", State.WORKS, words)


def setting_aside(paths: StatePaths) -> str:
    """What lets a new history begin and keeps the old one for whoever can repair it."""
    name = paths.store.name
    files = " ".join((name, f"{name}-wal", f"{name}-shm"))
    return f"cd {paths.root} && for f in {files}; do [ ! -e $f ] || mv $f damaged-$f; done"


def unrecorded(paths: StatePaths) -> Finding:
    """Jobs that ran while the store could not be written."""
    waiting = len(list(paths.unrecorded.glob("*.json")))
    if not waiting:
        return Finding("unrecorded jobs", State.WORKS, "none wait for the history to be writable")
    meaning = f"{waiting} ran while the history could not be written; they wait in {paths.unrecorded}"
    return Finding("unrecorded jobs", State.FAILS, meaning, "jobtop history takes them in, once it can be written")


def page(topics: Topics, color: bool, width: int) -> Iterator[str]:
    """Headings and findings; the remedy of one stands below it."""
    findings = [finding for group in topics.values() for finding in group]
    indent = 5 + max(len(finding.name) for finding in findings)
    for topic, group in topics.items():
        yield f"\x1b[1m{topic}\x1b[0m" if color else topic
        for finding in group:
            glyph = f"\x1b[{COLORS[finding.state]}m{GLYPHS[finding.state]}\x1b[0m" if color else GLYPHS[finding.state]
            first, *rest = wrapped(finding.meaning, width - indent, breaking=True)
            yield f" {glyph} {finding.name:{indent - 5}}  {first}"
            yield from (" " * indent + line for line in rest)
            if finding.remedy is not None:
                first, *rest = wrapped(finding.remedy, width - indent - 2, breaking=False)
                yield f"{' ' * indent}→ {first}"
                yield from (" " * (indent + 2) + line for line in rest)
        yield ""
    yield verdict(findings)


def verdict(findings: Iterable[Finding]) -> str:
    failing = [finding for finding in findings if finding.state is State.FAILS]
    if essential := [finding.name for finding in failing if finding.essential]:
        return f"jobtop cannot do its work here: {', '.join(essential)}."
    if failing:
        return "jobtop works here, with the limits marked ✗."
    return "Everything works."


def wrapped(text: str, width: int, breaking: bool) -> list[str]:
    return textwrap.wrap(printable(text), width, break_on_hyphens=False, break_long_words=breaking) or [""]


def page_width() -> int:
    columns = shutil.get_terminal_size((80, 24)).columns if os.isatty(1) else 80
    return max(NARROWEST, min(WIDEST, columns))


def shape(topic: str, finding: Finding) -> dict[str, object]:
    return {
        "schema_version": SCHEMA_VERSION,
        "topic": topic,
        "name": finding.name,
        "state": str(finding.state),
        "essential": finding.essential,
        "meaning": finding.meaning,
        "remedy": finding.remedy,
    }


def user_name() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
