"""Divides the CPU time of a process among the blocks that are open in it, so that no second counts twice."""

from __future__ import annotations

from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    ReadCpu = Callable[[], tuple[float, float]]  # user and system seconds of the process
    ReadThread = Callable[[int], float | None]  # seconds of a thread by its id; None if it has exited


@record
class OwnCpu:
    """What a block used of the CPU time of its process; `divided_seconds` of it are of threads of several blocks."""

    user_seconds: float
    system_seconds: float
    divided_seconds: float
    has_overlapped: bool  # with a block that is neither around it nor inside of it
    shares_thread: bool = False  # such a block was open in the same thread, as in asyncio


class OpenBlock:
    """A block that is open, and what it has used so far."""

    __slots__ = (
        "divided_seconds",
        "has_overlapped",
        "parent",
        "shares_thread",
        "system_seconds",
        "threads",
        "user_seconds",
    )

    def __init__(self, parent: str | None, thread: int) -> None:
        self.parent, self.threads = parent, {thread}
        self.user_seconds = self.system_seconds = self.divided_seconds = 0.0
        self.has_overlapped = self.shares_thread = False


class Ledger:
    """The open blocks of a process.

    The time of a thread belongs to the innermost block that was opened in it, or that was open where it was started.
    What is left (threads of native libraries, and those of no block) is divided among the innermost blocks. A block
    has what the blocks inside of it have. While only one block is open, all time is its own.
    """

    def __init__(self, read_cpu: ReadCpu, read_thread: ReadThread) -> None:
        self._read_cpu, self._read_thread = read_cpu, read_thread
        self._blocks: dict[str, OpenBlock] = {}
        self._last = (0.0, 0.0)
        self._thread_seconds: dict[int, float] = {}  # as they were last read
        self._ended_seconds: dict[str, float] = {}  # of threads that have exited since, by block
        self._left_out_seconds = 0.0  # since the last call of `_settle`

    def __len__(self) -> int:
        return len(self._blocks)

    def open(self, key: str, parent: str | None, thread: int) -> None:
        """Count for a block from now on; `parent` is the block around it."""
        self._settle()
        self._blocks[key] = OpenBlock(parent if parent in self._blocks else None, thread)
        leaves = self.innermost()
        if len(leaves) > 1:
            for leaf in leaves:
                for block in self._chain(leaf):
                    # What is around all innermost blocks overlaps with none of them.
                    block.has_overlapped |= not all(block in self._chain(other) for other in leaves)
        self._thread_seconds[thread] = self._read_thread(thread) or 0.0

    def close(self, key: str) -> OwnCpu:
        """Stop counting for a block, and return what it used."""
        self._settle()
        block = self._blocks.pop(key)
        for other in self._blocks.values():
            if other.parent == key:  # closed before a block inside of it
                other.parent = block.parent
        if block.parent in self._blocks:
            self._blocks[block.parent].threads |= block.threads
        known = {thread for each in self._blocks.values() for thread in each.threads}
        self._thread_seconds = {thread: self._thread_seconds.get(thread, 0.0) for thread in known}
        return OwnCpu(
            block.user_seconds, block.system_seconds, block.divided_seconds, block.has_overlapped, block.shares_thread
        )

    def leave_out(self, thread: int, seconds: float) -> None:
        """Count CPU time of a thread for no block: it was used to track them."""
        self._left_out_seconds += seconds
        if thread in self._thread_seconds:
            self._thread_seconds[thread] += seconds

    def used(self) -> dict[str, tuple[float, float]]:
        """User and system seconds of each open block until now."""
        self._settle()
        return {key: (block.user_seconds, block.system_seconds) for key, block in self._blocks.items()}

    def innermost(self) -> list[str]:
        """The open blocks without an open block inside."""
        around = {block.parent for block in self._blocks.values()}
        return [key for key in self._blocks if key not in around]

    def owners(self, thread: int) -> list[str]:
        """The blocks that the time of a thread belongs to: the innermost ones that have it."""
        having = [key for key, block in self._blocks.items() if thread in block.threads]
        inner = set(self.innermost())
        return [key for key in having if key in inner] or having[-1:]

    def threads(self) -> dict[str, list[int]]:
        """The threads of each open block."""
        return {key: sorted(block.threads) for key, block in self._blocks.items()}

    def thread_began(self, key: str, thread: int, seconds: float = 0.0) -> None:
        """Give a thread to the block in which it was started; `seconds` it used before do not count."""
        if key in self._blocks and thread not in self._blocks[key].threads:
            self._blocks[key].threads.add(thread)
            self._thread_seconds[thread] = seconds

    def thread_ended(self, key: str, thread: int, seconds: float) -> None:
        """Take over the whole CPU time of a thread that exits."""
        if key in self._blocks and thread in self._blocks[key].threads:
            self._blocks[key].threads.discard(thread)
            rest = seconds - self._thread_seconds.pop(thread, 0.0)
            self._ended_seconds[key] = self._ended_seconds.get(key, 0.0) + max(0.0, rest)

    def _settle(self) -> None:
        """Divide the CPU time since the last call."""
        user, system = self._read_cpu()
        user_growth, system_growth = user - self._last[0], system - self._last[1]
        self._last = user, system
        known = self._known_growth()
        grown = user_growth + system_growth
        total, self._left_out_seconds = grown - self._left_out_seconds, 0.0
        if not self._blocks or total <= 0:
            return
        user_share = user_growth / grown
        parts = divided(total, known if len(self._blocks) > 1 else {}, self.innermost())
        for key, (seconds, divided_seconds) in parts.items():
            for block in self._chain(key):
                block.user_seconds += seconds * user_share
                block.system_seconds += seconds * (1 - user_share)
                block.divided_seconds += divided_seconds

    def _known_growth(self) -> dict[str, float]:
        """How much the threads of each block have used since the last call."""
        known, self._ended_seconds = self._ended_seconds, {}
        for thread, before in self._thread_seconds.items():
            seconds = self._read_thread(thread)
            owners = self.owners(thread)
            if seconds is not None and owners:
                self._thread_seconds[thread] = seconds
                share = max(0.0, seconds - before) / len(owners)
                for key in owners:
                    known[key] = known.get(key, 0.0) + share
                    if len(owners) > 1:
                        for block in self._chain(key):
                            block.divided_seconds += share
                            block.shares_thread = True
        return known

    def _chain(self, key: str | None) -> list[OpenBlock]:
        """A block and those around it."""
        return [self._blocks[name] for name in self.chain(key)]

    def chain(self, key: str | None) -> list[str]:
        """The names of a block and of those around it."""
        names = []
        while key is not None and key in self._blocks:
            names.append(key)
            key = self._blocks[key].parent
        return names


def divided(total: float, known: Mapping[str, float], rest_for: Iterable[str]) -> dict[str, tuple[float, float]]:
    """Divide seconds: what is known, and an equal share of the rest; of each part, how much of it was divided.

    A part is divided if there is more than one to share the rest.
    """
    sharing = list(rest_for)
    sum_known = sum(known.values())
    scale = min(1.0, total / sum_known) if sum_known > 0 else 1.0  # clocks are not read at the same moment
    rest = max(0.0, total - sum_known * scale)
    parts = {key: (seconds * scale, 0.0) for key, seconds in known.items()}
    for key in sharing:
        share = rest / len(sharing)
        parts[key] = parts.get(key, (0.0, 0.0))[0] + share, share if len(sharing) > 1 else 0.0
    return parts
