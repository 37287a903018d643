"""Checks whether Docker and Podman answer at their sockets; no client library is needed for that."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat

from jobtop.core.doctor.checks import Finding, MachineFiles, State
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Which = Callable[[str], str | None]  # the path of a program; None if it is not installed

ANSWER_SECONDS = 2.0
MOST_BYTES = 1 << 20
REQUEST = b"GET /version HTTP/1.0\r\nHost: localhost\r\n\r\n"
TLS_PORT, PLAIN_PORT = 2376, 2375
SHOWN = "jobtop containers shows its containers"
INSIDE_SIGNS = (".dockerenv", "run/.containerenv")  # files that engines leave in their containers
CDI_PLACES = ("etc/cdi", "var/run/cdi")


class EngineProblem(Exception):  # noqa: N818 - named like the problems of sources
    """There is an answer, but not that of a container engine."""


@record
class Engine:
    """A container engine: its sockets in the order of a client, its programs, and the command that starts it."""

    name: str
    sockets: tuple[str, ...]
    server: str
    start: str
    start_own: str | None = None  # for a user without privileges


def container_findings(machine: MachineFiles, environ: Mapping[str, str], which: Which = shutil.which) -> list[Finding]:
    """Check Docker, and Podman if there is anything of it."""
    own = f"run/user/{machine.uid}"
    docker = Engine(
        "Docker",
        ("var/run/docker.sock", f"{own}/docker.sock"),
        "dockerd",
        "systemctl start docker" if machine.has_systemd else "dockerd",
    )
    podman = Engine(
        "Podman",
        (f"{own}/podman/podman.sock", "run/podman/podman.sock"),
        "podman",
        "systemctl start podman.socket" if machine.has_systemd else "podman system service --time=0",
        "systemctl --user start podman.socket" if machine.has_user_manager else "podman system service --time=0",
    )
    host, podman_host = environ.get("DOCKER_HOST", ""), environ.get("CONTAINER_HOST", "")
    found = [named_host(host, machine) if host else engine_finding(docker, machine, which)]
    if podman_host:
        found.append(named_host(podman_host, machine, "Podman", "CONTAINER_HOST"))
    elif which(podman.server) or any(machine.has(place) for place in podman.sockets):
        found.append(engine_finding(podman, machine, which))
    found = [reachable_from_inside(finding, machine) for finding in found]
    gpu = gpu_finding(machine, which) if any(finding.state is State.WORKS for finding in found) else None
    return found if gpu is None else [*found, gpu]


def reachable_from_inside(finding: Finding, machine: MachineFiles) -> Finding:
    """Where jobtop itself runs in a container, say how that container gets the socket of an engine."""
    is_inside = any(machine.has(sign) for sign in INSIDE_SIGNS)
    if not is_inside or finding.state is not State.ABSENT:  # where a socket is there, its own problem is named
        return finding
    shared = "/run/podman" if finding.name == "Podman" else "/var/run/docker.sock"
    meaning = f"jobtop runs inside a container that does not reach an engine: {finding.meaning}"
    return Finding(finding.name, finding.state, meaning, f"start this container with -v {shared}:{shared}")


def gpu_finding(machine: MachineFiles, which: Which) -> Finding | None:
    """Check whether containers can be given NVIDIA's GPUs; None on a machine without NVIDIA's driver."""
    if not (machine.has("proc/driver/nvidia") or machine.has("dev/nvidiactl")):
        return None
    name = "GPUs in containers"
    if any(_has_nvidia_device(machine, place) for place in CDI_PLACES):
        return Finding(name, State.WORKS, "NVIDIA's are described for containers (CDI): jobtop run --gpus")
    if which("nvidia-container-runtime") or which("nvidia-container-cli"):
        return Finding(name, State.WORKS, "NVIDIA Container Toolkit is installed: jobtop run --gpus")
    remedy = "install the NVIDIA Container Toolkit, then as root: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
    return Finding(
        name, State.ABSENT, "containers cannot reach NVIDIA's GPUs: no toolkit and no CDI description", remedy
    )


def _has_nvidia_device(machine: MachineFiles, place: str) -> bool:
    try:
        return any("nvidia" in name for name in os.listdir(machine.path(place)))
    except OSError:
        return False


def named_host(host: str, machine: MachineFiles, engine: str = "Docker", variable: str = "DOCKER_HOST") -> Finding:
    """Check the server that an environment variable names."""
    try:
        return Finding(engine, State.WORKS, f"{version_at(host)} answers at {host} ({variable}); {SHOWN}")
    except PermissionError as error:
        path = host.removeprefix("unix://")
        return Finding(engine, State.FAILS, f"{variable}={host}: {error.strerror}", join_remedy(path, machine))
    except (OSError, EngineProblem) as error:
        meaning = f"{variable}={host}: {words(error)}"
        return Finding(engine, State.FAILS, meaning, f"unset {variable}, or start the server that it names")


def engine_finding(engine: Engine, machine: MachineFiles, which: Which) -> Finding:
    """Check the sockets of an engine: the first that answers; else why not, and the command that helps."""
    denied, silent = None, None
    for path in (machine.path(place) for place in engine.sockets):
        try:
            return Finding(engine.name, State.WORKS, f"{version_at(f'unix://{path}')} answers at {path}; {SHOWN}")
        except PermissionError:
            denied = denied or path
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            continue  # it does not run: a socket may be left over
        except (OSError, EngineProblem) as error:
            silent = silent or f"{path}: {words(error)}"
    start = start_command(engine, machine)
    if denied is not None:
        meaning = f"{denied}: permission denied: its containers cannot be seen"
        return Finding(engine.name, State.FAILS, meaning, join_remedy(denied, machine))
    if silent is not None:
        return Finding(engine.name, State.FAILS, silent, start.replace(" start ", " restart "))
    if which(engine.server):
        return Finding(engine.name, State.ABSENT, "installed, and not running", start)
    if which(engine.name.lower()):
        meaning = f"the client is installed, and no server ({engine.server})"
        return Finding(engine.name, State.ABSENT, meaning, "export DOCKER_HOST=… names a server elsewhere")
    return Finding(engine.name, State.ABSENT, "not installed: only containers need it")


def start_command(engine: Engine, machine: MachineFiles) -> str:
    if machine.uid and engine.start_own is not None:
        return engine.start_own
    return engine.start if machine.uid == 0 else f"as root: {engine.start}"


def join_remedy(path: str, machine: MachineFiles) -> str:
    """Return how a user gets the right to connect: by the group of the socket, if it has one that may."""
    import grp

    try:
        found = os.stat(path)
        group = grp.getgrgid(found.st_gid)
    except (OSError, KeyError):
        return "run jobtop as root"
    if found.st_gid == 0 or not found.st_mode & stat.S_IWGRP:
        return "run jobtop as root"
    if machine.user in group.gr_mem:
        return f"log in again: {machine.user} joined the group {group.gr_name} after this session began"
    return f"as root: usermod -aG {group.gr_name} {machine.user}, and log in again (members can become root)"


def version_at(host: str) -> str:
    """Return name and version of the engine at an address such as `unix:///run/docker.sock` or `tcp://box:2375`.

    OSError if nothing answers there; EngineProblem if something else does.
    """
    scheme, _, place = host.partition("://")
    if scheme == "unix":
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_SECONDS)
            connection.connect(place)
            return version_of(answer_of(connection))
    if scheme in ("tcp", "http"):
        name, _, port = place.rstrip("/").rpartition(":")
        if not name or not port.isdecimal():
            name, port = place.rstrip("/"), str(PLAIN_PORT)
        with socket.create_connection((name.strip("[]"), int(port)), ANSWER_SECONDS) as connection:
            return "a server, which needs TLS," if int(port) == TLS_PORT else version_of(answer_of(connection))
    raise EngineProblem(f"{scheme or 'an address without ://'} is not checked; docker version asks it")


def answer_of(connection: socket.socket) -> bytes:
    connection.sendall(REQUEST)
    answer = b""
    while len(answer) < MOST_BYTES and (part := connection.recv(1 << 16)):
        answer += part
    return answer


def version_of(answer: bytes) -> str:
    """Return `Docker 28.1.1`, from what an engine answers to REQUEST."""
    head, _, body = answer.partition(b"\r\n\r\n")
    try:
        found = json.loads(body)
        parts = [part["Name"] for part in found.get("Components") or () if isinstance(part, dict)]
        version = found["Version"]
    except (ValueError, KeyError, AttributeError, TypeError):
        status = head.splitlines()[0].decode(errors="replace") if head else "no answer"
        raise EngineProblem(f"it does not answer like a container engine ({status})") from None
    return f"{'Podman' if any('podman' in str(name).lower() for name in parts) else 'Docker'} {version}"


def words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {ANSWER_SECONDS:g} s"
    return getattr(error, "strerror", None) or str(error)
