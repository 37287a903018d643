"""The fast path of `jobtop run`: it starts the shim first, imports the rest meanwhile, and never imports click."""

import gc

from jobtop.core.run.supervisor import Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def quick(words: "Sequence[str]") -> tuple[int | None, Supervisor | None]:
    """The exit code of `run` with these words, None if click has to explain an error; and a shim without an order."""
    gc.disable()
    supervisor = None if "--pty" in words else early_supervisor()
    from jobtop.cli.failure import guarded
    from jobtop.cli.run.launch import run_words

    return guarded(lambda: run_words(words, supervisor)), supervisor


def early_supervisor() -> Supervisor | None:
    """A shim that starts while the rest is imported; it exits if it gets no order."""
    try:
        return Supervisor()
    except OSError:  # `run` tries again and says why
        return None
