"""`jobtop workflow`: the group of its verbs."""

from jobtop.cli.verb_group import verb_group

VERBS = {
    "init": "init:init",
    "validate": "validate:validate",
    "graph": "graph:graph",
    "run": "starting:run",
    "submit": "starting:submit",
    "retry": "starting:retry",
    "status": "looking:status",
    "show": "looking:show",
    "list": "looking:list_",
    "cancel": "looking:cancel",
    "report": "report:report",
}


@verb_group("jobtop.cli.verbs.workflow", VERBS)
def workflow() -> None:
    """Run the jobs of workflow files in their order, and look at their runs.

    A workflow is a YAML, TOML, JSON or JSON5 file with jobs, what they depend on and what they need. Torc's workflow
    files are read as they are.
    """
