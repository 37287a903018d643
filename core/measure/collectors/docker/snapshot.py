"""What the container monitor knows at a moment: the engines, and every container with its numbers."""

from __future__ import annotations

from jobtop.core.job_id import is_job_id
from jobtop.core.measure.collectors.docker.model import Container, Endpoint
from jobtop.core.record import fresh, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.model import ContainerEvent, EngineInfo

    Number = int | float

CGROUP, STATS_API = "cgroup", "stats API"  # where numbers come from
HISTORY = 60  # values of each sparkline


@record
class EngineState:
    """One engine: what it says about itself, or why it does not answer, and since when that is so."""

    name: str
    url: str
    info: EngineInfo | None = None  # what it said last; also kept while it does not answer
    problem: str | None = None  # one line with the remedy; None: it answers, or was not asked yet
    since: float = 0.0  # seconds since the epoch
    origin: str = ""  # such as DOCKER_HOST, context NAME, socket
    is_asked: bool = True  # False: the first answer is still awaited

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.name, self.url, self.origin)


@record
class GpuUse:
    """What a container uses of one GPU; None is not known."""

    name: str
    percent: float | None = None
    memory_bytes: int | None = None


@record
class History:
    """The last values for sparklines, the oldest first; None where nothing was known."""

    cpu_percent: tuple[float | None, ...] = ()
    memory_bytes: tuple[int | None, ...] = ()


@record
class ContainerRow:
    """A container and what it uses.

    `values` are by catalogue key: gauges, counters as they stand, `cpu.percent`, and the limits of the engine.
    A key that is missing is not known: `absent` says why, by key or by the part of a key before the dot.
    """

    container: Container
    values: dict[str, Number] = fresh(default_factory=dict)
    rates: dict[str, float] = fresh(default_factory=dict)  # of counters, each second, between the last two readings
    working_set_bytes: int | None = None  # charged memory without page cache that was not used lately
    memory_peak_bytes: int | None = None  # of the charged memory, with page cache, as the kernel counts it
    gpus: tuple[GpuUse, ...] = ()
    history: History = History()
    source: str | None = None  # CGROUP or STATS_API; None: no numbers
    why_absent: str | None = None  # why there are no numbers at all
    absent: dict[str, str] = fresh(default_factory=dict)
    read_at: float | None = None  # seconds since the epoch
    events: tuple[ContainerEvent, ...] = ()  # the last ones since the monitor started, the oldest first

    @property
    def key(self) -> tuple[str, str]:
        """Name of the engine and id: unique in a snapshot."""
        return self.container.engine, self.container.id

    @property
    def job_id(self) -> str | None:
        """The job that started it, if its label is the id of a job."""
        found = self.container.job_id
        return found if is_job_id(found) else None

    @property
    def cpu_percent(self) -> float | None:
        """100 is one core; None until there are two readings."""
        return self.values.get("cpu.percent")

    @property
    def memory_bytes(self) -> int | None:
        """Memory in use without page cache."""
        found = self.values.get("mem.used")
        return None if found is None else int(found)

    def reason(self, key: str) -> str | None:
        """Why a value is absent; None if it is there, or no reason is known."""
        if key in self.values:
            return None
        return self.absent.get(key) or self.absent.get(key.partition(".")[0]) or self.why_absent


@record
class Containers:
    """One snapshot: rows are in the order of their engines, then by name.

    Rows are containers that are alive and those that ended while the monitor watched; with `every`, all there are.
    """

    engines: tuple[EngineState, ...] = ()
    rows: tuple[ContainerRow, ...] = ()
    at: float = 0.0  # seconds since the epoch
