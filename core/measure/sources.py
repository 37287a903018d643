"""The list of all sources of numbers. A new one is a line here, a file in collectors/ and rows in the catalogue."""

from __future__ import annotations

from importlib import import_module
from os import listdir, path

from jobtop.core.measure.source_runs import DeferredSource, FastRun, SlowRun, UnopenedSource, words
from jobtop.core.procfs import HAS_PROC
from jobtop.core.record import fresh, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobtop.core.measure.source import Source

    Opener = Callable[["Options"], Source]
    Run = FastRun | SlowRun


CONTAINERS = "containers"  # the source of jobs with an engine, which no other source is given


@record
class Options:
    """What sources are opened with: where the system's files are, what not to measure, and the sources before them."""

    proc: str = "/proc"
    sys: str = "/sys"
    disk_path: str = "/"
    without: frozenset[str] = frozenset()
    opened: dict[str, Source] = fresh(default_factory=dict)


def collector(module: str) -> Opener:
    """Open a source by the function `open_source` of a module in collectors/, which is imported only then."""

    def open_source(options: Options) -> Source:
        opened: Source = import_module(f"jobtop.core.measure.collectors.{module}").open_source(options)
        return opened

    return open_source


def nvidia(options: Options) -> Source:
    """The source of NVIDIA's GPUs; where there is no driver, nothing of it is imported and it has no thread."""
    from jobtop.core.measure.collectors.gpu.nvidia_driver import driver_problem

    if "gpu" in options.without or "nvidia" in options.without:
        return UnopenedSource("nvidia", "it is switched off (monitor.without)")
    problem = driver_problem(options.proc)
    return collector("gpu.nvidia_source")(options) if problem is None else UnopenedSource("nvidia", problem)


def drm(options: Options) -> Source:
    """The source of all other GPUs; where there is no card, nothing of it is imported and it has no thread."""
    if "gpu" in options.without or "drm" in options.without:
        return UnopenedSource("drm", "it is switched off (monitor.without)")
    if has_render_node(options.sys):
        from jobtop.core.measure.collectors.gpu.drm_cards import find_cards

        if find_cards(options.sys, options.without):
            return DeferredSource("drm", 1.0, lambda: collector("gpu.drm_source")(options))
    return UnopenedSource("drm", "the kernel has no GPU of another vendor than NVIDIA")


def has_render_node(sys: str) -> bool:
    """Whether the kernel has any GPU: one listing of a directory, before anything is imported."""
    try:
        return any(name.startswith("renderD") for name in listdir(f"{sys}/class/drm"))
    except OSError:
        return False


def slow_devices(options: Options) -> Source:
    """The source of what is slow to read of the host, unless the host is not sampled at all."""
    if "devices" in options.without or "host" in options.without:
        return UnopenedSource("devices", "it is switched off (monitor.without)")
    return collector("host.slow_source")(options)


def energy(options: Options) -> Source:
    """The source of the energy of the CPU; where the kernel has no counters of it, nothing of it is imported."""
    if "rapl" in options.without:
        return UnopenedSource("energy", "it is switched off (monitor.without)")
    if not path.exists(f"{options.sys}/class/powercap/intel-rapl:0"):
        return UnopenedSource("energy", f"{options.sys}/class/powercap has no energy counters of CPUs")
    return collector("energy.rapl")(options)


def files(options: Options) -> Source:
    """The source of the files that jobs read most; its thread imports it: short jobs do not wait for that."""
    if "files" in options.without:
        return UnopenedSource("files", "it is switched off (monitor.without)")
    return DeferredSource("files", 0.25, lambda: collector("files.source")(options))


def network(options: Options) -> Source:
    """The source of the network traffic of jobs, which is that of this machine; `net` is its other name in settings."""
    if "net" in options.without or "network" in options.without:
        return UnopenedSource("network", "it is switched off (monitor.without)")
    if not HAS_PROC or options.proc != "/proc":
        return UnopenedSource("network", "it needs the /proc of this machine")
    return collector("network.source")(options)


def containers(options: Options) -> Source:
    """The source of jobs that only their engine counts; its thread, which the first such job starts, imports it."""
    return DeferredSource(CONTAINERS, 1.0, lambda: collector("docker.source")(options))


GPU_SOURCES: dict[str, Opener] = {
    "nvidia": nvidia,
    "drm": drm,
}
# Sources of jobs, in the order in which they are called: of two values of one key the later one counts.
JOB_SOURCES: dict[str, Opener] = {
    "processes": collector("process_source"),
    "cgroups": collector("cgroup_source"),
    "limits": collector("limits.source"),
    "energy": energy,
    **GPU_SOURCES,
    "files": files,
    "network": network,
    CONTAINERS: containers,
}
# Sources of the host and its devices alone: one process records them for all.
HOST_SOURCES: dict[str, Opener] = {
    "devices": slow_devices,
    "host": collector("host.source"),
}


def open_runs(openers: Mapping[str, Opener], options: Options) -> list[Run]:
    """Open sources that are ready to be called, without those that the setting monitor.without names."""
    runs: list[Run] = []
    for name, opener in openers.items():
        if name not in options.without:
            source = options.opened[name] = open_one(name, opener, options)
            runs.append(FastRun(source) if source.interval_seconds is None else SlowRun(source))
    return runs


def open_one(name: str, opener: Opener, options: Options) -> Source:
    """A source; where it cannot be opened, one that is not available and says why."""
    try:
        return opener(options)
    except Exception as error:  # noqa: BLE001 - a border: a source that cannot be opened costs its own numbers
        return UnopenedSource(name, words(error))


def unavailable_sources(options: Options | None = None) -> dict[str, str]:
    """Which sources cannot be used here, and why."""
    found = {}
    chosen = options or Options()
    for name, opener in (*JOB_SOURCES.items(), *HOST_SOURCES.items()):
        run = FastRun(open_one(name, opener, chosen))
        chosen.opened[name] = run.source
        run.close()
        if run.unavailable is not None:
            found[name] = run.unavailable
    return found
