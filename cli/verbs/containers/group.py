"""`jobtop containers`: the group of its verbs; without a verb it lists containers."""

from jobtop.cli.verb_group import verb_group

VERBS = {
    "list": "listing:list_",
    "logs": "logs:logs",
    "inspect": "inspect:inspect",
    "stop": "acting:stop",
    "restart": "acting:restart",
    "pause": "acting:pause",
    "resume": "acting:resume",
    "advise": "advise:advise_",
}


@verb_group("jobtop.cli.verbs.containers", VERBS, default="list", default_takes_words=True, reads_stores=("advise",))
def containers() -> None:
    """Show the containers of Docker and Podman with what they use, read their output, act on them, and advise limits.

    Without a verb, list them. NAME is a name or the beginning of an id, in any engine; ENGINE/NAME chooses the engine.
    """
