"""Runs a program for a message: its values are in the environment, the whole message is JSON on standard input.

There is no shell, so that no name of a job can become a command.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress

from jobtop.core.alerts.actions.delivery import DeliveryFailed
from jobtop.core.alerts.message_text import body_text, to_json
from jobtop.core.units import format_duration, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import BinaryIO

    from jobtop.core.alerts.model import Action, Message
    from jobtop.core.alerts.secrets import Secrets

PREFIX = "JOBTOP_ALERT_"


def send(message: Message, action: Action, secrets: Secrets, timeout: float) -> None:
    """Run the program to its end; DeliveryFailed unless it exits with 0 within the time."""
    command = action.fields.get("command")
    arguments = (
        [command] if isinstance(command, str) else [*map(str, command)] if isinstance(command, list | tuple) else []
    )
    if not arguments or "\0" in "".join(arguments):
        raise DeliveryFailed(f'action "{printable(action.name)}" has no command')
    arguments[0] = os.path.expanduser(arguments[0])
    content = json.dumps(to_json(message)).encode("ascii")
    run_program(arguments, {**secrets.environ, **environment(message)}, content, timeout)


def environment(message: Message) -> dict[str, str]:
    """The values of a message as environment variables; a value that is not known is empty."""
    values = {
        "KEY": message.key,
        "ALERT": message.alert,
        "RULE": message.rule,
        "SEVERITY": str(message.severity),
        "STATE": str(message.state),
        "HOST": message.host,
        "TITLE": message.title,
        "TEXT": message.text,
        "BODY": body_text(message),
        "VALUE": "" if message.value is None else f"{message.value:.12g}",
        "LEVEL": "" if message.level is None else f"{message.level:.12g}",
        "JOB_ID": message.job_ids[0] if message.job_ids else "",
        "JOB_NAME": message.job_names[0] if message.job_names else "",
        "JOBS": str(len(message.job_ids)),
        "COMMAND": message.command or "",
        "LOOK": message.look or "",
    }
    return {f"{PREFIX}{name}": value.replace("\0", "") for name, value in values.items()}


def run_program(arguments: Sequence[str], environ: Mapping[str, str], content: bytes, timeout: float) -> None:
    """Run a program with this standard input and no output; after the time it is killed with all it has started."""
    program = printable(os.path.basename(arguments[0]))
    try:
        with _file_with(content) as stdin:
            process = subprocess.Popen(
                arguments,
                env=environ,
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
    except (OSError, ValueError) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else type(error).__name__
        raise DeliveryFailed(f"{program} could not be started: {why}") from None
    with process:
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise DeliveryFailed(f"{program} did not end within {format_duration(timeout)} and was killed") from None
    if process.returncode < 0:
        raise DeliveryFailed(f"{program} was ended by signal {-process.returncode}")
    if process.returncode:
        raise DeliveryFailed(f"{program} exited with {process.returncode}")


def _file_with(content: bytes) -> BinaryIO:
    """A file without a name, at its start. A pipe would wait for a program that reads nothing, or fail."""
    if hasattr(os, "memfd_create"):
        file: BinaryIO = os.fdopen(os.memfd_create("message"), "w+b")
    else:
        import tempfile

        file = tempfile.TemporaryFile()  # noqa: SIM115 — the caller closes it
    file.write(content)
    file.seek(0)
    return file
