"""What is remembered of the processes of one job: each living member as last read, and what the dead have left."""

from __future__ import annotations

import os

from jobtop.core.procfs import pid_clock

TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Fields of /proc/PID/stat after the name.
STATE, PPID, MINFLT, CMINFLT, MAJFLT, CMAJFLT, UTIME, STIME, CUTIME, CSTIME = 0, 1, 7, 8, 9, 10, 11, 12, 13, 14
THREADS, START, VSIZE, RSS = 17, 19, 20, 21
NO_IO = (0,) * 6  # rchar wchar syscr syscw read_bytes write_bytes
NEVER_LOOKED_AT = (None, None, None, None)
LOST_SECONDS, LOST_SHARE = 0.05, 0.1  # less is the rounding of c-times to ticks
LONGEST_READ_SECONDS = 0.002  # longer, and the moment of a reading is not known well enough for a rate
SETTLED = (0.0, 0.0)
DRIFT = 0.02  # of the resident memory, and PSS is read again


class Member:
    """One process of a job as it was last read."""

    __slots__ = (
        *("clock", "cpu_ns", "faults", "fds", "has_reaped", "io", "moved", "name", "own", "own_faults", "parent"),
        *(
            "pid",
            "pss",
            "pss_faults",
            "pss_rss",
            "row",
            "rss",
            "slow",
            "start",
            "state",
            "threads",
            "times",
            "tree",
            "vms",
        ),
    )

    def __init__(self, pid: int, start: int, tree: Tree, parent: int = 0) -> None:
        self.pid, self.start, self.tree, self.parent, self.clock = pid, start, tree, parent, pid_clock(pid)
        self.fds: dict[str, int] = {}
        self.cpu_ns: int | None = None
        self.times = (0.0, 0.0, 0.0, 0.0)  # user, system, and those of reaped children
        self.name = b""  # and what is before it in `stat`; changes with an exec
        self.state = "?"
        self.faults = (0, 0)
        self.own_faults = 0  # minor ones, without those of reaped children
        self.has_reaped = False  # children, whose switches it alone is told
        self.rss = self.vms = 0
        self.threads = 1  # none is a zombie
        self.io: tuple[int, ...] | None = None
        self.slow: tuple[int | None, ...] | None = None  # swap, voluntary and involuntary switches, descriptors
        self.moved = True  # has run since `slow` was read
        self.pss: int | None = None
        self.own: int | None = None  # anonymous and shared memory at that time; read if the job left its cgroup
        self.pss_rss = 0  # what `rss` was when `pss` was read
        self.pss_faults = 0  # what `own_faults` was then
        self.row: tuple[float, ...] | None = None  # what it adds to its job; None: to be made anew

    def take(self, fields: list[bytes]) -> None:
        """What `stat` says."""
        self.row = None
        self.state, self.parent = fields[STATE].decode(), int(fields[PPID])
        self.times = (
            int(fields[UTIME]) * TICK_SECONDS,
            int(fields[STIME]) * TICK_SECONDS,
            int(fields[CUTIME]) * TICK_SECONDS,
            int(fields[CSTIME]) * TICK_SECONDS,
        )
        self.faults = (int(fields[MINFLT]) + int(fields[CMINFLT]), int(fields[MAJFLT]) + int(fields[CMAJFLT]))
        own_faults, rss = int(fields[MINFLT]), int(fields[RSS]) * PAGE_BYTES
        if own_faults != self.own_faults or rss != self.rss:
            self.own_faults, self.rss = own_faults, rss
            self.tree.pages_version += 1
        self.has_reaped = fields[CMINFLT] != b"0"
        self.threads, self.vms = int(fields[THREADS]), int(fields[VSIZE])
        if self.state == "Z" and self.threads == 1:  # a leader may be dead and its threads at work
            self.threads = 0

    def cpu(self) -> tuple[float, float]:
        """User and system seconds, its reaped children's with it; the clock is split as the ticks are."""
        user, system, reaped_user, reaped_system = self.times
        own = (self.cpu_ns or 0) / 1e9
        share = user / (user + system) if user + system > 0 else 1.0
        return own * share + reaped_user, own * (1 - share) + reaped_system

    def added(self) -> tuple[float, ...]:
        """What it adds to its job, in the order that `fold` knows: rows are added up where C does the loops."""
        swap, voluntary, involuntary, descriptors = self.slow or NEVER_LOOKED_AT
        used = None if self.pss is None else max(0, self.pss + self.rss - self.pss_rss)
        self.row = (
            *self.cpu(),
            self.rss,
            self.vms,
            *self.faults,
            self.threads > 0,
            self.threads,
            *(self.io or NO_IO),
            swap or 0,
            voluntary or 0,
            involuntary or 0,
            descriptors or 0,
            used or 0,
            self.io is not None,
            swap is not None,
            voluntary is not None and not self.has_reaped,
            descriptors is not None,
            used is None and self.threads > 0,
        )
        return self.row


class Share:
    """What a close look found of a member, and what had been read of it at that moment."""

    __slots__ = ("faults", "member", "own", "pss", "rss")

    def __init__(self, member: Member, pss: int | None, own: int | None) -> None:
        self.member, self.pss, self.own, self.rss, self.faults = member, pss, own, member.rss, member.own_faults


class Tree:
    """The living members of one job, parents before children, and what its dead have left."""

    def __init__(self, shim_pid: int, shim_start: int = 0) -> None:
        self.shim = Member(shim_pid, shim_start, self)
        self.members: dict[int, Member] = {}
        self.includes_root = False  # the root is a process of the job, not its shim
        self.gone = False  # the root
        self.high_bytes = 0  # the highest mark of a member, where no shim keeps it
        self.version = 0  # rises when a reading may differ from the one before
        self.roster_version = 0
        self.births = 0
        self.read_at = 0.0
        self.reaped = (0.0, 0.0, 0, 0)  # by the shim: user, system, minor and major faults
        self.lost = (0.0, 0.0)  # seconds of those nobody waited for
        self.knows_switches = True  # those of the dead nobody tells
        self.io_left: tuple[int, ...] | None = None
        self.owed = SETTLED  # seconds of those who vanished since the last settlement …
        self.risen = 0.0  # … and by how much the c-times of the others have grown
        self.is_restless = True  # somebody ran, came or went when it was last looked at
        self.changed = True  # members came or went since the last close look
        self.looked_at = -(1 << 30)  # the number of the look
        self.look_began = self.looked_boottime = 0.0
        self.fresh_version = -1  # nobody has run, come or gone since a close look
        self.was_looked_at = False
        self.unlooked: list[Member] = []  # of the close look that goes on …
        self.looked: list[Share] = []  # … and what it found
        self.has_left = False  # its memory cgroup, one of its processes at least
        self.wants_memfds = True  # no cgroup counts them
        self.memfd_bytes = 0  # of those that no process has mapped …
        self.memfd_version = -1  # … when they were last looked for …
        self.memfd_machine_bytes = 0  # … and what all of the machine had in shared memory
        self.memfd_unread_bytes = 0  # by how much that has grown meanwhile, where there was no time to look
        self.wants_pss = True
        self.pages_version = 0  # rises when pages of a member came or went
        self.drift_version = -1  # that of them when this was worked out: …
        self.has_drifted = False
        self.unread_bytes = 0  # pages that may have become a process's own since the last close look
        self.possible = (0, 0)  # the most the job may have held since then, and what was resident at that moment
        self.possible_peak = 0  # the most it may have held at all

    def include_root(self) -> None:
        """Count the root too."""
        self.includes_root = True
        self.members[self.shim.pid] = self.shim

    def note_left(self, has_left: bool) -> None:
        """That a process is outside the job's memory cgroup: its memory has to be read from itself, all at once."""
        if has_left and not self.has_left:
            self.has_left = self.changed = self.wants_memfds = True
            for member in self.members.values():
                member.moved = True

    def everybody(self) -> tuple[Member, ...]:
        """Whoever is read, in this order."""
        return (*self.members.values(),) if self.includes_root else (self.shim, *self.members.values())

    def left(self) -> tuple[float, ...]:
        """What the dead have left, as a row like those of the living."""
        user, system, minor, major = self.reaped
        return (
            user + self.lost[0],
            system + self.lost[1],
            *(0, 0, minor, major, 0, 0),
            *(self.io_left or NO_IO),
            *(0, 0, 0, 0, 0),
            self.io_left is not None,
            *(0, 0, 0, 0),
        )

    def account_for(self, member: Member, parent_lives: bool) -> None:
        """Keep what is nowhere to be read once a member is gone; a living parent's `io` has that of its children."""
        self.changed = self.is_restless = True
        self.pages_version += 1
        user, system = member.cpu()
        self.owed = (self.owed[0] + user, self.owed[1] + system)
        if member.io is not None and not parent_lives:
            left = self.io_left or (0,) * len(member.io)
            self.io_left = tuple(a + b for a, b in zip(left, member.io, strict=True))
        self.knows_switches = False

    def settle(self) -> None:
        """What the vanished had used and no parent's c-times have got (SIGCHLD ignored) is kept from their samples."""
        owed = sum(self.owed)
        lost = owed - self.risen
        if lost > max(LOST_SECONDS, LOST_SHARE * owed):
            self.lost = (self.lost[0] + lost * self.owed[0] / owed, self.lost[1] + lost * self.owed[1] / owed)
        self.owed, self.risen = SETTLED, 0.0

    def order(self) -> None:
        """Parents before children again, after a pid went to another process."""
        rest, ordered = dict(self.members), {}
        while rest:
            heads = [pid for pid, member in rest.items() if member.parent not in rest or member.parent == pid]
            for pid in heads or list(rest):
                ordered[pid] = rest.pop(pid)
        self.members = ordered

    def begin_look(self, boottime: float) -> None:
        """All members, and their shares only if pages came or went: nobody gets or loses one without a fault."""
        self.look_began = boottime if len(self.members) > 1 else 0.0  # one alone has no shares
        self.measure_drift()
        self.wants_pss = self.changed or self.has_drifted
        self.unlooked, self.looked, self.changed = list(self.members.values()), [], False

    def end_look(self, number: int) -> None:
        self.looked, self.looked_at, self.was_looked_at = [], number, True
        if self.wants_pss:
            self.looked_boottime = self.look_began
            self.measure_drift()
            self._settle_possible()
        if not any(member.moved for member in self.members.values()):
            self.fresh_version = self.version

    def measure_drift(self) -> None:
        """How much the shares may have changed since the last close look.

        A page that is written after a fork becomes a process's own without being one more: only a fault tells.
        """
        drift = held = unread = 0
        for member in self.members.values():
            touched = min(member.rss, (member.own_faults - member.pss_faults) * PAGE_BYTES)
            drift += max(abs(member.rss - member.pss_rss), touched)
            unread += touched
            held += member.rss
        self.drift_version, self.has_drifted, self.unread_bytes = self.pages_version, drift > DRIFT * held, unread

    def note_possible(self, used: float, resident: float) -> None:
        """Remember what the job may hold now if all pages that were touched since the last close look are its own."""
        most = min(resident, used + self.unread_bytes)
        if most > self.possible[0]:
            self.possible = round(most), round(resident)

    def _settle_possible(self) -> None:
        """A close look tells what was true of it: pages that were not given back since are counted now."""
        most, was_resident = self.possible
        used = sum(member.pss or 0 for member in self.members.values())
        resident = sum(member.rss for member in self.members.values())
        self.possible_peak = max(self.possible_peak, min(most, used + max(0, was_resident - resident)))
        self.possible = (0, 0)

    def is_stale(self, long_ago: int) -> bool:
        """Whether a close look would see anything new; one that was long ago would if a process has run since."""
        are_many = len(self.members) > 1  # one alone shares with no other
        if are_many and self.pages_version != self.drift_version:
            self.measure_drift()
        if not self.members or self.changed or self.unlooked:
            return bool(self.members)
        if self.looked_at <= long_ago:
            return any(member.moved for member in self.members.values())
        return are_many and self.has_drifted
