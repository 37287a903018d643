"""Asks the engine how a container ended whose runner was killed: its exit code, and the output that is missing."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager, suppress

from jobtop.core.clock import BOOTTIME
from jobtop.core.errors import EngineError, NoSuchContainer
from jobtop.core.measure.collectors.docker.client import STDERR, STDOUT
from jobtop.core.measure.collectors.docker.model import JOB_LABEL
from jobtop.core.measure.collectors.docker.model import NEVER_BEGAN as NEW
from jobtop.core.record import replace
from jobtop.core.run.containers.file import Told, write_container
from jobtop.core.shim.facts import append_mark
from jobtop.lifecycle.containers import cgroups
from jobtop.lifecycle.containers.attached_ends import NOT_NOTED
from jobtop.lifecycle.containers.endings import told_by
from jobtop.lifecycle.containers.output import skipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jobtop.core.measure.collectors.docker.client import Engine
    from jobtop.core.run.containers.file import ContainerFile

NEVER_BEGAN = "its container was created and never started"
LOGS = ("stdout.log", "stderr.log")
LOCK = "container.lock"
PATIENCE_SECONDS = 60.0  # for an engine that does not answer, before the exit code counts as unknown


@contextmanager
def recovering(directory: str) -> Iterator[bool]:
    """Whether this process alone may recover a job now: two at once would append the missing output twice.

    Where no lock can be made, it may.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        fd = os.open(os.path.join(directory, LOCK), flags, 0o600)
    except OSError:
        yield True
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:
            pass
        yield True
    finally:
        os.close(fd)


def recover(
    engine: Engine, directory: str, file: ContainerFile, sent: Sequence[int], start_boottime: float, log_max: int
) -> ContainerFile | None:
    """The file of a container that has ended, complete; None if it still runs, or its engine does not answer yet.

    Its missing output is appended to the logs, and it is removed unless it is to be kept.
    """
    container_id = file.id
    assert container_id is not None
    try:
        container = engine.inspect(container_id)
    except NoSuchContainer:
        container = None
    except EngineError as error:
        return given_up(directory, file, str(error))
    if container is not None and container.is_alive:
        return None
    if container is not None and file.told is None and not container.is_over:
        return given_up(directory, file, NOT_NOTED)
    told = file.told or told_by(container, sent)
    if container is not None and container.state in NEW:
        told = Told(failure=125, error=NEVER_BEGAN)
    if container is not None and not told.is_output_whole:
        told = replace(told, is_output_whole=append_missing(engine, directory, file, start_boottime, log_max))
    parents = cgroups.existing(file.parents)
    texts = file.texts or cgroups.merged({}, cgroups.read_evidence(parents))
    file = replace(file, told=told, texts=texts, started_at=file.started_at or (container and container.started_at))
    write_container(directory, file)
    if container is not None and not file.is_kept:
        with suppress(EngineError):
            engine.remove(container_id)
    cgroups.remove_parents(parents)
    return file


def remove_orphans(engine: Engine, job_id: str) -> None:
    """Remove a container that was created in the moment in which its runner was killed."""
    with suppress(EngineError):
        for container in engine.containers(every=True, label=f"{JOB_LABEL}={job_id}"):
            engine.remove(container.id, force=True)


def given_up(directory: str, file: ContainerFile, why: str) -> ContainerFile | None:
    """Wait for the engine, but not for ever: then the exit code is unknown."""
    now = time.time()
    if file.told is not None:
        return file
    if file.gone_at is None:
        with suppress(OSError):
            write_container(directory, replace(file, gone_at=now))
        return None
    if now - file.gone_at < PATIENCE_SECONDS:
        return None
    parents = cgroups.existing(file.parents)
    file = replace(file, told=Told(error=why), texts=file.texts or cgroups.merged({}, cgroups.read_evidence(parents)))
    with suppress(OSError):
        write_container(directory, file)
    cgroups.remove_parents(parents)
    return file


def append_missing(engine: Engine, directory: str, file: ContainerFile, start_boottime: float, log_max: int) -> bool:
    """Append to the logs what the engine has and they do not; False if the engine cannot give it.

    The size of a log is what was ever written to it, also if its middle was deleted.
    """
    assert file.id is not None
    paths = {STDOUT: os.path.join(directory, LOGS[0]), STDERR: os.path.join(directory, LOGS[1])}
    is_one = not os.path.exists(paths[STDERR])
    sizes = {stream: os.path.getsize(path) if os.path.exists(path) else 0 for stream, path in paths.items()}
    sizes[STDOUT if is_one else STDERR] -= file.said_bytes
    try:
        pieces: Iterable[tuple[int, bytes]] = engine.logs(file.id, is_tty=bool(file.is_tty))
        pieces = plain_lines(pieces) if file.is_tty else pieces
        if is_one:
            pieces = ((STDOUT, piece) for _, piece in pieces)
        appended = _append(skipped(pieces, sizes), paths, log_max)
    except (EngineError, OSError):
        return False
    if appended:
        age = max(0.0, time.clock_gettime(BOOTTIME) - start_boottime)
        now = (os.path.getsize(paths[STDOUT]), *(() if is_one else (os.path.getsize(paths[STDERR]),)))
        append_mark(directory, age, now)
    return True


def _append(pieces: Iterable[tuple[int, bytes]], paths: dict[int, str], most_bytes: int) -> int:
    appended = 0
    for stream, piece in pieces:
        if appended >= most_bytes:
            break
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(paths[stream], flags, 0o600), "ab") as log:
            log.write(piece)
        appended += len(piece)
    return appended


def plain_lines(pieces: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """The output of a terminal as the logs have it: without the carriage return before each line feed."""
    held = b""
    for stream, piece in pieces:
        text = held + piece
        held = text[-1:] if text.endswith(b"\r") else b""
        yield stream, text[: len(text) - len(held)].replace(b"\r\n", b"\n")
    if held:
        yield STDOUT, held
