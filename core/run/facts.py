"""Reads and checks what a shim reports: the files `started`, `ended` and `marks` of a job, and its messages.

These facts decide which processes are signalled, which cgroups are removed and what the store keeps. The tables below
give the type and the range of each fact; a fact in no table is kept as text. core/shim/facts.py writes them.
"""

import errno
import os
from collections.abc import Iterator, Mapping

from jobtop.core.errors import EvidenceDamaged
from jobtop.core.measure.collectors import cgroup
from jobtop.core.model import Identity
from jobtop.core.record import record
from jobtop.core.state_files import open_job_file

Mark = tuple[float, int, int | None]  # the age of the job in seconds, and the sizes of its one or two logs

STARTED, ENDED, MARKS = "started", "ended", "marks"
VERSION = "1"
IRREGULAR = "it is not a regular file"
DAMAGING = {errno.ELOOP: "it is a link", errno.ENXIO: IRREGULAR, errno.EINVAL: IRREGULAR}  # errors of open(2)
MOST_BYTES, MOST_VALUE_BYTES = 4 * 1024 * 1024, 64 * 1024
MOST_MARKS, MOST_MARKS_BYTES = 300_000, 16 * 1024 * 1024  # five weeks of output without a break
LARGEST = 2**62  # the sum of two such numbers fits into the 64 bits of the store
LATEST_SECONDS = 1e11  # since the epoch: the year 5138
LONGEST_SECONDS = 1e9  # since boot: 30 years
LARGEST_PID = 2**31 - 1
# The largest valid value of each integer.
INTEGERS = {
    **dict.fromkeys(
        "minflt majflt nvcsw nivcsw rchar wchar chars_missing reaped seen peak threads left".split(), LARGEST
    ),
    **dict.fromkeys("maxrss floor hwm own_rss recorder_rss memory_limit oom_before".split(), LARGEST),
    **dict.fromkeys("inblock oublock".split(), LARGEST // 512),
    "final": 1,
    "subreaper": 1,
    "status": 0xFFFF,
}
NUMBERS = dict.fromkeys("utime stime looked before_cgroup own_cpu recorder_cpu".split(), LATEST_SECONDS)
MOMENTS = ("start", "end", "last", "counted")
PROCESSES = ("shim", "main")
# The facts that each file must have. The last one is also written last: without it the file is not finished.
NEEDED = {
    STARTED: ("version", "boot", "shim", "main", "start", "subreaper"),
    ENDED: (
        *("version", "final", "start", "end", "last", "utime", "stime", "minflt", "majflt", "inblock", "oublock"),
        *("nvcsw", "nivcsw", "maxrss", "floor", "hwm", "rchar", "wchar", "chars_missing", "reaped", "seen", "peak"),
        *("threads", "left", "own_cpu", "own_rss"),
    ),
}


@record
class Started:
    """How a job was started: its processes, its start time and its cgroups."""

    shim: Identity
    main: Identity
    start_time: float
    start_boottime: float
    cgroups: tuple[str, ...]
    memory_limit: int | None = None  # to be enforced by the sampler


class Facts(Mapping[str, str]):
    """The checked `key value` lines of one file or message; a key can be repeated.

    Raises EvidenceDamaged if a line is invalid or missing.
    """

    def __init__(self, text: str, file_name: str | None = None) -> None:
        self._rows: dict[str, list[str]] = {}
        self._integers: dict[str, int] = {}
        self._numbers: dict[str, float] = {}
        self._moments: dict[str, tuple[float, float]] = {}
        self._processes: dict[str, tuple[int, int | None]] = {}
        for line in text.split("\n"):
            key, _, value = line.partition(" ")
            if key:
                self._take(key, _unescaped(value))
        file_name = file_name or (STARTED if "shim" in self else ENDED)
        for key in NEEDED[file_name]:
            if key not in self:
                raise EvidenceDamaged(f"{key} is missing")
        if file_name == ENDED and "status" not in self and "exec_error" not in self:
            raise EvidenceDamaged("status is missing")

    def __getitem__(self, key: str) -> str:
        return self._rows[key][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def note(self, key: str, value: float) -> None:
        """Set a fact that only the recorder knows."""
        self._rows.pop(key, None)
        self._take(key, str(value))

    def every(self, key: str) -> list[str]:
        """All values of a key that can be repeated."""
        return self._rows.get(key, [])

    def integer(self, key: str, default: int | None = None) -> int:
        return self._integers[key] if default is None else self._integers.get(key, default)

    def number(self, key: str, default: float | None = None) -> float:
        return self._numbers[key] if default is None else self._numbers.get(key, default)

    def moment(self, key: str) -> tuple[float, float]:
        """The wall clock and the seconds since boot."""
        return self._moments[key]

    def exec_error(self) -> tuple[str, int]:
        """The stage at which the command could not be started, and the errno."""
        stage, _, number = self["exec_error"].partition(" ")
        return stage, int(number)

    def limits(self) -> dict[str, str]:
        """The enforced limits, and what enforces each; `nothing: REASON` is a limit that is not enforced."""
        return dict(entry.split(" ", 1) for entry in self.every("limit"))

    def started(self) -> Started:
        """How the job was started."""
        return Started(
            Identity(self["boot"], *self._processes["shim"]),
            Identity(self["boot"], *self._processes["main"]),
            *self.moment("start"),
            tuple(self.every("cgroup")),
            self._integers.get("memory_limit"),
        )

    def _take(self, key: str, value: str) -> None:
        """Check and keep one line."""
        if len(value) > MOST_VALUE_BYTES:
            raise EvidenceDamaged(f"{key[:40]!r} has {len(value)} characters")
        if key in INTEGERS:
            self._integers[key] = _integer(key, value, INTEGERS[key])
        elif key in NUMBERS:
            self._numbers[key] = _number(key, value, NUMBERS[key])
        elif key in MOMENTS:
            wall, boot = _words(key, value, 2)
            self._moments[key] = _number(key, wall, LATEST_SECONDS), _number(key, boot, LONGEST_SECONDS)
        elif key in PROCESSES:
            self._processes[key] = _process(key, value)
        elif key in CHECKS:
            CHECKS[key](key, value)
        self._rows.setdefault(key, []).append(value)


def read_facts(directory: object, file_name: str) -> tuple[Facts | None, str | None]:
    """The facts in one file of a job's directory, or what is wrong with them.

    Both are None if the file does not exist or is not finished.
    """
    name = os.path.join(str(directory), file_name)
    try:
        data = _read(name, MOST_BYTES)
        if data is None or f"\n{NEEDED[file_name][-1]} ".encode() not in data or not data.endswith(b"\n"):
            return None, None
        facts = Facts(data.decode("utf-8", "surrogateescape"), file_name)
        for path in facts.every("cgroup"):
            if os.path.basename(path) != cgroup.PREFIX + os.path.basename(str(directory)):
                raise EvidenceDamaged("cgroup is not of this job")
    except EvidenceDamaged as error:
        return None, f"{name}: {error}"
    return facts, None


def read_started(directory: object) -> Started | None:
    """How a job was started; None if the file is missing or damaged. Only directories that are cgroups are kept."""
    facts, _ = read_facts(directory, STARTED)
    return None if facts is None else reachable(facts.started())


def reachable(started: Started) -> Started:
    """Keep only directories in a cgroup file system: the others must not be removed, nor their processes signalled."""
    if not started.cgroups:
        return started
    from jobtop.core.record import replace

    return replace(started, cgroups=cgroup.mounted(started.cgroups))


def read_marks(directory: object, start: int = 0) -> tuple[list[Mark], int]:
    """The marks from a file offset on, and the offset of the next one; invalid marks are left out."""
    try:
        data = _read(os.path.join(str(directory), MARKS), MOST_MARKS_BYTES, start) or b""
    except EvidenceDamaged:
        return [], start
    size = data.rfind(b"\n") + 1  # the last line may not be finished
    lines = data[:size].split(b"\n")[:MOST_MARKS]
    return [mark for line in lines if (mark := _mark(line)) is not None], start + size


def damage_in(directory: object) -> str | None:
    """What is wrong with the files of a shim in a job's directory; None if nothing is."""
    damages = (read_facts(directory, file_name)[1] for file_name in NEEDED)
    return next((damage for damage in damages if damage is not None), None) or _damage_of_marks(directory)


def _damage_of_marks(directory: object) -> str | None:
    name = os.path.join(str(directory), MARKS)
    try:
        *lines, _ = (_read(name, MOST_MARKS_BYTES, 0) or b"").split(b"\n")
    except EvidenceDamaged as error:
        return f"{name}: {error}"
    wrong = sum(_mark(line) is None for line in lines)
    return f"{name}: {wrong} of {len(lines)} lines are not marks" if wrong else None


def _read(name: str, most: int, start: int | None = None) -> bytes | None:
    """The content of a regular file of at most this many bytes, from `start` on; None if it cannot be read now."""
    try:
        fd = open_job_file(*os.path.split(name))
    except OSError as error:
        if error.errno in DAMAGING:
            raise EvidenceDamaged(DAMAGING[error.errno]) from error
        return None
    try:
        status = os.fstat(fd)
        if start is None and status.st_size > most:
            raise EvidenceDamaged(f"it has {status.st_size} bytes, more than {most}")
        return os.pread(fd, max(0, most - (start or 0)), start or 0)
    except OSError:
        return None
    finally:
        os.close(fd)


def _mark(line: bytes) -> Mark | None:
    words = line.decode("ascii", "replace").split()
    if len(words) not in (2, 3):
        return None
    try:
        elapsed = _number(MARKS, words[0], LONGEST_SECONDS)
        sizes = [_integer(MARKS, word, LARGEST) for word in words[1:]]
    except EvidenceDamaged:
        return None
    return elapsed, sizes[0], sizes[1] if len(sizes) > 1 else None


def _integer(key: str, text: str, most: int) -> int:
    # int() also accepts underscores, spaces and the digits of other scripts, and refuses thousands of digits.
    if not (text.isascii() and text.isdigit() and len(text) < 20) or int(text) > most:
        raise EvidenceDamaged(f"{key} is {text[:40]!r}, not a whole number up to {most}")
    return int(text)


def _number(key: str, text: str, most: float) -> float:
    try:
        value = float(text) if text.isascii() and "_" not in text else -1.0
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:  # false for NaN too
        raise EvidenceDamaged(f"{key} is {text[:40]!r}, not a number up to {most:g}")
    return value


def _words(key: str, text: str, count: int) -> list[str]:
    words = text.split(" ", count - 1)
    if len(words) != count or not all(words):
        raise EvidenceDamaged(f"{key} is {text[:40]!r}, not {count} words")
    return words


def _process(key: str, text: str) -> tuple[int, int | None]:
    """A pid above 0, and the start time of the process; None on systems that do not report it."""
    pid, start = _words(key, text, 2)
    number = _integer(key, pid, LARGEST_PID)
    if number == 0:
        raise EvidenceDamaged(f"{key} is {text[:40]!r}, not a process")
    return number, None if start == "None" else _integer(key, start, LARGEST)


def _check_version(key: str, text: str) -> None:
    if text != VERSION:
        raise EvidenceDamaged(f"{key} is {text[:40]!r}, this jobtop knows {VERSION}")


def _check_boot(key: str, text: str) -> None:
    if not (text.isascii() and text.isprintable() and 0 < len(text) <= 100):
        raise EvidenceDamaged(f"{key} is {text[:40]!r}, not a boot id")


def _check_exec_error(key: str, text: str) -> None:
    _integer(key, _words(key, text, 2)[1], 0xFFFF)


def _check_limit(key: str, text: str) -> None:
    _words(key, text, 2)


def _check_cgroup(key: str, text: str) -> None:
    """Check that the path can be a cgroup of jobtop: it will be removed, and the processes in it signalled."""
    if not text.startswith("/") or os.path.normpath(text) != text or "\0" in text:
        raise EvidenceDamaged(f"{key} is {text[:80]!r}, not a plain path")
    if not os.path.basename(text).startswith(cgroup.PREFIX):
        raise EvidenceDamaged(f"{key} is {text[:80]!r}, not a cgroup of jobtop")


CHECKS = {
    "version": _check_version,
    "boot": _check_boot,
    "exec_error": _check_exec_error,
    "limit": _check_limit,
    "cgroup": _check_cgroup,
}


def _unescaped(value: str) -> str:
    if "\\" not in value:
        return value
    return value.replace("\\\\", "\0").replace("\\n", "\n").replace("\0", "\\")
