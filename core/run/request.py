"""A request for a new job, from a verb, a form or an earlier job; and its record and its spec."""

from __future__ import annotations

import os
import re
import time

from jobtop.core.errors import BadValue
from jobtop.core.measure.collectors.proc import cpus_allowed
from jobtop.core.model import Job, JobSpec, Limits, Monitor, Status, Usage
from jobtop.core.record import as_dict, fresh, record
from jobtop.core.redact import redact_command, redact_mapping
from jobtop.core.run.supervisor import job_environment
from jobtop.core.units import parse_duration, parse_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, NoReturn

    from jobtop.core.config import Config
    from jobtop.core.job_id import JobId
    from jobtop.core.run.containers.order import ContainerOrder

INTERPRETERS = ("python", "pypy", "bash", "sh", "zsh", "perl", "ruby", "node", "Rscript", "julia", "lua")
NEXT_PAIR = r"\s*\n\s*|\s*,\s*(?=[^\s=,]+=)"  # a comma may also be part of a value, as in CUDA_VISIBLE_DEVICES=0,1

MOST = 1_000_000  # the largest whole number that an option takes
SHORTEST_SECRET = 4  # characters; a shorter one may be part of any word
MOST_VALUE_CHARACTERS = 4096  # of an environment variable in a record


@record
class Request:
    """Everything a caller can ask for; None: the default of the settings, or one that follows from the command."""

    command: tuple[str, ...]
    cwd: str
    is_shell: bool = False
    name: str | None = None
    tool: str | None = None
    script: str | None = None
    env: dict[str, str] = fresh(default_factory=dict)  # added to `environment`
    environment: dict[str, str] | None = None  # None: our own environment
    kind: str = "process"
    params: dict[str, Any] = fresh(default_factory=dict)
    tags: dict[str, str] = fresh(default_factory=dict)
    note: str | None = None
    external_id: str | None = None
    parent_id: str | None = None
    limits: Limits = Limits()
    grace_seconds: float | None = None
    after_exit: str | None = None
    pty: bool = False
    detached: bool = True
    nice: int | None = None
    ionice: str | None = None  # CLASS[:LEVEL]
    container: ContainerOrder | None = None  # the command runs in a container; empty: the one of the image


def prepare(request: Request, job_id: JobId, host: str, config: Config) -> tuple[Job, JobSpec]:
    """The record of a new job, which is shown and has no secrets, and its spec, which is executed and private."""
    words = ("/bin/sh", "-c", " ".join(request.command)) if request.is_shell else request.command
    secret = config.texts("run.redact")
    params = redact_mapping(request.params, secret)
    shown = tuple(redact_command(list(words), secret))
    if params:
        shown = without_hidden(shown, request.params, params)
    image = None if request.container is None else request.container.image
    named = shown or (image_name(image or ""),)
    script, program = request.script or script_of(named), os.path.basename(named[0])
    environment = job_environment(request.env, job_id)
    if request.environment is not None:
        environment = request.environment | request.env | {"JOBTOP_JOB_ID": str(job_id)}
    if request.detached and not request.pty and config.boolean("run.unbuffer"):
        environment.setdefault("PYTHONUNBUFFERED", "1")
    grace = request.grace_seconds if request.grace_seconds is not None else config.duration("run.grace")
    job = Job(
        id=job_id,
        name=request.name or default_name(named, script, request.is_shell),
        command=shown,
        host=host,
        user=user_name(),
        cwd=request.cwd,
        status=Status.RUNNING,
        kind=request.kind,
        external_id=request.external_id,
        parent_id=request.parent_id,
        tool=request.tool or program,
        script=script,
        params=params,
        tags=request.tags,
        note=request.note,
        submitted_at=time.time(),
        limits=request.limits,
        usage=Usage(cpus_allowed=cpus_allowed()),
        monitor=Monitor(interval_seconds=sampling_seconds(config)),
        grace_seconds=grace,
        environment=recorded_environment(environment, config.texts("run.keep_env"), secret),
        findings={} if image is None else {"container": {"image": image}},
    )
    holds = request.limits.enforced and image is None  # the engine enforces the limits of a container
    spec = JobSpec(
        id=job_id,
        command=tuple(words),
        cwd=request.cwd,
        env=environment,
        grace_seconds=grace,
        after_exit=request.after_exit or config.text("run.after_exit"),
        log_max_bytes=config.size("run.log_max"),
        timeout_seconds=request.limits.timeout_seconds,
        pty=request.pty,
        detached=request.detached,
        is_watched=config.boolean("monitor.enabled"),
        interval_seconds=config.interval("monitor.interval"),
        keeps_series=config.text("monitor.granularity") == "time_series",
        hold_memory_bytes=(request.limits.memory_bytes or None) if holds else None,
        hold_cpus=(request.limits.cpus or None) if holds else None,
        nice=request.nice,
        ionice=request.ionice,
        container=None
        if request.container is None
        else request.container.to_json() | {"limits": as_dict(request.limits)},
    )
    return job, spec


def without_hidden(
    words: tuple[str, ...], params: Mapping[str, Any], shown_params: Mapping[str, Any]
) -> tuple[str, ...]:
    """The words of a command, without secret values of parameters, which a tool may put there without their names."""
    for key, value in params.items():
        if isinstance(value, str) and len(value) >= SHORTEST_SECRET and shown_params[key] != value:
            words = tuple(word.replace(value, str(shown_params[key])) for word in words)
    return words


def recorded_environment(
    environment: Mapping[str, str], names: Iterable[str], secret: Iterable[str] = ()
) -> dict[str, str]:
    """The variables that are recorded with a job, secrets hidden; a name that ends with * is a prefix."""
    wanted = tuple(names)
    prefixes = tuple(name[:-1] for name in wanted if name.endswith("*"))
    chosen = {key: value for key, value in environment.items() if key in wanted or key.startswith(prefixes)}
    shown = redact_mapping(chosen, secret) if chosen else {}
    return {key: value[:MOST_VALUE_CHARACTERS] for key, value in sorted(shown.items())}


def sampling_seconds(config: Config) -> float | None:
    """The seconds between the first samples of the job; None: it is not sampled."""
    if not config.boolean("monitor.enabled"):
        return None
    return config.interval("monitor.interval") or 1.0


def image_name(reference: str) -> str:
    """The name of an image without its registry, its tag and its digest."""
    return reference.partition("@")[0].rpartition("/")[2].partition(":")[0] or reference


def script_of(command: tuple[str, ...]) -> str | None:
    """The script in a command such as `python script.py`; None if the command runs no script."""
    program = os.path.basename(command[0]).rstrip("0123456789.")
    if program not in INTERPRETERS:
        return None
    for word in command[1:]:
        if word in ("-c", "-m", "-e", "-"):
            return None
        if not word.startswith("-"):
            return word
    return None


def default_name(command: tuple[str, ...], script: str | None, shell: bool) -> str:
    """The name of the script without its suffix, or of the program; of a shell command line, its first word."""
    if script is not None:
        return os.path.splitext(os.path.basename(script))[0] or script
    if shell:
        return printable((command[2].split() or ["sh"])[0])
    return os.path.basename(command[0]) or command[0]


def typed(value: str) -> str | int | float | bool:
    """A parameter as a number or boolean if it is one, else as text; 1.10 stays text, since it is a version."""
    if value in ("true", "false"):
        return value == "true"
    for number_type in (int, float):
        try:
            number = number_type(value)
        except ValueError:
            continue
        if abs(number) < float("inf") and (str(number) == value or "e" in value.lower()):
            return number
    return value


def user_name() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def pair(text: str) -> tuple[str, str]:
    """The key and the value of KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise BadValue(f'"{printable(text)}" is not of the form KEY=VALUE')
    return key, value


def variable(text: str) -> tuple[str, str]:
    """The name and the value of KEY=VALUE, or of KEY alone, which has its value of here."""
    if text and "=" not in text:
        if text not in os.environ:
            raise BadValue(f"{printable(text)} is not set here; give it a value: {printable(text)}=VALUE")
        return text, os.environ[text]
    return pair(text)


def pairs(text: str) -> dict[str, str]:
    """KEY=VALUE, one a line, or with commas between them."""
    return dict(pair(part) for part in re.split(NEXT_PAIR, text.strip(" \t\n,")) if part)


def tag(text: str) -> tuple[str, str]:
    """The key and the value of a tag; the value of a plain tag is empty."""
    key, equals, value = text.partition("=")
    if not key.strip() or (not equals and "," in key):
        raise BadValue(
            f'"{printable(text)}" is not a tag: give a word such as sweep, or KEY=VALUE; repeat for more tags'
        )
    return key, value


def tags(text: str) -> dict[str, str]:
    """Tags, one a line, or with commas between them; a comma without a space after it may be part of a value."""
    parts: list[str] = []
    for part in re.split(r"(?<=[\n,])", text):
        is_value = bool(parts) and "=" in parts[-1] and parts[-1][-1] == "," and part[:1].strip() and "=" not in part
        parts[-1:] = [parts[-1] + part] if is_value else [*parts[-1:], part]
    return dict(tag(stripped) for part in parts if (stripped := part.strip(" \t\n,")))


def cpus(text: str) -> float:
    """A number of CPUs; it need not be whole."""
    try:
        count = float(text)
    except ValueError:
        count = -1.0
    if not 0 <= count <= 1_000_000:
        raise BadValue(f'"{printable(text)}" is not a number of CPUs, such as 4 or 0.5')
    return count


def whole_number(text: str, such_as: str = "a whole number, such as 10 or -5") -> int:
    """A whole number; it may be negative."""
    shown = printable(text[:40])
    if not re.fullmatch("[+-]?[0-9]+", text):
        raise BadValue(f'"{shown}" is not {such_as}')
    number = int(text[:20])
    if not -MOST <= number <= MOST:
        raise BadValue(f'"{shown}" is too {"small" if number < 0 else "large"}: at most {MOST} either way')
    return number


def count(text: str) -> int:
    """A whole number that is not negative."""
    such_as = "a number of times, such as 3"
    number = whole_number(text, such_as)
    if number < 0:
        raise BadValue(f'"{printable(text)}" is not {such_as}')
    return number


def group_name(text: str) -> str:
    """A valid name for a group."""
    if not text.strip() or not text.isprintable() or len(text) > 100:
        raise BadValue(f'"{printable(text[:40])}" is not a group name: use up to 100 letters and digits')
    return text.strip()


def gpus(text: str) -> int:
    """Parse a number of GPUs."""
    if not text.isascii() or not text.isdigit() or int(text) > 1_000_000:
        raise BadValue(f'"{printable(text)}" is not a number of GPUs, such as 2')
    return int(text)


def after_exit(text: str) -> str:
    """Check what to do with descendants that outlive the job."""
    if text not in ("leave", "wait", "kill"):
        raise BadValue(f'"{printable(text)}" is not one of leave, wait, kill')
    return text


def nice(text: str) -> int:
    """Parse a niceness that this user may set."""
    from jobtop.core.run.priority import niceness

    return niceness(text)


def ionice(text: str) -> str:
    """Parse an I/O priority that this user may set."""
    from jobtop.core.run.priority import io_class

    return io_class(text)


def memory(text: str) -> int:
    """Parse an amount of memory above 0."""
    return parse_size(text) or _refuse_zero(text)


def timeout(text: str) -> float:
    """Parse a time limit above 0."""
    return parse_duration(text) or _refuse_zero(text)


def _refuse_zero(text: str) -> NoReturn:
    raise BadValue(f'"{printable(text)}" is zero: leave the option out for no limit')


def pull(text: str) -> str:
    """Check when to pull an image."""
    if text not in ("missing", "always", "never"):
        raise BadValue(f'"{printable(text)}" is not one of missing, always, never')
    return text


def image(text: str) -> str:
    """Check that a word can name an image."""
    if not text or text.startswith("-") or not text.isprintable() or " " in text:
        raise BadValue(f'"{printable(text)}" is not an image, such as python:3.12')
    return text


def pids(text: str) -> int:
    """Parse a number of processes above 0."""
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 4_194_304:
        raise BadValue(f'"{printable(text)}" is not a number of processes, such as 100')
    return int(text)
