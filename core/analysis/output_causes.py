"""Finds what the last lines of a job's output say about its end: tracebacks and messages of well-known failures. Pure.

A strong sign is one that a program prints because it cannot go on. A weak sign is printed by a parent about its child,
or by programs that do go on: it counts only if there is no strong one. The last sign counts, except that the message
of a batch system counts first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from jobtop.core.analysis.evidence import Cause
from jobtop.core.record import record, replace

TRACEBACK = "Traceback (most recent call last):"
SEARCHED_LINES = 200
NOT_FOUND = 127  # the exit code of shells for a command that does not exist
BATCH = (Cause.BATCH_TIME, Cause.BATCH_MEMORY, Cause.BATCH_CANCELLED)
_LIBRARY_PATHS = ("/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python", "<frozen", "<string>")
_FRAME = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+)(?:, in (?P<name>.*))?$')
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?::|$)")
# A launcher that reports the failure of another process: its own traceback says nothing.
_ABOUT_CHILDREN = re.compile(
    r"(?:^|\.)(?:CalledProcessError|ChildFailedError|ProcessRaisedException|BrokenProcessPool)"
)


@record
class Sign:
    """One sign in the output: `text` as it should be shown, `place` its line; `subject` is what it names.

    `frame` is where a Python exception was raised, in a file that belongs to no library.
    """

    cause: Cause
    text: str
    place: int
    is_strong: bool = True
    subject: str | None = None
    frame: str | None = None


@record
class Pattern:
    """What a line has to match, and what it then means; the group `shown` is the telling part of the line."""

    cause: Cause
    expression: re.Pattern[str]
    is_strong: bool = True
    needs: re.Pattern[str] | None = None  # to be found in one of the next lines


def _pattern(cause: Cause, expression: str, strong: bool = True, needs: str = "") -> Pattern:
    return Pattern(cause, re.compile(expression), strong, re.compile(needs) if needs else None)


PATTERNS = (
    _pattern(Cause.BATCH_TIME, r"^(?:\d+: )?slurmstepd.*\*\*\* (?P<subject>(?:JOB|STEP) \S+) .*DUE TO TIME LIMIT"),
    _pattern(Cause.BATCH_TIME, r"PBS: job killed: (?:walltime|cput) .*exceeded limit"),
    _pattern(Cause.BATCH_TIME, r"TERM_(?:RUN|CPU)LIMIT: job killed"),
    _pattern(Cause.BATCH_TIME, r"exceed(?:s|ed) job (?:hard|soft) limit \"?[hs]_(?:rt|cpu)"),
    _pattern(
        Cause.BATCH_MEMORY,
        r"^(?:\d+: )?slurmstepd.*(?:oom_kill event|oom-kill event|[Ee]xceeded (?:job|step) memory limit)",
    ),
    _pattern(Cause.BATCH_MEMORY, r"PBS: job killed: (?:v?mem|pv?mem) .*exceeded limit"),
    _pattern(Cause.BATCH_MEMORY, r"TERM_MEMLIMIT: job killed"),
    _pattern(Cause.BATCH_CANCELLED, r"^(?:\d+: )?slurmstepd.*\*\*\* (?P<subject>(?:JOB|STEP) \S+) .*CANCELLED AT"),
    _pattern(Cause.BATCH_CANCELLED, r"PBS: job killed: |TERM_(?:OWNER|ADMIN|PREEMPT|FORCE_\w+): job killed"),
    _pattern(
        Cause.GPU_MEMORY,
        r"(?:CUDA|HIP|XPU|MPS backend) out of memory.*?[Tt]ried to allocate (?P<size>[\d.]+ ?[KMGT]i?B)"
        r"(?:.*?GPU (?P<gpu>\d+))?",
    ),
    _pattern(Cause.GPU_MEMORY, r"(?:CUDA|HIP) out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation"),
    _pattern(Cause.GPU_MEMORY, r"CUDA error: out of memory|CUDNN_STATUS_ALLOC_FAILED|CUBLAS_STATUS_ALLOC_FAILED"),
    _pattern(Cause.GPU_MEMORY, r"(?P<shown>OOM when allocating tensor with shape\S* .*?device:(?P<device>GPU:\d+))"),
    _pattern(Cause.GPU_MEMORY, r"(?P<shown>RESOURCE_EXHAUSTED: .*[Oo]ut of memory.*)"),
    _pattern(Cause.DISK_FULL, r"No space left on device: '.*' -> '(?P<subject>[^']+)'"),
    _pattern(Cause.DISK_FULL, r"No space left on device: '(?P<subject>[^']+)'"),
    _pattern(Cause.DISK_FULL, r"['‘\"](?P<subject>[^'‘’\"]+)['’\"]: No space left on device"),
    _pattern(Cause.DISK_FULL, r"(?:^|: )(?P<subject>[^\s:'\"]*/[^\s:'\"]*): No space left on device"),
    _pattern(Cause.DISK_FULL, r"No space left on device(?::? '?(?P<subject>/[^']*)'?)?"),
    _pattern(Cause.QUOTA, r"Disk quota exceeded(?::? '?(?P<subject>/[^']*)'?)?"),
    _pattern(Cause.ALLOCATION, r"(?P<shown>java\.lang\.OutOfMemoryError.*)"),
    _pattern(Cause.ALLOCATION, r"cannot allocate vector of size|OOM when allocating tensor"),
    _pattern(Cause.ALLOCATION, r"^fatal error: runtime: (?:out of memory|cannot allocate memory)"),
    _pattern(Cause.ALLOCATION, r"terminate called .*std::bad_alloc|what\(\): +std::bad_alloc"),
    _pattern(Cause.PROCESSES, r"(?i)(?:fork|clone|pthread_create|thread)\b.*Resource temporarily unavailable"),
    _pattern(Cause.PROCESSES, r"can't start new thread|OutOfMemoryError: unable to create native thread"),
    _pattern(Cause.PROCESSES, r"\bCannot fork\b|fork.*No more processes"),
    _pattern(
        Cause.ALLOCATION, r"Cannot allocate memory|^(?:numpy\S*)?_?ArrayMemoryError|^MemoryError\b|memory exhausted"
    ),
    _pattern(Cause.OPEN_FILES, r"Too many open files"),
    _pattern(Cause.MISSING_MODULE, r"^(?:ModuleNotFoundError|ImportError): No module named '?(?P<subject>[\w.]+)"),
    _pattern(Cause.MISSING_MODULE, r"(?P<shown>No module named '?(?P<subject>[\w.]+)'?)$"),
    _pattern(Cause.MISSING_MODULE, r"Error: Cannot find module '(?P<subject>[^']+)'"),
    _pattern(Cause.MISSING_MODULE, r"there is no package called [‘'\"](?P<subject>[^’'\"]+)"),
    _pattern(Cause.MISSING_MODULE, r"(?P<shown>Can't locate (?P<subject>\S+) in @INC)"),
    _pattern(Cause.MISSING_LIBRARY, r"error while loading shared libraries: (?P<subject>[^:]+):"),
    _pattern(Cause.MISSING_LIBRARY, r"(?:^|\s)(?P<subject>\S+): cannot open shared object file"),
    _pattern(Cause.MISSING_LIBRARY, r"version [`'](?P<subject>\S+)' not found"),
    _pattern(Cause.MISSING_COMMAND, r"(?:^|: )(?P<subject>[^:\s]+): (?:command )?not found$", strong=False),
    _pattern(Cause.MISSING_COMMAND, r"^env: .(?P<subject>[^’']+).: No such file or directory", strong=False),
    _pattern(Cause.ASSERTION, r"Assertion [`'].*' failed"),
    _pattern(Cause.CRASH, r"(?P<shown>Fatal Python error: .*)"),
    _pattern(
        Cause.CRASH,
        r"(?:^|: line \d+: +\d+ |: \d+: |\] Signal: )"
        r"(?P<shown>Segmentation fault|Bus error|Illegal instruction|Floating point exception)\b",
    ),
    _pattern(Cause.CRASH, r"\*\*\* stack smashing detected|double free or corruption|free\(\): invalid pointer"),
    _pattern(Cause.EXCEPTION, r"^(?:SyntaxError|IndentationError|TabError): "),
    _pattern(Cause.EXCEPTION, r"^(?P<shown>thread '[^']*' (?:\(\d+\) )?panicked at .*)"),
    _pattern(Cause.EXCEPTION, r"^(?P<shown>panic: .*)", needs=r"^goroutine \d+"),
    _pattern(Cause.EXCEPTION, r"^fatal error: .*", needs=r"^goroutine \d+"),
    _pattern(Cause.EXCEPTION, r'^Exception in thread "[^"]*" (?P<shown>.*)'),
    _pattern(Cause.EXCEPTION, r"^terminate called after throwing an instance of (?P<shown>.*)"),
    _pattern(Cause.IO_ERROR, r"Input/output error"),
    _pattern(Cause.MPI, r"MPI_ABORT was invoked|MPI_Abort\(|Abort\(\d+\) on node", strong=False),
    _pattern(Cause.MPI, r"(?:mpirun|mpiexec|prterun) noticed that process rank", strong=False),
    _pattern(Cause.MPI, r"(?:mpirun|mpiexec|prterun) detected that one or more processes exited", strong=False),
    _pattern(Cause.KILLED, r"^(?P<shown>Killed)$|: line \d+: +\d+ Killed\b", strong=False),
    _pattern(Cause.KILLED, r"worker \(pid\S* \d+\) (?:is killed by signal|exited unexpectedly).*", strong=False),
)
_CHILD_PID = re.compile(
    r": line \d+: +(\d+) (?:Killed|Segmentation fault|Bus error|Illegal instruction|Aborted)"
    r"|worker \(pid\S* (\d+)\) (?:is killed by signal|exited unexpectedly)"
)
NEXT_LINES = 6


def find_signs(lines: Sequence[str], exit_code: int | None = None) -> list[Sign]:
    """The signs in the last lines of one stream, in the order of their lines."""
    lines = lines[-SEARCHED_LINES:]
    found = list(_tracebacks(lines))
    signs = [sign for _, sign in found]
    inside = {place for start, sign in found for place in range(start, sign.place + 1)}  # source lines may be quoted
    for place, line in enumerate(lines):
        if place not in inside and (sign := _matched(line, place, lines)) is not None:
            signs.append(sign)
    return sorted((_weighed(sign, exit_code) for sign in signs), key=lambda sign: sign.place)


def best_sign(signs: Sequence[Sign]) -> Sign | None:
    """The sign that explains the end best; None if there is none."""
    batch = [sign for sign in signs if sign.cause in BATCH]
    strong = [sign for sign in signs if sign.is_strong]
    found = batch[:1] or strong[-1:] or list(signs[-1:])
    return found[0] if found else None


def child_pids(lines: Sequence[str]) -> set[int]:
    """The pids that the output names as killed or crashed, as in `run.sh: line 3: 4711 Killed`."""
    found = (_CHILD_PID.search(line) for line in lines[-SEARCHED_LINES:])
    return {int(match[1] or match[2]) for match in found if match is not None}


def _weighed(sign: Sign, exit_code: int | None) -> Sign:
    if sign.cause is Cause.MISSING_COMMAND and exit_code == NOT_FOUND:
        return replace(sign, is_strong=True)
    return sign


def _matched(line: str, place: int, lines: Sequence[str]) -> Sign | None:
    for pattern in PATTERNS:
        found = pattern.expression.search(line)
        if found is None:
            continue
        following = lines[place + 1 : place + 1 + NEXT_LINES]
        if pattern.needs is not None and not any(map(pattern.needs.search, following)):
            continue
        named = found.groupdict()
        shown = _shown(pattern.cause, line, named, following)
        return Sign(pattern.cause, shown, place, pattern.is_strong, named.get("subject"))
    return None


def _shown(cause: Cause, line: str, named: dict[str, str | None], following: Sequence[str]) -> str:
    """The text of a sign: a fixed form for lack of GPU memory, else the telling part of the line."""
    if cause is Cause.GPU_MEMORY and (size := named.get("size")):
        card = f" (GPU {named['gpu']})" if named.get("gpu") else ""
        return f"CUDA out of memory: tried to allocate {size}{card}"
    text = (named.get("shown") or line).strip()
    if text.endswith(":") and "panicked at" in text and following:  # Rust since 1.73: the message is the next line
        return f"{text} {following[0].strip()}"
    return text


def _tracebacks(lines: Sequence[str]) -> Iterator[tuple[int, Sign]]:
    """The first line of every Python traceback, and its exception."""
    for start, line in enumerate(lines):
        if not line.rstrip().endswith(TRACEBACK):
            continue
        prefix = line[: line.index(TRACEBACK)]  # such as `[rank0]: `, or a progress bar, which only this line has
        prefix = prefix if all(inner.startswith(prefix) for inner in lines[start + 1 : start + 2]) else ""
        end = next((at for at in range(start + 1, len(lines)) if _ends_traceback(lines[at], prefix)), None)
        if end is None:
            continue
        text = lines[end].removeprefix(prefix).strip()
        body = [inner.removeprefix(prefix) for inner in lines[start + 1 : end]]
        sign = _matched(text, end, lines) or Sign(_cause_of_exception(text, body), text, end)
        shown = sign.text if sign.cause is Cause.GPU_MEMORY else text
        is_strong = _ABOUT_CHILDREN.search(text.partition(":")[0]) is None
        yield start, replace(sign, text=shown, is_strong=is_strong, frame=_own_frame(body))


def _cause_of_exception(text: str, body: Sequence[str]) -> Cause:
    """EAGAIN has many meanings; raised by a fork it is the limit of processes."""
    is_refused = text.startswith("BlockingIOError: [Errno 11]") and any("fork" in line for line in body)
    return Cause.PROCESSES if is_refused else Cause.EXCEPTION


def _ends_traceback(line: str, prefix: str) -> bool:
    body = line.removeprefix(prefix)
    return line.startswith(prefix) and bool(_EXCEPTION.match(body))


def _own_frame(body: Sequence[str]) -> str | None:
    """The deepest frame in a file that belongs to no library, such as `train.py:42 in main`.

    If all frames are in libraries it is the deepest of these; None if there is no frame.
    """
    frames = [found for line in body if (found := _FRAME.match(line))]
    own = [found for found in frames if not any(part in found["file"] for part in _LIBRARY_PATHS)]
    if not frames:
        return None
    deepest = (own or frames)[-1]
    name = deepest["name"]
    inside = f" in {name}" if name and name != "<module>" else ""
    return f"{deepest['file'].rpartition('/')[2]}:{deepest['line']}{inside}"
