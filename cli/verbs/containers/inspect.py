"""`jobtop containers inspect`: the facts about a container for people, or all that the engine says as JSON."""

import json

import click

from jobtop.cli.app import App
from jobtop.cli.text.container_facts import facts
from jobtop.cli.verbs.containers.choices import containers_named, names_options
from jobtop.core.errors import EngineError
from jobtop.core.measure.collectors.docker.answers import inspected
from jobtop.core.text.engine_answer import redacted_answer


@click.command()
@names_options
@click.option("--json", "as_json", is_flag=True, help="Print the engine's own answer: an object, or a list of several.")
@click.pass_obj
def inspect(app: App, names: tuple[str, ...], engine_name: str | None, project: str | None, as_json: bool) -> int:
    """Show what a container is: its state, image, command, limits, mounts, networks and environment.

    Values that look like passwords or tokens are shown as ***.
    """
    patterns = tuple(app.config.texts("run.redact"))
    with containers_named(app, names, engine_name, project) as found:
        answers = [(engine, redacted_answer(engine.raw(container.id), patterns)) for engine, container in found]
    if as_json:
        objects = [answer for _, answer in answers]
        print(json.dumps(objects[0] if len(objects) == 1 else objects, indent=2))
        return 0
    for position, (engine, answer) in enumerate(answers):
        container = inspected(engine.endpoint.name, answer)
        if container is None:
            raise EngineError(f"{engine.endpoint.name} ({engine.endpoint.url}): its answer cannot be read")
        print(("\n" if position else "") + "\n".join(facts(container, answer, engine.endpoint.url)))
    return 0
