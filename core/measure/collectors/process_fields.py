"""The table of what is measured of one process; rows, sums and what exited processes leave are made from it.

A new metric of a process is a row of the catalogue and a row here (CONTRIBUTING.md has an example).
"""

from __future__ import annotations

import os
from enum import Enum, auto

from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.procfs import read_text, word_in
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobtop.core.measure.collectors.members import Member

    Number = int | float
    JobRow = tuple[Number | None, ...]  # the values of a job in the order of JOB_COLUMNS; None: not known

MOST_THREADS = 64  # context switches of a process with more threads are too expensive to read
MOST_DIGITS = 20  # of a number of 64 bits
SWITCHES = ("voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:")


class Exited(Enum):
    """What is left of a value when its process exits."""

    NOTHING = auto()  # a gauge
    REAPED = auto()  # the kernel adds it to the `stat` of the process that waits, so at last to that of the shim
    INHERITED = auto()  # the kernel adds it to a parent that waits; without a parent the last value is kept
    UNKNOWN = auto()  # reported only to the parent: a job with an exited process has no known value


class Presence(Enum):
    """When a job has a value."""

    ALWAYS = auto()
    SOME = auto()  # the sum over the processes that have one; absent if none has
    ALL = auto()  # absent unless every live process has one


class ProcessFiles:
    """The files of one process while its expensive values are read; `status` is read once for all of them."""

    __slots__ = ("_switches", "directory", "has_fd_sizes", "status")

    def __init__(self, directory: str, has_fd_sizes: bool = False) -> None:
        self.directory, self.has_fd_sizes = directory, has_fd_sizes
        self.status = read_text(f"{directory}/status")
        self._switches: tuple[int | None, int | None] | None = None

    def text(self, name: str) -> str:
        """A file of the process; nothing if it cannot be read."""
        return read_text(f"{self.directory}/{name}")

    def status_bytes(self, name: str) -> int | None:
        """A size in `status`, which is in KiB there."""
        kib = number_in(self.status, name)
        return None if kib is None else kib * 1024

    def switches(self) -> tuple[int | None, int | None]:
        """Voluntary and involuntary context switches of all threads: `status` of a process has those of its first."""
        if self._switches is None:
            self._switches = self._read_switches()
        return self._switches

    def _read_switches(self) -> tuple[int | None, int | None]:
        texts = [self.status]
        if (threads := number_in(self.status, "Threads:") or 1) > 1:
            try:
                tasks = os.listdir(f"{self.directory}/task") if threads <= MOST_THREADS else []
            except OSError:
                tasks = []
            texts = [self.text(f"task/{task}/status") for task in tasks]
        if not texts or not all(texts):
            return None, None
        voluntary, involuntary = ([number_in(text, name) for text in texts] for name in SWITCHES)
        if None in voluntary or None in involuntary:
            return None, None
        return sum(filter(None, voluntary)), sum(filter(None, involuntary))


def number_in(text: str, name: str) -> int | None:
    """The number after a name at the beginning of a line; None if there is none."""
    word = word_in(text, name)
    return int(word) if is_count(word) else None


def is_count(word: str | bytes) -> bool:
    """Whether a word is a number that a counter can have; `int` fails with other digits, and with very many."""
    return word.isdigit() and word.isascii() and len(word) <= MOST_DIGITS


def are_counts(words: list[bytes]) -> bool:
    """The same of several words at once."""
    return b"".join(words).isdigit() and max(map(len, words)) <= MOST_DIGITS


def read_swap(files: ProcessFiles) -> int | None:
    return files.status_bytes("VmSwap:")


def read_voluntary_switches(files: ProcessFiles) -> int | None:
    return files.switches()[0]


def read_involuntary_switches(files: ProcessFiles) -> int | None:
    return files.switches()[1]


def count_open_files(files: ProcessFiles) -> int | None:
    path = f"{files.directory}/fd"
    try:
        return os.stat(path).st_size if files.has_fd_sizes else len(os.listdir(path))  # the size since Linux 6.2
    except OSError:
        return None


@record
class ProcessField:
    """One value of a process: its catalogue key and the attribute of `Member` that has it, None where it is not known.

    With `read` the value is read together with the other expensive files, unless the setting monitor.without names
    `switch`. Fields of one `group` are read together: whether they are known is counted once for all of them.
    """

    key: str
    attribute: str
    exited: Exited = Exited.NOTHING
    presence: Presence = Presence.ALWAYS
    read: Callable[[ProcessFiles], Number | None] | None = None
    switch: str = ""
    group: str = ""


FIELDS: tuple[ProcessField, ...] = (
    ProcessField("cpu.user", "cpu_user", Exited.REAPED),
    ProcessField("cpu.system", "cpu_system", Exited.REAPED),
    ProcessField("mem.rss", "rss"),
    ProcessField("mem.vms", "vms"),
    ProcessField("mem.faults_minor", "faults_minor", Exited.REAPED),
    ProcessField("mem.faults_major", "faults_major", Exited.REAPED),
    ProcessField("proc.count", "live_count"),
    ProcessField("proc.threads", "threads"),
    ProcessField("io.read_chars", "read_chars", Exited.INHERITED, Presence.SOME, group="io"),
    ProcessField("io.write_chars", "write_chars", Exited.INHERITED, Presence.SOME, group="io"),
    ProcessField("io.read_ops", "read_ops", Exited.INHERITED, Presence.SOME, group="io"),
    ProcessField("io.write_ops", "write_ops", Exited.INHERITED, Presence.SOME, group="io"),
    ProcessField("io.read_bytes", "read_bytes", Exited.INHERITED, Presence.SOME, group="io"),
    ProcessField("io.write_bytes", "write_bytes", Exited.INHERITED, Presence.SOME, group="io"),
    ProcessField("mem.swap", "swap", presence=Presence.SOME, read=read_swap),
    ProcessField(
        "proc.switches_voluntary",
        "switches_voluntary",
        Exited.UNKNOWN,
        Presence.ALL,
        read_voluntary_switches,
        group="switches",
    ),
    ProcessField(
        "proc.switches_involuntary",
        "switches_involuntary",
        Exited.UNKNOWN,
        Presence.ALL,
        read_involuntary_switches,
        group="switches",
    ),
    ProcessField("proc.fds", "open_files", presence=Presence.SOME, read=count_open_files, switch="fds"),
    ProcessField("mem.pss", "share", presence=Presence.ALL),
)


@record
class Group:
    """Fields that are known together: their keys, and the column of a row that counts in how many processes.

    With `Presence.ALL` it counts the live processes in which they are not known.
    """

    name: str
    keys: tuple[str, ...]
    column: int
    presence: Presence
    exited: Exited


def groups_of(fields: Sequence[ProcessField]) -> tuple[Group, ...]:
    """The groups of the fields that may be absent; their columns follow those of the values."""
    named: dict[str, list[ProcessField]] = {}
    for field in fields:
        if field.presence is not Presence.ALWAYS:
            named.setdefault(field.group or field.key, []).append(field)
    return tuple(
        Group(name, tuple(one.key for one in group), len(fields) + place, group[0].presence, group[0].exited)
        for place, (name, group) in enumerate(named.items())
    )


def compile_row(fields: Sequence[ProcessField]) -> Callable[[Member], tuple[float, ...]]:
    """A function that makes the row of a process: a number for each field, 0 where absent, then those of the groups.

    It is compiled once, as a namedtuple is: a loop over the fields would take three times as long.
    """
    lines, values = ["def make_row(member):"], []
    variables: dict[str, str] = {}
    for place, field in enumerate(fields):
        value = f"member.{field.attribute}"
        if field.presence is not Presence.ALWAYS:
            lines.append(f"    value{place} = {value}")
            value = f"value{place}"
            variables.setdefault(field.group or field.key, value)
            value = f"0 if {value} is None else {value}"
        values.append(value)
    for group in groups_of(fields):
        first = variables[group.name]
        if group.presence is Presence.SOME:
            values.append(f"{first} is not None")
        elif group.exited is Exited.UNKNOWN:  # nor does a process tell of the children it has reaped
            values.append(f"({first} is None or member.has_reaped) and member.threads > 0")
        else:
            values.append(f"{first} is None and member.threads > 0")
    lines.append(f"    return ({', '.join(values)},)")
    scope: dict[str, Callable[[Member], tuple[float, ...]]] = {}
    exec("\n".join(lines), scope)
    return scope["make_row"]


def compile_job_row(
    fields: Sequence[ProcessField], columns: Sequence[str]
) -> Callable[[Sequence[float], bool, Number | None, Number | None], JobRow]:
    """A function that makes the row of a job of the sums of the rows of its processes; None where not known.

    It is given the sums, whether a process has exited, the memory that the job uses, and its PSS.
    """
    groups = groups_of(fields)
    places = {field.key: place for place, field in enumerate(fields)}
    values = {key: f"value{place}" for key, place in places.items()}
    for group in groups:
        count, alive = f"value{group.column}", f"value{places['proc.count']}"
        is_absent = f"not {count}" if group.presence is Presence.SOME else f"{count} or not {alive}"
        if group.exited is Exited.UNKNOWN:
            is_absent += " or has_exited"
        values |= {key: f"None if {is_absent} else {values[key]}" for key in group.keys}
    values |= {"mem.used": "used", "mem.pss": "pss"}
    names = ", ".join(f"value{place}" for place in range(len(fields) + len(groups)))
    made = ", ".join(values.get(key, "None") for key in columns)
    lines = ("def make_job_row(sums, has_exited, used, pss):", f"    {names} = sums", f"    return ({made},)")
    scope: dict[str, Callable[[Sequence[float], bool, Number | None, Number | None], JobRow]] = {}
    exec("\n".join(lines), scope)
    return scope["make_job_row"]


COLUMN = {field.key: place for place, field in enumerate(FIELDS)}
GROUPS = groups_of(FIELDS)
WIDTH = len(FIELDS) + len(GROUPS)
READ_IN_DETAIL = tuple((field.attribute, field.read, field.switch) for field in FIELDS if field.read is not None)
# What a process leaves to its job when it exits and has no parent in it: values, and that they are known.
INHERITED = (
    *(place for place, field in enumerate(FIELDS) if field.exited is Exited.INHERITED),
    *(group.column for group in GROUPS if group.exited is Exited.INHERITED),
)
make_row, make_job_row = compile_row(FIELDS), compile_job_row(FIELDS, JOB_COLUMNS)
