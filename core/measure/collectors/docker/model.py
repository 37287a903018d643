"""Containers, their engines and their events, as jobtop knows them. Pure: see client.py for the engines themselves."""

from __future__ import annotations

from jobtop.core.record import fresh, record

JOB_LABEL = "jobtop.job"  # on a container that a job started: the id of that job
PROJECT_LABELS = ("com.docker.compose.project", "io.podman.compose.project")
SERVICE_LABELS = ("com.docker.compose.service", "io.podman.compose.service")
RUNNING, PAUSED, RESTARTING, STOPPING = "running", "paused", "restarting", "stopping"
ALIVE = frozenset({RUNNING, PAUSED, RESTARTING, STOPPING})
NEVER_BEGAN = frozenset({"created", "configured", "initialized"})
ENDED = frozenset({"exited", "stopped", "removing", "dead"})  # Podman says `stopped` until it has cleaned up


@record
class Endpoint:
    """Where an engine may be: its name for users, its address, and who named it."""

    name: str  # such as docker, podman, docker-rootless, or the name of a context
    url: str
    origin: str  # such as DOCKER_HOST, context NAME, socket


@record
class EngineInfo:
    """What an engine says about itself."""

    product: str  # Docker or Podman
    version: str
    api_version: str
    cgroup_driver: str | None = None  # cgroupfs, systemd or none
    cgroup_version: str | None = None
    is_rootless: bool | None = None
    runtimes: tuple[str, ...] = ()
    boot_host: str | None = None  # the host name that the engine reports


@record
class ContainerLimits:
    """The limits that the engine enforces; None: no limit."""

    memory_bytes: int | None = None
    cpus: float | None = None
    pids: int | None = None


@record
class Container:
    """One container; what the engine did not say is None. `pid` is a pid of the engine's host."""

    engine: str  # the name of the endpoint
    id: str
    name: str
    state: str  # one of ALIVE, NEVER_BEGAN or ENDED
    image: str | None = None  # as it was asked for
    image_id: str | None = None
    command: tuple[str, ...] = ()
    health: str | None = None  # starting, healthy, unhealthy; None without a health check
    created_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    exit_code: int | None = None  # None until the engine has noted the end
    is_oom_killed: bool | None = None
    error: str | None = None
    restarts: int | None = None
    pid: int | None = None
    labels: dict[str, str] = fresh(default_factory=dict)
    limits: ContainerLimits = ContainerLimits()
    network_mode: str | None = None
    is_tty: bool | None = None

    @property
    def is_alive(self) -> bool:
        return self.state in ALIVE

    @property
    def is_over(self) -> bool:
        """Whether the engine has noted its end, or it never began; an engine may need a moment to note an end."""
        return self.exit_code is not None or self.state in NEVER_BEGAN

    @property
    def project(self) -> str | None:
        """The compose project that it belongs to."""
        return next((self.labels[name] for name in PROJECT_LABELS if self.labels.get(name)), None)

    @property
    def service(self) -> str | None:
        return next((self.labels[name] for name in SERVICE_LABELS if self.labels.get(name)), None)

    @property
    def job_id(self) -> str | None:
        """The job that started it. External text: check it before it is used as an id."""
        return self.labels.get(JOB_LABEL)


@record
class ContainerEvent:
    """Something that happened to a container: start, die, oom, health_status, restart, pause, destroy, …"""

    at: float
    action: str  # without what comes after a colon
    detail: str | None  # what comes after it, such as healthy
    container_id: str
    attributes: dict[str, str] = fresh(default_factory=dict)


@record
class Image:
    """An image of an engine: its names, its id, and its digest if it came from a registry."""

    id: str
    names: tuple[str, ...] = ()
    digest: str | None = None
    size_bytes: int | None = None
    command: tuple[str, ...] = ()  # what it runs if no command is given


@record
class PullStep:
    """A step of a pull: what it does, and how many bytes of how many are there, if the engine says so."""

    text: str
    layer: str | None = None
    done_bytes: int | None = None
    total_bytes: int | None = None
