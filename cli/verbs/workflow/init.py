"""`jobtop workflow init`: writes an example of a workflow file."""

import os

import click

from jobtop.cli.app import App
from jobtop.core.errors import BadValue, ExitCode
from jobtop.core.units import printable
from jobtop.core.workflow.examples import EXAMPLES


@click.command()
@click.argument("file", metavar="[FILE]", default="workflow.yaml")
@click.option(
    "--example",
    type=click.Choice(tuple(EXAMPLES)),
    default="stages",
    show_default=True,
    help="Which one: jobs one after the other, files that lead from job to job, or a sweep over parameters.",
)
@click.pass_obj
def init(app: App, file: str, example: str) -> int:
    """Write a workflow file to start from (workflow.yaml), and say what to do with it. A file is never overwritten."""
    if not file.endswith((".yaml", ".yml")):
        raise BadValue(f"{printable(file)}: the examples are YAML; choose a name that ends in .yaml")
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "w") as written:
            written.write(EXAMPLES[example])
    except FileExistsError:
        raise BadValue(f"{printable(file)}: it is there already; choose another name") from None
    except OSError as error:
        raise BadValue(f"{printable(file)}: {error.strerror}") from None
    print(f"{printable(file)} is written. To run it: jobtop workflow run {printable(file)}")
    return ExitCode.OK
