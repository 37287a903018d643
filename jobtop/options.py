"""The keyword arguments of `run` and `submit`, which have the words of the verbs, and the request they describe."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

from jobtop.core.config import check_setting
from jobtop.core.errors import BadValue, did_you_mean
from jobtop.core.model import Limits
from jobtop.core.run import request as values
from jobtop.core.run.request import Request
from jobtop.core.units import parse_duration, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobtop.core.run.containers.order import ContainerOrder

T = TypeVar("T")
Text = str | os.PathLike[str]
Duration = float | str | timedelta
LEAST_MEMORY_BYTES = 1024 * 1024


class JobOptions(TypedDict, total=False):
    """What can be asked for with a job. Sizes are bytes or text such as `8G`, times seconds or text such as `1h30m`."""

    name: str
    """Its name; by default the script or the program."""
    tool: str
    """The kind of job; by default the program."""
    params: Mapping[str, Any]
    """Parameters of the run."""
    tags: Mapping[str, str] | Iterable[str]
    """Tags to find it by: a mapping, or words such as `nightly` and `team=x`."""
    note: str
    """A note to read later."""
    cwd: Text
    """The directory to run it in."""
    env: Mapping[str, str]
    """Environment variables, added to those of this process."""
    external_id: str
    """Your own id for it; it can be found by it."""
    shell: bool
    """Run the command as one line of `/bin/sh`."""
    cpus: float | str
    """How many CPUs it needs."""
    memory: int | str
    """How much memory it needs."""
    runtime: Duration
    """How long it takes."""
    gpus: int
    """How many GPUs it needs."""
    enforce: bool
    """Enforce `memory` and `cpus`."""
    nice: int
    """The niceness, from -20 (first) to 19 (last)."""
    ionice: str
    """The I/O priority: `idle`, `best-effort` or `realtime`, and a level: `best-effort:3`."""
    timeout: Duration
    """Stop it after this time; its status is then `timeout`."""
    grace: Duration
    """The time between SIGTERM and SIGKILL when it is stopped; 10 s by default."""
    after_exit: Literal["leave", "wait", "kill"]
    """What to do with descendants that outlive it; `leave` by default."""
    interval: Duration
    """The time between samples, or `auto`."""
    granularity: Literal["time_series", "summary"]
    """Keep every sample, or only minima, means and peaks."""
    without: Iterable[str]
    """What not to measure, such as `["pss", "fds"]`."""
    monitor: bool
    """False: take no samples, record only the totals."""
    settings: Mapping[str, Any]
    """Any settings, such as `{"run.log_max": "1G"}`."""
    image: str
    """Run the command in a container of this image; `cpus`, `memory`, `gpus` and `pids` then hold."""
    volumes: Iterable[str]
    """Directories and volumes to mount: `SOURCE:TARGET[:ro]`."""
    user: str
    """The user in the container."""
    workdir: str
    """The working directory in the container."""
    network: str
    """The network of the container."""
    entrypoint: str
    """The program to run in place of the image's own entry point."""
    pull: Literal["missing", "always", "never"]
    """When to pull the image; `missing` by default."""
    pids: int
    """The most processes and threads at the same time in the container."""
    keep: bool
    """Keep the container after its record is complete."""
    engine: str
    """The container engine: its address or its name."""


CONTAINER_TEXTS = ("user", "workdir", "network", "entrypoint", "engine")
IN_CONTAINERS = (*CONTAINER_TEXTS, "volumes", "pull", "pids", "keep")


def settings_of(options: JobOptions) -> list[str]:
    """Return the settings, as KEY=VALUE, that the options stand for."""
    sets = [f"{key}={setting_text(value)}" for key, value in (options.get("settings") or {}).items()]
    for name in ("interval", "granularity", "without"):
        value: Any = options.get(name)
        if value is not None:
            text = duration_text(value) if name == "interval" else setting_text(value)
            sets.append(f"monitor.{name}={named(name, lambda text: check_setting(f'monitor.{name}', text), text)}")  # noqa: B023
    return [*sets, *(["monitor.enabled=false"] if options.get("monitor") is False else [])]


def request_of(function: str, command: str | Sequence[Text], options: JobOptions, detached: bool) -> Request:
    """Return the request for a job; BadValue or TypeError for what cannot work, before anything is started."""
    refuse_unknown(function, options)
    cwd = directory_of(options.get("cwd"))
    words = words_of(command, bool(options.get("shell")), options.get("image") is not None)
    limits = limits_of(options)
    container = container_of(options, cwd)
    return Request(
        command=words,
        cwd=cwd,
        kind="process" if container is None else "container",
        container=container,
        is_shell=bool(options.get("shell")),
        name=text_of("name", options.get("name")),
        tool=text_of("tool", options.get("tool")),
        note=text_of("note", options.get("note")),
        external_id=text_of("external_id", options.get("external_id")),
        env=variables_of(options) if container is None else {},
        params={str(key): plain(value) for key, value in (options.get("params") or {}).items()},
        tags=tags_of(options.get("tags") or ()),
        parent_id=(None if detached else open_block_id()) or os.environ.get("JOBTOP_JOB_ID"),
        limits=limits,
        grace_seconds=parsed("grace", parse_duration, options.get("grace")),
        after_exit=parsed("after_exit", values.after_exit, options.get("after_exit")),
        detached=detached,
        nice=parsed("nice", values.nice, options.get("nice")),
        ionice=parsed("ionice", values.ionice, options.get("ionice")),
    )


def open_block_id() -> str | None:
    """Return the id of the tracked block that this code runs in; None if it is in none."""
    if "jobtop.tracking" not in sys.modules:
        return None
    from jobtop.tracking import current_block

    block = current_block()
    return None if block is None or block.record is not None else block.id


def limits_of(options: JobOptions) -> Limits:
    memory = parsed("memory", values.memory, options.get("memory"))
    cpus = parsed("cpus", values.cpus, options.get("cpus"))
    pids = parsed("pids", values.pids, options.get("pids"))
    enforced, is_container = bool(options.get("enforce")), options.get("image") is not None
    if enforced and not (memory or cpus):
        raise BadValue("enforce: there is nothing to enforce; give memory, cpus or both")
    if enforced and 0 < (memory or 0) < LEAST_MEMORY_BYTES:
        raise BadValue("enforce: no process can start with so little memory; give at least 1M")
    return Limits(
        cpus=cpus,
        memory_bytes=memory,
        runtime_seconds=parsed("runtime", parse_duration, options.get("runtime")),
        gpus=parsed("gpus", values.gpus, options.get("gpus")),
        timeout_seconds=parsed("timeout", values.timeout, options.get("timeout")),
        enforced=bool(memory or cpus or pids) if is_container else enforced,
        pids=pids,
    )


def container_of(options: JobOptions, cwd: str) -> ContainerOrder | None:
    """Return the order of a container; None without an image."""
    image = options.get("image")
    if image is None:
        for name in IN_CONTAINERS:
            if options.get(name):
                raise BadValue(f"{name} is for containers: give image too")
        return None
    for name in ("nice", "ionice"):
        if options.get(name) is not None:
            raise BadValue(f"{name} has no effect in a container: give cpus")
    from jobtop.core.run.containers.order import ContainerOrder
    from jobtop.lifecycle.containers.settings import volume

    texts: dict[str, Any] = {name: text_of(name, options.get(name)) for name in CONTAINER_TEXTS}
    return ContainerOrder(
        image=values.image(image),
        volumes=tuple(volume(text, cwd, os.environ) for text in options.get("volumes") or ()),
        **texts,
        env=variables_of(options),
        pull=parsed("pull", values.pull, options.get("pull")) or "missing",
        keep=bool(options.get("keep")),
        gpus=parsed("gpus", values.gpus, options.get("gpus")),
    )


def refuse_unknown(function: str, options: JobOptions) -> None:
    """Raise TypeError, as Python does, for a keyword argument that does not exist."""
    for name in options:
        if name not in JobOptions.__annotations__:
            hint = did_you_mean(name, JobOptions.__annotations__)
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


def words_of(command: str | Sequence[Text], is_shell: bool, has_image: bool) -> tuple[str, ...]:
    """Return the words of a command; a string is a line for a shell, or the name of a program."""
    if isinstance(command, str):
        if not is_shell and " " in command and not os.path.exists(command):
            raise BadValue(f'"{printable(command[:60])}" is one word: pass a list of words, or shell=True for a line')
        words: tuple[str, ...] = (command,) if command else ()
    else:
        words = tuple(os.fspath(word) for word in command)
    if not all(isinstance(word, str) for word in words):
        raise BadValue("a command is a list of str: numbers and bytes have to be converted")
    if not words and not has_image:
        raise BadValue('the command is empty: pass a list of words, such as ["python", "train.py"]')
    if any("\0" in word for word in words):
        raise BadValue("a word of a command cannot contain a null character")
    return words


def directory_of(chosen: Text | None) -> str:
    try:
        here = os.getcwd()
    except FileNotFoundError:
        here = ""
    path = os.path.normpath(os.path.join(here, os.fspath(chosen or "")))
    if not os.path.isabs(path):
        raise BadValue("the current directory was removed: give cwd")
    if not os.path.isdir(path):
        raise BadValue(f"cwd: there is no directory {printable(path)}")
    return path


def variables_of(options: JobOptions) -> dict[str, str]:
    found: dict[Any, Any] = dict(options.get("env") or {})
    for key, value in found.items():
        if not isinstance(key, str) or not isinstance(value, str) or "=" in key or not key or "\0" in key + value:
            raise BadValue(f"env: {key!r}: names and values of environment variables are str")
    return found


def tags_of(given: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    if isinstance(given, str):
        given = [given]
    if isinstance(given, Mapping):
        return {str(key): str(value) for key, value in given.items()}
    return dict(named("tags", values.tag, text) for text in given)


def plain(value: Any) -> Any:
    """Return a parameter as JSON can hold it: numbers of numpy become Python's, anything else that is unknown text."""
    if isinstance(value, float) and not abs(value) < float("inf"):
        return str(value)
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(inner) for inner in value]
    if callable(item := getattr(value, "item", None)) and getattr(value, "ndim", None) == 0:
        return plain(item())
    return str(value)


def text_of(name: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise BadValue(f"{name}: {value!r} is not a str")
    return value


def parsed(name: str, parse: Callable[[str], T], value: object) -> T | None:
    """Return a value as the verb parses its text; None if it is not given."""
    return None if value is None else named(name, parse, duration_text(value))


def named(name: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except BadValue as error:
        raise BadValue(f"{name}: {error}") from None


def duration_text(value: object) -> str:
    """Return a number or a timedelta as the verbs read it: whole numbers without a point, never with an exponent."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else f"{value:.6f}"
    return str(value)


def setting_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(map(str, value))
    return str(value)
