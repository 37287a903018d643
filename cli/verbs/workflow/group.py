"""`jobtop workflow`: the group of its verbs."""

from jobtop.cli.verb_group import verb_group

VERBS = {"init": "init:init", "validate": "validate:validate", "graph": "graph:graph"}


@verb_group("jobtop.cli.verbs.workflow", VERBS)
def workflow() -> None:
    """Check workflow files, and draw the order of their jobs.

    A workflow is a YAML, TOML, JSON or JSON5 file with jobs, what they depend on and what they need. Torc's workflow
    files are read as they are.
    """
