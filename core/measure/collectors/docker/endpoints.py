"""Where the engines of this machine may be: DOCKER_HOST, CONTAINER_HOST, contexts and the usual sockets."""

from __future__ import annotations

import json
import os
from pathlib import Path

from jobtop.core.measure.collectors.docker.model import Endpoint
from jobtop.core.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_BYTES = 1 << 20


def endpoints(environ: Mapping[str, str], root: str = "/", home: str | None = None) -> list[Endpoint]:
    """The engines that may be there, in the order of preference; those that are named come first.

    A socket is listed only if it exists. Of two names of one socket the first counts.
    """
    home = home or environ.get("HOME") or os.path.expanduser("~")
    found = [*_named(environ, home), *_sockets(environ, root, home)]
    unique: dict[str, Endpoint] = {}
    for endpoint in found:
        unique.setdefault(_place(endpoint.url), endpoint)
    return _with_own_names(unique.values())


def tried_places(environ: Mapping[str, str], root: str = "/", home: str | None = None) -> list[str]:
    """Where engines are looked for, in words for a user."""
    home = home or environ.get("HOME") or os.path.expanduser("~")
    named = [f"{name} (not set)" for name in ("DOCKER_HOST", "CONTAINER_HOST") if not environ.get(name)]
    return [*named, *dict.fromkeys(path for _, path in _socket_places(environ, root, home))]


def _with_own_names(found: Iterable[Endpoint]) -> list[Endpoint]:
    """Each engine under a name of its own, since users choose by it: the second `docker` is `docker-2`."""
    taken: dict[str, Endpoint] = {}
    for endpoint in found:
        name, number = endpoint.name, 2
        while name in taken:
            name, number = f"{endpoint.name}-{number}", number + 1
        taken[name] = replace(endpoint, name=name)
    return list(taken.values())


def _place(url: str) -> str:
    """The address without links, since /var/run is a link to /run."""
    return "unix://" + os.path.realpath(url[7:]) if url.startswith("unix://") else url


def _named(environ: Mapping[str, str], home: str) -> list[Endpoint]:
    found = []
    if host := environ.get("DOCKER_HOST"):
        found.append(Endpoint("docker", host, "DOCKER_HOST"))
    elif context := _context(environ, home):
        found.append(context)
    if host := environ.get("CONTAINER_HOST"):
        found.append(Endpoint("podman", host, "CONTAINER_HOST"))
    return found


def _context(environ: Mapping[str, str], home: str) -> Endpoint | None:
    """The context that `docker context use` or DOCKER_CONTEXT has chosen; None for the default one."""
    directory = Path(environ.get("DOCKER_CONFIG") or f"{home}/.docker")
    name = environ.get("DOCKER_CONTEXT") or _json(directory / "config.json").get("currentContext")
    if not isinstance(name, str) or name in ("", "default"):
        return None
    try:
        metas = sorted((directory / "contexts" / "meta").iterdir())
    except OSError:
        metas = []
    for meta in metas:
        context = _json(meta / "meta.json")
        if context.get("Name") != name:
            continue
        points = context.get("Endpoints")
        docker = points.get("docker") if isinstance(points, dict) else None
        host = docker.get("Host") if isinstance(docker, dict) else None
        if isinstance(host, str) and host:
            return Endpoint(name, host, f"context {name}")
    return None


def _json(path: Path) -> dict[str, object]:
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _sockets(environ: Mapping[str, str], root: str, home: str) -> list[Endpoint]:
    places = _socket_places(environ, root, home)
    return [Endpoint(name, f"unix://{path}", "socket") for name, path in places if os.path.exists(path)]


def _socket_places(environ: Mapping[str, str], root: str, home: str) -> tuple[tuple[str, str], ...]:
    own = environ.get("XDG_RUNTIME_DIR") or f"{root}run/user/{os.getuid()}"
    return (
        ("docker", f"{root}var/run/docker.sock"),
        ("docker", f"{root}run/docker.sock"),
        ("docker-rootless", f"{own}/docker.sock"),
        ("docker", f"{home}/.docker/run/docker.sock"),
        ("podman-rootless" if os.getuid() else "podman", f"{own}/podman/podman.sock"),
        ("podman", f"{root}run/podman/podman.sock"),
    )
