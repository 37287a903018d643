"""What a user can do about an engine that refuses, does not run or does not answer, in a few words."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.model import Endpoint

NOTHING_FOUND = "start Docker: systemctl start docker, or Podman: systemctl start podman.socket, or set DOCKER_HOST"
RESTART = "restart it if that goes on"


def access_remedy(endpoint: Endpoint, user: str | None = None) -> str:
    """How a user gets the right to connect: by the group of the socket, if the group may."""
    import grp

    user = user or user_name()
    try:
        found = os.stat(endpoint.url.removeprefix("unix://"))
        group = grp.getgrgid(found.st_gid)
    except (OSError, KeyError):
        return "run jobtop as root, or use a rootless engine"
    if found.st_gid == 0 or not found.st_mode & stat.S_IWGRP:
        return "run jobtop as root, or use a rootless engine"
    if user in group.gr_mem:
        return f"log in again: {user} joined the group {group.gr_name} after this session began"
    return f"as root: usermod -aG {group.gr_name} {user}, and log in again (members can become root)"


def user_name() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return "$USER"


def start_remedy(endpoint: Endpoint, root: str = "/") -> str:
    """The command that starts an engine which does not run; of one that was named, that the name may be wrong."""
    if endpoint.origin != "socket":
        named = f"unset {endpoint.origin}" if endpoint.origin.isupper() else "docker context use default"
        return f"start the engine that {endpoint.origin} names, or {named}"
    if not os.path.exists(f"{root}run/systemd/system"):
        return "start it: " + ("podman system service --time=0" if "podman" in endpoint.name else "dockerd")
    unit = "podman.socket" if "podman" in endpoint.name else "docker"
    if "rootless" in endpoint.name:
        return f"systemctl --user start {unit}"
    return f"{'' if os.geteuid() == 0 else 'as root: '}systemctl start {unit}"
