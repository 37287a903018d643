"""What the words after a verb of `jobtop containers` can mean: containers, engines and compose projects."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import click
from click.shell_completion import CompletionItem

from jobtop.cli.app import App
from jobtop.cli.completion import NEEDS_QUOTES
from jobtop.core.errors import JobtopError, UnknownContainer, UsageError, did_you_mean
from jobtop.core.measure.collectors.docker.client import Engine
from jobtop.core.measure.collectors.docker.finding import (
    EngineAnswer,
    ask_engines,
    choose_container,
    close_engines,
    open_engines,
    raise_if_silent,
)
from jobtop.core.measure.collectors.docker.model import Container
from jobtop.core.units import printable

COMPLETION_SECONDS = 1.0
Found = tuple[Engine, Container]


def complete_container(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return names of containers that begin so, after ENGINE/ where two engines have one; [] instead of an error."""
    pairs = [(answer.engine.endpoint.name, each) for answer in _completions() for each in answer.containers or ()]
    count = Counter(container.name for _, container in pairs)
    words = {
        f"{engine}/{container.name}" if "/" in incomplete or count[container.name] > 1 else container.name: (
            f"{container.state}, {engine}"
        )
        for engine, container in pairs
    }
    return _items(words, incomplete)


def complete_engine(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    try:
        names = {engine.endpoint.name: engine.endpoint.url for engine in open_engines(os.environ)}
    except JobtopError:
        return []
    return _items(names, incomplete)


def complete_project(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    found = [container for answer in _completions() for container in answer.containers or ()]
    return _items({container.project: "" for container in found if container.project}, incomplete)


def _completions() -> list[EngineAnswer]:
    try:
        return ask_engines(open_engines(os.environ), every=True, seconds=COMPLETION_SECONDS)
    except JobtopError:
        return []


def _items(words: dict[str, str], incomplete: str) -> list[CompletionItem]:
    fitting = {word: text for word, text in words.items() if word.startswith(incomplete)}
    return [
        CompletionItem(word, help=printable(text))
        for word, text in fitting.items()
        if not re.search(NEEDS_QUOTES, word)
    ]


def names_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add the names of containers, --project and --engine, as the arguments `names`, `project` and `engine_name`."""
    names = click.argument("names", nargs=-1, metavar="NAME...", shell_complete=complete_container)
    return names(project_option(engine_option(command)))


def engine_option(command: Callable[..., object]) -> Callable[..., object]:
    """Add --engine, as the argument `engine_name`."""
    return click.option(
        "--engine", "engine_name", metavar="E", shell_complete=complete_engine, help="Only this engine, such as podman."
    )(command)


def project_option(command: Callable[..., object]) -> Callable[..., object]:
    """Add --project, as the argument `project`."""
    return click.option(
        "--project", metavar="P", shell_complete=complete_project, help="Only containers of this compose project."
    )(command)


@contextmanager
def containers_named(
    app: App, names: Sequence[str], engine_name: str | None = None, project: str | None = None
) -> Iterator[list[Found]]:
    """Find containers by their names and by a project, each once; their engines are closed afterwards."""
    if not names and project is None:
        raise UsageError("no container given: give its name or the beginning of its id (jobtop containers lists them)")
    engines = open_engines(app.environ, engine_name)
    try:
        answers = ask_engines(engines, every=True)
        raise_if_silent(answers)
        found = [choose_container(answers, name) for name in names]
        found += [] if project is None else of_project(answers, project)
        yield list({(engine.endpoint.url, container.id): (engine, container) for engine, container in found}.values())
    finally:
        close_engines(engines)


def of_project(answers: Sequence[EngineAnswer], project: str) -> list[Found]:
    """Return the containers of a compose project; UnknownContainer names the nearest project."""
    every = [(answer.engine, container) for answer in answers for container in answer.containers or ()]
    found = [pair for pair in every if pair[1].project == project]
    if not found:
        raise UnknownContainer(no_project_text(project, (container for _, container in every)))
    return found


def no_project_text(project: str, containers: Iterable[Container]) -> str:
    names = {container.project for container in containers if container.project}
    hint = printable(did_you_mean(project, names))
    there = f"; there are {', '.join(map(printable, sorted(names)))}" if names else "; there are no compose projects"
    return f'no container of a compose project "{printable(project)}"{hint}{there}'


def refuse_unknown_project(app: App, project: str, engine_name: str | None) -> None:
    """UnknownContainer, with the projects that there are, if no container has this one, also none that has ended."""
    engines = open_engines(app.environ, engine_name)
    try:
        of_project(ask_engines(engines, every=True), project)
    finally:
        close_engines(engines)
