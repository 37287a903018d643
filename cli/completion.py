"""`jobtop completion`, and the completion of job ids."""

import os
import re
from contextlib import closing

import click
from click.shell_completion import CompletionItem, get_completion_class

from jobtop.cli.app import App
from jobtop.core.errors import JobtopError
from jobtop.core.units import printable

NEEDS_QUOTES = r"[^\w:=.,@%+/-]"  # characters that a shell would not take as they are
NO_SPACE_AFTER_COLON = "if [[ $value == *: ]]; then compopt -o nospace; fi"


def complete_job_id(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return names and ids of jobs that begin so, the ids with the jobs' names; an empty list instead of an error."""
    from jobtop.store.references import completions, last_words

    try:
        with closing(CompletionApp(ctx)) as app:
            found = app.fleet.each(lambda jobs: completions(jobs, incomplete))
    except JobtopError:
        return []
    words = {word: text for _, several in found for word, text in several if not re.search(NEEDS_QUOTES, word)}
    words |= dict.fromkeys(last_words(incomplete) if incomplete else (), "the newest job")
    return [CompletionItem(word, help=printable(text)) for word, text in words.items()]


class CompletionApp(App):
    """The App of a shell completion: reads the stores named on the line so far, and prints no warnings."""

    def __init__(self, ctx: click.Context) -> None:
        super().__init__((), False, "never", os.environ, stores=tuple(ctx.find_root().params.get("store") or ()))

    def warn(self, text: str) -> None:
        return


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the completion script of a shell.

    \b
    bash:  jobtop completion bash > ~/.local/share/bash-completion/completions/jobtop
    zsh:   jobtop completion zsh > a directory of your $fpath, as _jobtop
    fish:  jobtop completion fish > ~/.config/fish/completions/jobtop.fish
    """
    from jobtop.cli.main import jobtop

    kind = get_completion_class(shell)
    assert kind is not None
    source = kind(jobtop, {}, "jobtop", "_JOBTOP_COMPLETE").source()
    # A filter's value follows its key without a space.
    source = source.replace("COMPREPLY+=($value)", "COMPREPLY+=($value)\n            " + NO_SPACE_AFTER_COLON)
    # Where jobtop offers nothing, as in the command to run, bash completes file names.
    print(source.replace("complete -o nosort", "complete -o nosort -o bashdefault -o default"))
    return 0
