"""What DRM drivers write into /proc/PID/fdinfo/FD of an open GPU, and what two such readings mean. Pure.

The format is that of the kernel's drm-usage-stats.rst.
"""

from __future__ import annotations

from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

UNITS = {"": 1, "B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
MOST_PERCENT = 100.0
OWN_MEMORY = ("vram", "local")  # regions on the card; all others are memory of the machine
EVICTED = ("cpu",)  # amdgpu: buffers that the GPU cannot reach now
SILENT_AT_ZERO = ("amdgpu",)  # these drivers leave out engines that a client has not used
# Which sizes of buffers to take, the best first: in memory now, the same by an older name, asked for.
SIZES = ("drm-resident-", "drm-memory-", "drm-total-")


@record
class Engine:
    """How long a class of engines was busy for a client; `total` is the clock of cycles, None if it is nanoseconds."""

    busy: int
    total: int | None
    capacity: int


@record
class Client:
    """One open file of a GPU: duplicates of a descriptor, in other processes too, are the same client."""

    address: str  # of the GPU on the PCI bus; empty where the driver does not tell
    number: int
    driver: str
    engines: Mapping[str, Engine]
    memory_bytes: Mapping[str, int]  # by region


def parse(text: str) -> Client | None:
    """The client of a descriptor; None if it is none of a GPU, or the driver tells nothing."""
    if not text.endswith("\n"):  # torn: an engine that is not listed would count as idle
        return None
    pairs = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.startswith("drm-"):
            pairs[key] = value.strip()
    number = _number(pairs.get("drm-client-id", ""))
    if number is None or "drm-driver" not in pairs:
        return None
    return Client(pairs.get("drm-pdev", ""), number, pairs["drm-driver"], _engines(pairs), _memory(pairs))


def _engines(pairs: Mapping[str, str]) -> dict[str, Engine]:
    capacities = _starting(pairs, "drm-engine-capacity-")
    times = {name: value for name, value in _starting(pairs, "drm-engine-").items() if not name.startswith("capacity-")}
    found = {name: Engine(value, None, capacities.get(name) or 1) for name, value in times.items()}
    totals = _starting(pairs, "drm-total-cycles-")
    for name, value in _starting(pairs, "drm-cycles-").items():
        if name not in found and name in totals:
            found[name] = Engine(value, totals[name], capacities.get(name) or 1)
    return found


def _memory(pairs: Mapping[str, str]) -> dict[str, int]:
    for start in SIZES:
        if sizes := {name: size for name, size in _starting(pairs, start).items() if not name.startswith("cycles-")}:
            return sizes
    return {}


def _starting(pairs: Mapping[str, str], start: str) -> dict[str, int]:
    """The numbers of all keys that begin like this, by the rest of the key."""
    found = {key.removeprefix(start): _number(value) for key, value in pairs.items() if key.startswith(start)}
    return {name: value for name, value in found.items() if value is not None}


def _number(text: str) -> int | None:
    """A number with an optional unit: bytes where it is one of memory, else nanoseconds or cycles."""
    digits, _, unit = text.partition(" ")
    if not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits) * UNITS.get(unit.strip(), 1)


def memory_in_use(client: Client, is_integrated: bool) -> int | None:
    """The memory of the card that a client holds; of an integrated GPU, which has none, that of the machine."""
    sizes = client.memory_bytes
    own = [size for region, size in sizes.items() if region.startswith(OWN_MEMORY)]
    if own and not is_integrated:
        return sum(own)
    reachable = [size for region, size in sizes.items() if region not in EVICTED]
    return sum(reachable) if reachable else None


def counts(client: Client) -> bool:
    """Whether its driver counts the time of engines."""
    return bool(client.engines) or client.driver in SILENT_AT_ZERO


class ClientLoad:
    """How busy a client keeps the GPU: the class of engines that it uses most, in percent.

    A counter may step back, and catches up later: no percentage until then.
    """

    __slots__ = ("_engines", "_moment")

    def __init__(self) -> None:
        self._engines: dict[str, tuple[Engine, float]] = {}  # the highest reading of each, and its moment
        self._moment: float | None = None

    def percent(self, client: Client, now: float) -> float | None:
        """Since the reading before; None in the first one, and where no engine has a counter."""
        before, self._moment = self._moment, now
        shares: list[float | None] = []
        for name, engine in client.engines.items():
            known = self._engines.get(name)
            if known is None and before is not None:
                known = Engine(0, None, 1), before  # an engine that it did not use before
            if known is not None and engine.busy < known[0].busy:
                return None
            self._engines[name] = engine, now
            shares.append(None if known is None else _share(known, engine, now))
        if not client.engines and counts(client) and before is not None:
            return 0.0
        found = [share for share in shares if share is not None]
        return min(MOST_PERCENT, max(found)) if found else None


def _share(known: tuple[Engine, float], engine: Engine, now: float) -> float | None:
    earlier, moment = known
    span = (now - moment) * 1e9
    if engine.total is not None:
        span = engine.total - earlier.total if earlier.total is not None else 0
    return None if span <= 0 else 100.0 * (engine.busy - earlier.busy) / span / engine.capacity
