"""Which shell runs a line of a workflow file."""

import os

PLAIN_SHELL = "/bin/sh"


def line_shell() -> str:
    """bash, because Torc runs its lines with it; the plain shell where there is no bash."""
    import shutil

    return shutil.which("bash", path=os.environ.get("PATH", os.defpath)) or PLAIN_SHELL
