"""Adds up how far the positions of a job's open files move: bytes of each file that were read and written.

A position moves by read and write. It does not move by pread, pwrite and mmap: those bytes cannot be seen. A process
that seeks moves it without reading: it never counts for more than the process has read or written by system calls.
"""

from __future__ import annotations

from jobtop.core.measure.collectors.files.reading import BOTH, READ, WRITE
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jobtop.core.measure.collectors.files.reading import Descriptor, FileId

    Key = tuple[int, int]  # pid and number of the descriptor
    Growth = tuple[int, int]  # bytes that a process has read and written meanwhile

SAME_MOVE = 0.05  # two descriptors that moved alike by all but this share are one open file, inherited by fork
UNKNOWN = 1 << 62


@record
class ProcessFiles:
    """The open files of one process at a moment, and what it has read and written by system calls until then."""

    pid: int
    parent: int
    read_chars: int | None
    write_chars: int | None
    descriptors: Sequence[Descriptor]


class FileTotals:
    """What was seen of one file. `passes`: how often it was read from its start, `moved` if its position ever moved.

    `unknown_bytes`: moved through a descriptor to read and to write, and it could have been either.
    """

    __slots__ = (
        *("descriptor", "is_estimate", "moved", "passes", "pids", "read_bytes", "readings", "written_bytes"),
        *("forward_bytes", "forward_key", "is_readable", "is_writable", "unknown_bytes"),
    )

    def __init__(self, descriptor: Descriptor) -> None:
        self.descriptor = descriptor
        self.read_bytes = self.written_bytes = self.unknown_bytes = 0
        self.is_readable = self.is_writable = False  # whether it was ever open to read, and to write
        self.passes = 0
        self.is_estimate = self.moved = False
        self.readings = 0
        self.pids: set[int] = set()
        self.forward_bytes = 0  # of the descriptor that moved forward most in the last reading …
        self.forward_key: Key | None = None  # … and which that is

    @property
    def known_read_bytes(self) -> int | None:
        """The bytes that were seen to be read; 0 if it was never open to read, None if that is not known."""
        return self.read_bytes or (None if self.is_readable else 0)

    @property
    def known_written_bytes(self) -> int | None:
        """The bytes that were seen to be written; 0 if it was never open to write, None if that is not known."""
        return self.written_bytes or (None if self.is_writable else 0)


class Move:
    """One descriptor between two readings."""

    __slots__ = (
        *("amount", "before", "descriptor", "growth", "is_estimate", "is_new_pass", "is_writing", "key"),
        "unknown_bytes",
    )

    def __init__(self, key: Key, descriptor: Descriptor, before: int, growth: int, is_writing: bool) -> None:
        self.key, self.descriptor, self.before, self.growth, self.is_writing = (
            *(key, descriptor, before, growth),
            is_writing,
        )
        self.is_estimate, self.unknown_bytes = descriptor.mode == BOTH, 0
        position = descriptor.position or 0
        self.amount = position - before
        self.is_new_pass = before == 0 and position > 0
        if self.amount < 0:
            self._take_fall(position)
        if self.amount > growth:  # it was moved by a seek
            self.amount, self.is_estimate = max(0, growth), True

    def _take_fall(self, position: int) -> None:
        """A position that fell: from the start again if so much was read, after the rest of the file if even more."""
        rest = max(0, (self.descriptor.size_bytes or 0) - self.before)
        self.is_new_pass = 0 < position <= self.growth
        self.amount = position + rest if position + rest <= self.growth != UNKNOWN else position
        self.is_estimate = True


def move_both_ways(key: Key, descriptor: Descriptor, known: Descriptor | None, before: int, growth: Growth) -> Move:
    """The move of a file that is open to read and to write: what cannot have been in the other direction counts."""
    position, (grown_read, grown_written) = descriptor.position or 0, growth
    most = grown_read + grown_written
    forward = position - before
    if forward < 0 or forward > most:  # a seek: the process has to have moved bytes in one direction only
        moved = min(position if forward < 0 else forward, most)
        read = moved if not grown_written else 0
        written = moved if not grown_read else 0
    else:
        moved = forward
        read, written = max(0, moved - grown_written), max(0, moved - grown_read)
        if known is not None and known.size_bytes is not None:  # what lies behind the former end was written
            appended = position - max(before, known.size_bytes)
            written = max(written, min(appended, grown_written))
    is_writing = written >= read
    move = Move(key, descriptor, before, grown_written if is_writing else grown_read, is_writing)
    move.amount = written if is_writing else read
    move.unknown_bytes = moved - move.amount
    return move


class Progress:
    """Takes readings of the processes of a job; keeps totals of each file."""

    def __init__(self) -> None:
        self.files: dict[FileId, FileTotals] = {}
        self._known: dict[Key, tuple[Descriptor, int | None, int | None]] = {}
        self._counters: dict[int, tuple[int | None, int | None]] = {}  # of each process in its last reading

    def known(self, pid: int, fd: int) -> Descriptor | None:
        """A descriptor as it was last read."""
        found = self._known.get((pid, fd))
        return None if found is None else found[0]

    def take(self, processes: Iterable[ProcessFiles]) -> None:
        """Add what has moved since the last reading of each descriptor."""
        for totals in self.files.values():
            totals.forward_bytes, totals.forward_key = 0, None
        moves: list[Move] = []
        for process in processes:
            moves += self._limited([self._move(process, found) for found in process.descriptors])
            self._counters[process.pid] = process.read_chars, process.write_chars
        for move in self._distinct(moves):
            self._add(move)

    def note_mapped(self, descriptor: Descriptor, pid: int) -> None:
        """Note a file that a process has mapped; one that is open too is known by its position."""
        # In maps, some file systems give a file another device number: its path decides.
        same = (totals for totals in self.files.values() if totals.descriptor.path == descriptor.path)
        totals = next(same, None)
        if totals is None:
            totals = self.files[descriptor.file] = FileTotals(descriptor)
            totals.is_readable = totals.is_writable = True  # the descriptor may have been open for both
        totals.is_writable = totals.is_writable or descriptor.mode != READ
        totals.pids.add(pid)

    def forget(self, pids: set[int]) -> None:
        """Forget the descriptors of processes that have exited; the totals stay."""
        self._known = {key: value for key, value in self._known.items() if key[0] not in pids}
        for pid in pids:
            self._counters.pop(pid, None)

    def drop(self, pid: int, open_fds: set[int]) -> None:
        """Forget the descriptors that a process has closed: the next file with that number is another one."""
        closed = [key for key in self._known if key[0] == pid and key[1] not in open_fds]
        for key in closed:
            del self._known[key]

    def _move(self, process: ProcessFiles, descriptor: Descriptor) -> Move:
        key = process.pid, descriptor.fd
        known, read, written = self._known.get(key, (None, 0, 0))
        if known is None or known.file != descriptor.file:
            inherited = self.known(process.parent, descriptor.fd)
            is_same = inherited is not None and inherited.file == descriptor.file
            before = (inherited.position or 0) if inherited is not None and is_same else 0
            if before > (descriptor.position or 0):
                before = 0
            if descriptor.mode == BOTH:  # what was read and written before it was opened did not move it
                read, written = self._counters.get(process.pid, (0, 0))
            known = None
        else:
            before = known.position or 0
        self._known[key] = descriptor, process.read_chars, process.write_chars
        growth = grown(process.read_chars, read), grown(process.write_chars, written)
        if descriptor.mode == BOTH:
            return move_both_ways(key, descriptor, known, before, growth)
        is_writing = descriptor.mode == WRITE
        return Move(key, descriptor, before, growth[1] if is_writing else growth[0], is_writing)

    @staticmethod
    def _limited(moves: list[Move]) -> list[Move]:
        """The moves of one process: together no more than it has read or written."""
        for is_writing in (False, True):
            chosen = [move for move in moves if move.is_writing is is_writing and move.amount > 0]
            total, most = sum(move.amount for move in chosen), max((move.growth for move in chosen), default=0)
            if total > most:
                for move in chosen:
                    move.amount, move.is_estimate = move.amount * most // total, True
        return moves

    @staticmethod
    def _distinct(moves: list[Move]) -> list[Move]:
        """Each open file once: after a fork several processes have it, with one position."""
        kept: dict[tuple[FileId, str, int, int, bool], list[Move]] = {}
        for move in moves:
            place = move.descriptor.file, move.descriptor.mode, move.descriptor.fd, move.before, move.is_writing
            alike = kept.setdefault(place, [])
            position = move.descriptor.position or 0
            for other in alike:
                apart = abs(position - (other.descriptor.position or 0))
                if other.key[0] != move.key[0] and apart <= SAME_MOVE * abs(position - move.before):
                    full = max(0, position - move.before) or max(move.amount, other.amount)
                    other.amount = min(full, other.amount + move.amount)
                    break
            else:
                alike.append(move)
        return [move for group in kept.values() for move in group]

    def _add(self, move: Move) -> None:
        descriptor = move.descriptor
        totals = self.files.get(descriptor.file)
        if totals is None:
            totals = self.files[descriptor.file] = FileTotals(descriptor)
        totals.is_readable = totals.is_readable or descriptor.mode != WRITE
        totals.is_writable = totals.is_writable or descriptor.mode != READ
        totals.unknown_bytes += move.unknown_bytes
        totals.moved = totals.moved or move.amount > 0 or move.unknown_bytes > 0
        if move.amount > 0:
            totals.is_estimate = totals.is_estimate or move.is_estimate
            if move.is_writing:
                totals.written_bytes += move.amount
            else:
                totals.read_bytes += move.amount
                totals.passes += move.is_new_pass
        forward = (descriptor.position or 0) - move.before
        if totals.forward_key is None or forward > totals.forward_bytes:
            totals.forward_bytes, totals.forward_key, totals.descriptor = forward, move.key, descriptor
        totals.readings += 1
        totals.pids.add(move.key[0])


def grown(now: int | None, before: int | None) -> int:
    """By how much a counter has grown; without a counter there is no limit, and a smaller one is another process's."""
    if now is None:
        return UNKNOWN
    return now - before if before is not None and now >= before else now
