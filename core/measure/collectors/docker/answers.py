"""Makes records of what engines answer. Their text comes from outside: a value of the wrong type counts as absent."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from jobtop.core.measure.collectors.docker.model import (
    ENDED,
    Container,
    ContainerEvent,
    ContainerLimits,
    EngineInfo,
    Image,
    PullStep,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NEVER = "0001-01-01"
MOMENT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?\d*(Z|[+-]\d\d:\d\d)", re.ASCII)
LARGEST = 2**62


def mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def words(value: Any) -> tuple[str, ...]:
    return tuple(word for word in items(value) if isinstance(word, str))


def texts(value: Any) -> dict[str, str]:
    return {key: each for key, each in mapping(value).items() if isinstance(each, str)}


def integer(value: Any) -> int | None:
    """A whole number that is not negative and fits the store."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST else None


def positive(value: Any) -> int | None:
    """A limit: engines say 0 or -1 for none."""
    return integer(value) or None


def moment(value: Any) -> float | None:
    """Seconds since the epoch of a time such as 2026-11-16T00:58:54.620635817Z; None for the year 1, which is never."""
    found = MOMENT.fullmatch(value) if isinstance(value, str) and not value.startswith(NEVER) else None
    if found is None:
        return None
    try:
        whole = datetime.fromisoformat(found[1] + ("+00:00" if found[3] == "Z" else found[3]))
        return whole.astimezone(UTC).timestamp() + float(found[2] or 0.0)
    except (ValueError, OverflowError):
        return None


def version_in(server: str, api_version: str) -> dict[str, Any] | None:
    """The part of an answer to /version that is in a header such as `Libpod/4.3.1 (linux)`; None if it is another."""
    found = re.match(r"(Docker|Libpod)/(\S+)", server)
    if found is None:
        return None
    name = "Podman Engine" if found[1] == "Libpod" else "Engine"
    return {"Version": found[2], "ApiVersion": api_version, "Components": [{"Name": name}]}


def engine_info(version: Any, info: Any) -> EngineInfo:
    version, info = mapping(version), mapping(info)
    names = [str(mapping(part).get("Name", "")).lower() for part in items(version.get("Components"))]
    security = " ".join(words(info.get("SecurityOptions")))
    return EngineInfo(
        product="Podman" if any("podman" in name for name in names) else "Docker",
        version=text(version.get("Version")) or "?",
        api_version=text(version.get("ApiVersion")) or "?",
        cgroup_driver=text(info.get("CgroupDriver")),
        cgroup_version=text(info.get("CgroupVersion")),
        is_rootless="rootless" in security if "SecurityOptions" in info else None,
        runtimes=tuple(sorted(mapping(info.get("Runtimes")))),
        boot_host=text(info.get("Name")),
    )


def listed(engine: str, row: Any) -> Container | None:
    """A container of a list, which has no pid, no limits and no exact times; None if it has no id."""
    row = mapping(row)
    container_id = text(row.get("Id"))
    if container_id is None:
        return None
    names, status = words(row.get("Names")), text(row.get("Status")) or ""
    health = re.search(r"\((healthy|unhealthy|health: starting)\)", status)
    created = row.get("Created")
    return Container(
        engine=engine,
        id=container_id,
        name=(names[0].lstrip("/") if names else "") or container_id[:12],
        state=(text(row.get("State")) or "unknown").lower(),
        image=text(row.get("Image")),
        image_id=text(row.get("ImageID")),
        command=words(row.get("Command")) or tuple((text(row.get("Command")) or "").split()),
        health=None if health is None else health[1].removeprefix("health: "),
        created_at=float(created) if integer(created) is not None else moment(created),
        labels=texts(row.get("Labels")),
        network_mode=text(mapping(row.get("HostConfig")).get("NetworkMode")),
    )


def inspected(engine: str, answer: Any) -> Container | None:
    """A container as `inspect` describes it; None if it has no id."""
    answer = mapping(answer)
    state, config, host = (mapping(answer.get(key)) for key in ("State", "Config", "HostConfig"))
    container_id = text(answer.get("Id"))
    if container_id is None:
        return None
    status = (text(state.get("Status")) or "unknown").lower()
    # A container that Podman stops has the exit code 0, and no time of its end, until Podman has noted both.
    finished_at = moment(state.get("FinishedAt")) if status in ENDED else None
    return Container(
        engine=engine,
        id=container_id,
        name=(text(answer.get("Name")) or "").lstrip("/") or container_id[:12],
        state=status,
        image=text(config.get("Image")) or text(answer.get("ImageName")),
        image_id=text(answer.get("Image")),
        command=(*((text(answer.get("Path")) or "",) if text(answer.get("Path")) else ()), *words(answer.get("Args"))),
        health=_health(state),
        created_at=moment(answer.get("Created")),
        started_at=moment(state.get("StartedAt")),
        finished_at=finished_at,
        exit_code=None if finished_at is None else integer(state.get("ExitCode")),
        is_oom_killed=state.get("OOMKilled") if isinstance(state.get("OOMKilled"), bool) else None,
        error=text(state.get("Error")),
        restarts=integer(answer.get("RestartCount")),
        pid=positive(state.get("Pid")),
        labels=texts(config.get("Labels")),
        limits=limits_of(host),
        network_mode=text(host.get("NetworkMode")),
        is_tty=config.get("Tty") if isinstance(config.get("Tty"), bool) else None,
    )


def _health(state: dict[str, Any]) -> str | None:
    """Podman calls the key Healthcheck in some versions, and says nothing, or "", without a check."""
    found = text((mapping(state.get("Health")) or mapping(state.get("Healthcheck"))).get("Status"))
    return None if found is None or found == "none" else found.lower()


def limits_of(host: dict[str, Any]) -> ContainerLimits:
    """The enforced limits in a HostConfig: NanoCpus, or a quota for each period."""
    nano, quota = positive(host.get("NanoCpus")), positive(host.get("CpuQuota"))
    period = positive(host.get("CpuPeriod")) or 100_000
    cpus = nano / 1e9 if nano is not None else quota / period if quota is not None else None
    return ContainerLimits(positive(host.get("Memory")), cpus, positive(host.get("PidsLimit")))


def container_event(message: Any) -> ContainerEvent | None:
    """An event of a container; None for one of an image, a network, … or without an id."""
    message = mapping(message)
    actor = mapping(message.get("Actor"))
    container_id = text(actor.get("ID")) or text(message.get("id"))
    action = text(message.get("Action")) or text(message.get("status"))
    if message.get("Type", "container") != "container" or container_id is None or action is None:
        return None
    nanoseconds, seconds = integer(message.get("timeNano")), integer(message.get("time"))
    at = nanoseconds / 1e9 if nanoseconds else float(seconds or 0)
    word, _, detail = action.partition(":")
    return ContainerEvent(at, word.strip(), detail.strip() or None, container_id, texts(actor.get("Attributes")))


def image_of(answer: Any) -> Image | None:
    """An image, from a list or from `inspect`; None if it has no id."""
    answer = mapping(answer)
    image_id = text(answer.get("Id"))
    if image_id is None:
        return None
    names = tuple(name for name in words(answer.get("RepoTags")) if "<none>" not in name)
    digests = [name.rpartition("@")[2] for name in words(answer.get("RepoDigests")) if "<none>" not in name]
    config = mapping(answer.get("Config"))
    command = (*words(config.get("Entrypoint")), *words(config.get("Cmd")))
    return Image(image_id, names, digests[0] if digests else None, integer(answer.get("Size")), command)


def pull_step(message: Any) -> PullStep:
    message = mapping(message)
    progress = mapping(message.get("progressDetail"))
    counts = integer(progress.get("current")), positive(progress.get("total"))
    return PullStep(text(message.get("status")) or text(message.get("stream")) or "", text(message.get("id")), *counts)
