"""The heaviest processes of a job at a moment, with their command lines."""

from __future__ import annotations

import os

from jobtop.core.measure.collectors.busy_threads import BusyThreads
from jobtop.core.measure.collectors.members import TICK_SECONDS
from jobtop.core.measure.snapshot import ProcessRow
from jobtop.core.redact import redact_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobtop.core.measure.collectors.busy_threads import ThreadBudget
    from jobtop.core.measure.collectors.members import Member, Tree
    from jobtop.core.measure.snapshot import ThreadLine

KEPT = 30
READ_AT_ONCE = 10  # commands of the first processes of a job
LONGEST_COMMAND = 300
LONGEST_READ = 4096


class Heaviest:
    """Reads the processes of one job repeatedly; the CPU share of a process is that since the last reading."""

    def __init__(self, secret: Sequence[str] = ()) -> None:
        self._secret = secret
        self._looked_at = 0.0
        self._cpu: dict[tuple[int, int], float] = {}
        self._commands: dict[tuple[int, int], tuple[bytes, str]] = {}
        self._version = self._births = -1
        self._present: list[Member] = []
        self._threads = BusyThreads()

    def learn(self, proc: str, tree: Tree) -> None:
        """Remember the processes, and read the commands of a small job: after its end they cannot be read.

        Where many processes start and exit, only those that were there in the sample before too.
        """
        if tree.members:
            self._present = list(tree.members.values())
        if tree.births != self._births and len(tree.members) <= KEPT:
            passing = tree.seen_once if tree.births > READ_AT_ONCE else []
            self._births = tree.births - len(passing)
            for member in tree.members.values():
                if member not in passing:
                    self._command(proc, member)

    def learn_threads(self, proc: str, tree: Tree, budget: ThreadBudget) -> None:
        """Read the busiest threads of a young job: it may end before its next snapshot."""
        members = [member for member in tree.members.values() if member.threads > 1]
        if members:
            used = {(member.pid, member.start): own_seconds(member) for member in members}
            self._threads.read(proc, members, used, tree.read_at, budget)

    def rows(
        self, proc: str, tree: Tree, last_read_at: float | None = None, budget: ThreadBudget | None = None
    ) -> list[ProcessRow] | None:
        """The heaviest members, parents before children; None if nothing has happened since the last look.

        With the moment at which members were last read it is the last look, which counts anyway. If a sweep has found
        that all of them exited, it is a look at what was read of them before. The budget is for their busiest threads.
        """
        if tree.version == self._version and last_read_at is None:
            return None
        present, now = list(tree.members.values()), tree.read_at if last_read_at is None else last_read_at
        if last_read_at is not None and not present:
            present = self._present
        seconds, before = now - self._looked_at, self._cpu
        self._looked_at, self._version = now, tree.version
        members = [member for member in present if member.cpu_ns is not None]
        self._cpu = {(member.pid, member.start): own_seconds(member) for member in members}
        used = {key: cpu - before.get(key, 0.0) for key, cpu in self._cpu.items()}
        if len(members) > KEPT:
            members = heaviest(members, used)
        if budget is not None:
            self._threads.read(proc, members, used, now, budget)
        rows = []
        for member in members:
            key = member.pid, member.start
            age = max(0.0, now - member.start * TICK_SECONDS)
            recent = used[key] / min(seconds, age) if min(seconds, age) > 0 else None
            rows.append(row(self._command(proc, member), member, age, recent, self._threads.of(member)))
        self._commands = {key: known for key, known in self._commands.items() if key in self._cpu}
        return rows

    def _command(self, proc: str, member: Member) -> str:
        """Read at the first sample of a process and after an exec, which changes the name."""
        name, command = self._commands.get((member.pid, member.start), (None, ""))
        if name != member.name or not command:
            command = command_of(proc, member.pid, self._secret) or command or short_name(member)
            self._commands[member.pid, member.start] = member.name, command
        return command


def heaviest(members: list[Member], used: dict[tuple[int, int], float]) -> list[Member]:
    """Those with the largest share of the CPU time and the memory of all, in the order they came."""
    cpu, memory = sum(used.values()) or 1.0, sum(member.rss for member in members) or 1
    weights = {member.pid: used[member.pid, member.start] / cpu + member.rss / memory for member in members}
    chosen = set(sorted(weights, key=weights.__getitem__, reverse=True)[:KEPT])
    return [member for member in members if member.pid in chosen]


def own_seconds(member: Member) -> float:
    return (member.cpu_ns or 0) / 1e9


def row(
    command: str, member: Member, age: float, recent: float | None, busiest: tuple[ThreadLine, ...] = ()
) -> ProcessRow:
    return ProcessRow(
        member.pid,
        member.parent,
        command,
        own_seconds(member),
        None if recent is None else 100 * recent,
        member.rss if member.pss is None else max(0, member.pss + member.rss - member.pss_rss),
        member.threads,
        age,
        member.state,
        busiest,
    )


def short_name(member: Member) -> str:
    """The name of a process in brackets, as `stat` had it; nothing if that was never read."""
    name = os.fsdecode(member.name.partition(b"(")[2])
    return f"[{name}]" if name else ""


def command_of(proc: str, pid: int, secret: Sequence[str] = ()) -> str:
    """The command line without its secrets; of a process that has none, its name in brackets, as ps shows it.

    Nothing if the process is gone.
    """
    words = _read(f"{proc}/{pid}/cmdline").rstrip(b"\0").split(b"\0")
    if words != [b""]:
        return " ".join(redact_command([os.fsdecode(word) for word in words], secret))[:LONGEST_COMMAND]
    name = os.fsdecode(_read(f"{proc}/{pid}/comm").rstrip())
    return f"[{name}]" if name else ""


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, LONGEST_READ)
    except OSError:  # ESRCH: it exited after its file was opened
        return b""
    finally:
        os.close(fd)
