"""`jobtop workflow`: the group of its verbs, each imported only when it is called."""

import importlib

import click

# A verb of this group is one row: its module and its function. Help, docs and completion come from the function.
VERBS = {"init": "init:init", "validate": "validate:validate", "graph": "graph:graph"}


class WorkflowVerbs(click.Group):
    """A group that imports a verb only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        module, _, function = VERBS[name].partition(":")
        command: click.Command = getattr(importlib.import_module(f"jobtop.cli.verbs.workflow.{module}"), function)
        return command


@click.group(cls=WorkflowVerbs)
def workflow() -> None:
    """Check workflow files, and draw the order of their jobs.

    A workflow is a YAML, TOML, JSON or JSON5 file with jobs, what they depend on and what they need. Torc's workflow
    files are read as they are.
    """
