"""Reads why a job ended badly, when its end is recorded: the end of its logs, and the kernel log where it is readable.

Only bad ends are read; nothing here is imported for a job that ended well.
"""

from __future__ import annotations

import errno
import os
import time

from jobtop.core.analysis.evidence import Evidence
from jobtop.core.analysis.kernel_log import Members, find_in_kernel_log
from jobtop.core.analysis.output_causes import child_pids
from jobtop.core.analysis.reasons import KERNEL_SIGNALS, Clues, ending_signal
from jobtop.core.errors import JobtopError
from jobtop.core.model import Job, Status
from jobtop.core.run.containers.facts import container_facts
from jobtop.core.text.terminal_text import plain_line, without_escapes
from jobtop.store.output.logs import is_one_log, open_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jobtop.core.paths import StatePaths
    from jobtop.store.jobs import Jobs

TAIL_BYTES = 64 * 1024
LONGEST_LINE = 600
KERNEL_LOG = "/dev/kmsg"
MOST_RECORDS = 20_000
RECORD_BYTES = 8192  # the kernel refuses to return a record into less
FIRST_PID_NAMESPACE = 0xEFFFFFFC  # its inode; the kernel log has the pids of this namespace
STDERR, STDOUT = 1, 0


def read_clues(
    jobs: Jobs | None, paths: StatePaths, job: Job, secrets: Sequence[str] | None = None, kernel_log: str = KERNEL_LOG
) -> Clues:
    """Read what explains the bad end of a job; called before the store is locked to write the end."""
    directory = paths.job(job.id)
    by_stream = [] if job.status in (Status.TIMEOUT, Status.UNKNOWN) else read_tails(directory)
    outputs = [lines for lines in by_stream if lines]
    is_one = is_one_log(directory)
    errors = by_stream[1 if is_one else 0] if by_stream else []
    named = {pid for lines in outputs for pid in child_pids(lines)}
    kernel: list[Evidence] = []
    if named or _may_be_in_kernel_log(job, outputs):
        kernel = _in_kernel_log(job, named | _known_pids(jobs, job), kernel_log)
    return Clues(outputs, errors, is_one, kernel, _secret_patterns() if secrets is None else secrets)


def read_tails(directory: Path) -> list[list[str]]:
    """The last lines of stderr and of stdout as a terminal shows them; none of a log that does not exist."""
    return [_read_tail(directory, stream) for stream in (STDERR, STDOUT)]


def _read_tail(directory: Path, stream: int) -> list[str]:
    try:
        fd = open_log(directory, stream)
    except OSError:
        return []
    try:
        size = os.fstat(fd).st_size
        data = os.pread(fd, TAIL_BYTES, max(0, size - TAIL_BYTES))
    except OSError:
        return []
    finally:
        os.close(fd)
    texts = without_escapes(data).decode("utf-8", "replace").split("\n")
    lines = [plain_line(text[-LONGEST_LINE:] if "\r" in text else text[:LONGEST_LINE]).rstrip() for text in texts]
    return [line for line in lines if line]


def _may_be_in_kernel_log(job: Job, outputs: Sequence[Sequence[str]]) -> bool:
    if job.status in (Status.LOST, Status.UNKNOWN):
        return True
    if job.status is not Status.FAILED:
        return False
    said = any("Input/output error" in line or "CUDA error" in line for lines in outputs for line in lines)
    return said or ending_signal(job) in KERNEL_SIGNALS


def _known_pids(jobs: Jobs | None, job: Job) -> set[int]:
    """The pids of the job that the record and its last snapshot name."""
    pids = {job.pid or 0, 0 if job.shim is None else job.shim.pid} - {0}
    if jobs is None or job.seq is None:
        return pids
    from jobtop.store.samples.snapshots import Snapshots

    try:
        latest = Snapshots(jobs.database).latest(job)
    except JobtopError:
        return pids
    return pids if latest is None else pids | {int(row.pid) for row in latest.members}


def _in_kernel_log(job: Job, pids: set[int], path: str) -> list[Evidence]:
    """What the kernel log says about the job; empty if it is not readable, or the job is from another boot."""
    from jobtop.core.procfs import boot_id

    if job.start_time is None or (job.shim is not None and job.shim.boot != boot_id()):
        return []
    boot_time = time.time() - time.monotonic()
    since, until = job.start_time - boot_time, (job.end_time or time.time()) - boot_time
    container = container_facts(job)
    known = pids if _has_first_pids() or path != KERNEL_LOG else ()
    members = Members(known, str(job.id), None if container is None else container.id)
    return find_in_kernel_log(read_kernel_log(path), members, since, until)


def _has_first_pids() -> bool:
    try:
        return os.stat("/proc/self/ns/pid").st_ino == FIRST_PID_NAMESPACE
    except OSError:
        return False


def read_kernel_log(path: str = KERNEL_LOG) -> str:
    """All records of the kernel log; empty if it is not readable (kernel.dmesg_restrict)."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    records: list[bytes] = []
    try:
        for _ in range(MOST_RECORDS):
            try:
                if not (data := os.read(fd, RECORD_BYTES)):
                    break
                records.append(data)
            except OSError as error:
                if error.errno != errno.EPIPE:  # EPIPE: the next record was overwritten; reading goes on after it
                    break
    finally:
        os.close(fd)
    return b"".join(records).decode("utf-8", "replace")


def _secret_patterns() -> Sequence[str]:
    """The expressions of `run.redact`; a configuration that cannot be read is reported elsewhere."""
    from jobtop.core.config import load

    try:
        return load((), os.environ, os.getcwd()).texts("run.redact")
    except (JobtopError, OSError):
        return ()
