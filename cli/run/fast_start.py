"""The way of `jobtop run` that costs least: the shim first, then what is needed to tell it its job, never click."""

import gc

from jobtop.core.run.supervisor import Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def quick(words: "Sequence[str]") -> tuple[int | None, Supervisor | None]:
    """The exit code of `run` with these words; None, and a shim that waits, if click has to explain something."""
    gc.disable()
    supervisor = None if "--pty" in words else early_supervisor()
    from jobtop.cli.failure import guarded
    from jobtop.cli.run.launch import run_words

    return guarded(lambda: run_words(words, supervisor)), supervisor


def early_supervisor() -> Supervisor | None:
    """It takes as long to come up as the rest takes to be imported; if there is no job in the end, it leaves."""
    try:
        return Supervisor()
    except OSError:  # `run` will try again and say why
        return None
