"""What is known of the processes of one job: each live process as last read, and what exited processes left."""

from __future__ import annotations

import os

from jobtop.core.measure.collectors.process_fields import COLUMN, FIELDS, INHERITED, WIDTH, are_counts, make_row
from jobtop.core.procfs import pid_clock

TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Fields of /proc/PID/stat after the name.
STATE, PPID, MINFLT, CMINFLT, MAJFLT, CMAJFLT, UTIME, STIME, CUTIME, CSTIME = 0, 1, 7, 8, 9, 10, 11, 12, 13, 14
THREADS, START, VSIZE, RSS = 17, 19, 20, 21
USER, SYSTEM, MINOR, MAJOR = (COLUMN[key] for key in ("cpu.user", "cpu.system", "mem.faults_minor", "mem.faults_major"))
DISCARDED_SECONDS, DISCARDED_SHARE = 0.05, 0.1  # less is the rounding of c-times to ticks
LONGEST_READ_SECONDS = 0.002  # longer, and the moment of a reading is not known well enough for a rate
SETTLED = (0.0, 0.0)
DRIFT = 0.02  # of the resident memory, and PSS is read again
SMALL_BYTES = 4 * 1024 * 1024  # of new processes, or that an exited one shared: not worth a detailed read at once
# Attributes that a row of the table of fields adds; the others are set by the methods below.
EXTRA = tuple(field.attribute for field in FIELDS if field.read is not None)


class Member:
    """One process of a job as it was last read."""

    __slots__ = (
        *("clock", "cpu_ns", "cpu_system", "cpu_user", "faults_major", "faults_minor", "has_reaped", "io_fd", "moved"),
        *("name", "own", "own_faults", "parent", "pid", "pss", "pss_at", "pss_faults", "pss_rss", "read_bytes"),
        *(
            "read_chars",
            "read_ops",
            "row",
            "rss",
            "start",
            "stat_fd",
            "state",
            "threads",
            "times",
            "tree",
            "vms",
            "write_bytes",
        ),
        *("write_chars", "write_ops", *EXTRA),
    )
    swap: int | None

    def __init__(self, pid: int, start: int, tree: Tree, parent: int = 0) -> None:
        self.pid, self.start, self.tree, self.parent, self.clock = pid, start, tree, parent, pid_clock(pid)
        self.stat_fd = self.io_fd = -1  # descriptors of its files that stay open
        self.cpu_ns: int | None = None  # its own time by its clock
        self.cpu_user = self.cpu_system = 0.0  # seconds, with those of its reaped children
        self.times = (0.0, 0.0, 0.0, 0.0)  # by `stat`: user, system, and those of reaped children
        self.name = b""  # and what is before it in `stat`; changes with an exec
        self.state = "?"
        self.faults_minor = self.faults_major = 0  # with those of its reaped children
        self.own_faults = 0  # minor ones, without those of reaped children
        self.has_reaped = False  # a child
        self.rss = self.vms = 0
        self.threads = 1  # 0: a zombie
        self.read_chars: int | None = None
        self.write_chars: int | None = None
        self.read_ops: int | None = None
        self.write_ops: int | None = None
        self.read_bytes: int | None = None
        self.write_bytes: int | None = None
        self.moved = True  # has run since its expensive files were read
        self.pss: int | None = None
        self.own: int | None = None  # anonymous and shared memory at that time; read if the job left its cgroup
        self.pss_at = 0.0  # when `pss` was read, since boot
        self.pss_rss = 0  # what `rss` was when `pss` was read
        self.pss_faults = 0  # what `own_faults` was then
        self.row: tuple[float, ...] | None = None  # what it adds to its job; None: to be made again
        for attribute in EXTRA:
            setattr(self, attribute, None)

    @property
    def is_alive(self) -> bool:
        return self.threads > 0

    @property
    def live_count(self) -> int:
        return 1 if self.threads > 0 else 0

    @property
    def is_unread(self) -> bool:
        """Whether no detailed read has tried to read its PSS yet."""
        return self.pss is None and not self.pss_rss

    @property
    def share(self) -> int | None:
        """Its memory with shared pages split: PSS as last read, and what its resident memory has changed since."""
        return None if self.pss is None else max(0, self.pss + self.rss - self.pss_rss)

    def take_stat(self, fields: list[bytes]) -> None:
        """Take over what `stat` says."""
        self.row = None
        self.state, self.parent = fields[STATE].decode(), int(fields[PPID])
        self.times = (
            int(fields[UTIME]) * TICK_SECONDS,
            int(fields[STIME]) * TICK_SECONDS,
            int(fields[CUTIME]) * TICK_SECONDS,
            int(fields[CSTIME]) * TICK_SECONDS,
        )
        self.faults_major = int(fields[MAJFLT]) + int(fields[CMAJFLT])
        own_faults, rss = int(fields[MINFLT]), int(fields[RSS]) * PAGE_BYTES
        self.faults_minor = own_faults + int(fields[CMINFLT])
        if own_faults != self.own_faults or rss != self.rss:
            self.own_faults, self.rss = own_faults, rss
            self.tree.pages_version += 1
        self.has_reaped = fields[CMINFLT] != b"0"
        self.threads, self.vms = int(fields[THREADS]), int(fields[VSIZE])
        if self.state == "Z" and self.threads == 1:  # the first thread may have exited while others run
            self.threads = 0

    def take_io(self, words: list[bytes]) -> None:
        """Take over what `io` says: names and numbers in turn."""
        counts = words[1:12:2]
        if are_counts(counts):
            self.read_chars, self.write_chars, self.read_ops, self.write_ops, self.read_bytes, self.write_bytes = map(
                int, counts
            )

    def take_clock(self, cpu_ns: int) -> None:
        """Take over the CPU time of its clock, split into user and system time as the ticks in `stat` are."""
        self.cpu_ns, self.row = cpu_ns, None
        user, system, reaped_user, reaped_system = self.times
        own = cpu_ns / 1e9
        share = user / (user + system) if user + system > 0 else 1.0
        self.cpu_user, self.cpu_system = own * share + reaped_user, own * (1 - share) + reaped_system

    def make_row(self) -> tuple[float, ...]:
        """What it adds to its job, a number for each column of the table of fields."""
        self.row = row = make_row(self)
        return row


class Share:
    """What a detailed read found of the memory of one process at a moment since boot, and what was known before."""

    __slots__ = ("at", "faults", "member", "own", "pss", "rss")

    def __init__(self, member: Member, pss: int | None, own: int | None, at: float) -> None:
        self.member, self.pss, self.own, self.at = member, pss, own, at
        self.rss, self.faults = member.rss, member.own_faults


class Tree:
    """The live processes of one job, parents before children, and what its exited processes left.

    The root is the shim of the job, or its first process where it has no shim (`includes_root`).
    """

    __slots__ = (
        *("births", "changed", "counts_memfds", "details_pass", "details_version", "discarded", "drift_version"),
        *("exited", "has_details", "has_drifted", "has_exited", "has_left_cgroup", "high_bytes", "includes_root"),
        *("members", "members_changed", "memfd_bytes", "memfd_host_bytes", "memfd_resident_bytes"),
        *("memfd_unread_bytes", "newcomers"),
        *("pages_version", "possible", "possible_peak", "read_at", "reads_pss", "reaped", "reaped_growth", "root"),
        *("root_is_gone", "seen_once", "shares", "touched_bytes", "unread", "vanished", "version", "was_active"),
    )

    def __init__(self, root_pid: int, root_start: int = 0, changed: set[Tree] | None = None) -> None:
        """`changed` is a set to which it adds itself with each change."""
        self.root = Member(root_pid, root_start, self)
        self.changed = set() if changed is None else changed
        self.members: dict[int, Member] = {}
        self.includes_root = False
        self.root_is_gone = False
        self.high_bytes = 0  # the highest resident memory of one process, where no shim records it
        self.version = 0  # rises when a reading may differ from the one before
        self.births = 0
        self.read_at = 0.0
        self.was_active = True  # a process ran, came or went in the last sweep
        self.has_exited = False  # one of its processes at least
        self.exited: list[float] = [0] * WIDTH  # what exited processes left, as a row like those of the live ones
        self.reaped = (0.0, 0.0, 0, 0)  # by the shim: user, system, minor and major faults
        self.discarded = (0.0, 0.0)  # seconds of processes that were reaped by none (SIGCHLD ignored)
        self.vanished = SETTLED  # seconds of processes that vanished since `settle` …
        self.reaped_growth = 0.0  # … and by how much the c-times of the others have grown
        self.members_changed = True  # processes came and stayed, or went, since the last detailed read
        self.newcomers: list[Member] = []  # since the last pass over expensive files …
        self.seen_once: list[Member] = []  # … and in the one before
        self.details_pass = -(1 << 30)  # the number of the pass in which the last detailed read ended
        self.details_version = -1  # no process has run, come or gone since the detailed read at this version
        self.has_details = False
        self.unread: list[Member] = []  # processes of the detailed read that goes on …
        self.shares: list[Share] = []  # … and what it found
        self.has_left_cgroup = False  # one of its processes at least has left its memory cgroup
        self.counts_memfds = True  # no cgroup counts them
        self.memfd_bytes = 0  # of those that no process has mapped …
        self.memfd_host_bytes = 0  # … and what the whole host had in shared memory when they were last looked for
        self.memfd_resident_bytes = 0  # of its processes then
        self.memfd_unread_bytes = 0  # by how much that has grown since, where there was no time to look
        self.reads_pss = True
        self.pages_version = 0  # rises when pages of a process came or went
        self.drift_version = -1  # the `pages_version` that `has_drifted` is of
        self.has_drifted = False
        self.touched_bytes = 0  # pages that may have become a process's own since the last detailed read
        self.possible = (0, 0)  # the most the job may have held since then, and what was resident at that moment
        self.possible_peak = 0  # the most it may have held at all

    def note_change(self) -> None:
        """Note that a reading may differ from the one before."""
        self.version += 1
        self.changed.add(self)

    def include_root(self) -> None:
        """Count the root too."""
        self.includes_root = True
        self.members[self.root.pid] = self.root

    def note_left_cgroup(self, has_left: bool) -> None:
        """Note that a process is outside the job's memory cgroup: the memory of all has to be read from themselves."""
        if has_left and not self.has_left_cgroup:
            self.has_left_cgroup = self.members_changed = self.counts_memfds = True
            self.note_change()
            for member in self.members.values():
                member.moved = True

    def all_members(self) -> tuple[Member, ...]:
        """Every process that is read, in this order."""
        return (*self.members.values(),) if self.includes_root else (self.root, *self.members.values())

    def take_reaped(self, fields: list[bytes]) -> None:
        """Take over what the `stat` of the shim says of the processes that it reaped."""
        user, system = int(fields[CUTIME]) * TICK_SECONDS, int(fields[CSTIME]) * TICK_SECONDS
        reaped = (user, system, int(fields[CMINFLT]), int(fields[CMAJFLT]))
        self.reaped_growth += user + system - self.reaped[0] - self.reaped[1]
        if reaped != self.reaped:  # it wakes by itself too; no process lives without a page fault
            self.note_change()
        self.reaped = reaped
        self.has_exited = self.has_exited or any(reaped)
        self._update_exited()

    def account_for(self, member: Member, has_live_parent: bool) -> None:
        """Keep what cannot be read once a process is gone; the `io` of a live parent has that of its children."""
        self.was_active = self.has_exited = True
        self.pages_version += 1
        if member.pss is not None and self._is_much(member.rss - member.pss):  # the others share that no more
            self.members_changed = True
        self.vanished = (self.vanished[0] + member.cpu_user, self.vanished[1] + member.cpu_system)
        if not has_live_parent:
            row = member.row or member.make_row()
            for column in INHERITED:
                self.exited[column] += row[column]

    def settle(self) -> None:
        """Keep the CPU time of vanished processes that is in no c-times (SIGCHLD ignored), from their last samples."""
        vanished = sum(self.vanished)
        discarded = vanished - self.reaped_growth
        if discarded > max(DISCARDED_SECONDS, DISCARDED_SHARE * vanished):
            pairs = zip(self.discarded, self.vanished, strict=True)
            user, system = (before + discarded * part / vanished for before, part in pairs)
            self.discarded = user, system
            self._update_exited()
        self.vanished, self.reaped_growth = SETTLED, 0.0

    def _update_exited(self) -> None:
        exited, reaped, discarded = self.exited, self.reaped, self.discarded
        exited[USER], exited[SYSTEM] = reaped[0] + discarded[0], reaped[1] + discarded[1]
        exited[MINOR], exited[MAJOR] = reaped[2], reaped[3]

    def order(self) -> None:
        """Put parents before children again, after a pid went to another process."""
        rest, ordered = dict(self.members), {}
        while rest:
            heads = [pid for pid, member in rest.items() if member.parent not in rest or member.parent == pid]
            for pid in heads or list(rest):
                ordered[pid] = rest.pop(pid)
        self.members = ordered

    def begin_details(self) -> None:
        """Begin a detailed read of all processes; PSS only if pages came or went, which takes a fault."""
        self.measure_drift()
        self.reads_pss = self.members_changed or self.has_drifted
        self.unread, self.shares, self.members_changed = list(self.members.values()), [], False

    def end_details(self, number: int) -> None:
        """Note that the detailed read with this number is complete."""
        self.shares, self.details_pass, self.has_details = [], number, True
        if self.reads_pss:
            self.measure_drift()
            self._settle_possible()
        if not any(member.moved for member in self.members.values()):
            self.details_version = self.version

    def measure_drift(self) -> None:
        """Estimate how much the shares of memory may have changed since the last detailed read.

        A page that is written after a fork becomes a process's own without being one more: only a fault tells.
        """
        drift = resident = all_touched = unread = 0
        for member in self.members.values():
            resident += member.rss
            if member.is_unread:
                unread += member.rss
                continue
            touched = min(member.rss, (member.own_faults - member.pss_faults) * PAGE_BYTES)
            drift += max(abs(member.rss - member.pss_rss), touched)
            all_touched += touched
        if unread > SMALL_BYTES:  # else they are read if they stay
            drift += unread
            all_touched += unread
        self.drift_version, self.has_drifted = self.pages_version, drift > DRIFT * resident
        self.touched_bytes = all_touched

    def _settle_newcomers(self) -> None:
        """Have new processes read in detail that were there in the pass before too: most others exit before that."""
        have_stayed = any(member.is_unread and self.members.get(member.pid) is member for member in self.seen_once)
        self.seen_once, self.newcomers = self.newcomers, []
        if have_stayed or not self.has_details:
            self.members_changed = True

    def _is_much(self, size: int) -> bool:
        """Whether a job with so many bytes more or less would have another memory."""
        return size > SMALL_BYTES and size > DRIFT * sum(member.rss for member in self.members.values())

    def note_possible(self, used: float, resident: float) -> None:
        """Note what the job may hold now if all pages touched since the last detailed read became its own."""
        most = min(resident, used + self.touched_bytes)
        if most > self.possible[0]:
            self.possible = round(most), round(resident)

    def _settle_possible(self) -> None:
        """Correct what was possible by a detailed read: pages that were not freed since are counted now."""
        most, was_resident = self.possible
        used = sum(member.pss or 0 for member in self.members.values())
        resident = sum(member.rss for member in self.members.values())
        self.possible_peak = max(self.possible_peak, min(most, used + max(0, was_resident - resident)))
        self.possible = (0, 0)

    def has_stale_details(self, long_ago: int) -> bool:
        """Whether a detailed read would find anything new; after a long time it does if a process has run since."""
        if self.newcomers or self.seen_once:
            self._settle_newcomers()
        are_many = len(self.members) > 1  # a single process shares with no other
        if are_many and self.pages_version != self.drift_version:
            self.measure_drift()
        if not self.members or self.members_changed or self.unread:
            return bool(self.members)
        if self.details_pass <= long_ago:
            return any(member.moved for member in self.members.values())
        return are_many and self.has_drifted
