"""What to do after a bad end: an amount and a command, only where the cause is certain. Pure."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence

from jobtop.core.analysis.evidence import Cause, Evidence, Source
from jobtop.core.analysis.output_causes import NOT_FOUND
from jobtop.core.analysis.process_limits import OPEN_FILES, process_limit
from jobtop.core.analysis.reasons import peak_of
from jobtop.core.model import Job, Status
from jobtop.core.units import format_bytes, format_duration

MEMORY_FACTOR = 1.5  # what a killed job would have used is not known: only that it is more than it had
TIME_FACTOR = 2.0
MEBIBYTE, GIBIBYTE = 2**20, 2**30
ROUND_TO_GIBIBYTES = 4 * GIBIBYTE  # from here on in whole GiB, below in steps of 256 MiB


def advice(job: Job, evidence: Sequence[Evidence]) -> Iterator[str]:
    """Yield what usually helps after this end."""
    causes = {seen.kind: seen for seen in reversed(evidence)}
    if Cause.OUT_OF_MEMORY in causes:
        yield from _more_memory(job)
    elif Cause.TIMEOUT in causes or job.status is Status.TIMEOUT:
        yield from _more_time(job)
    elif Cause.TERMINAL in causes:
        yield f"to let it outlive the terminal: jobtop rerun {job.id[:8]} --detach (or start it with jobtop submit)"
    else:
        yield from _from_output(job, [seen for seen in evidence if seen.source is Source.OUTPUT][:1])


def _more_memory(job: Job) -> Iterator[str]:
    """The amount comes from the peak or the limit, whichever is larger; nothing if neither is known."""
    is_held = bool(job.limits.enforced and job.limits.memory_bytes)
    used = max(job.usage.memory_peak_bytes or 0, (job.limits.memory_bytes or 0) if is_held else 0)
    if not used:
        return
    size = size_text(used * MEMORY_FACTOR)
    command = f"jobtop rerun {job.id[:8]} --memory {size}"
    if "attached" in job.flags:  # jobtop cannot start it
        yield f"it needs more memory than {format_bytes(used)}: start it with a limit of {size}"
    elif is_held:
        yield f"give it more memory than {format_bytes(used)}: {command}"
    else:
        yield f"it needs more memory than the {format_bytes(used)} it got; to have the queue keep it free: {command}"


def size_text(size: float) -> str:
    """A size as `--memory` takes it, rounded up: `768M`, `12G`."""
    step = GIBIBYTE if size >= ROUND_TO_GIBIBYTES else 256 * MEBIBYTE
    rounded = -int(-size // step) * step
    return f"{rounded // GIBIBYTE}G" if rounded % GIBIBYTE == 0 else f"{rounded // MEBIBYTE}M"


def _more_time(job: Job) -> Iterator[str]:
    limit = job.limits.timeout_seconds
    if limit is not None:
        longer = format_duration(limit * TIME_FACTOR)
        yield (
            f"its --timeout was {format_duration(limit)}; if it needs more time:"
            f" jobtop rerun {job.id[:8]} --timeout {longer}"
        )


def _from_output(job: Job, evidence: Sequence[Evidence]) -> Iterator[str]:
    for seen in evidence:
        subject = shlex.quote(seen.subject) if seen.subject else None
        match seen.kind:
            case Cause.DISK_FULL:
                yield _more_space(job, seen.subject)
            case Cause.QUOTA:
                yield "free some of your space there; this shows your quota: quota -s (Lustre: lfs quota)"
            case Cause.OPEN_FILES:
                yield _more_files(job)
            case Cause.PROCESSES:
                yield "it reached a limit of processes and threads; these show them: ulimit -u; cat /proc/self/cgroup"
            case Cause.GPU_MEMORY:
                yield "use a smaller batch or model, or free the GPU; this shows what holds its memory: nvidia-smi"
            case Cause.BATCH_TIME:
                longer = format_duration((job.duration_seconds or 0.0) * TIME_FACTOR)
                yield f"ask the batch system for more time (Slurm: sbatch --time); twice what it had is {longer}"
            case Cause.BATCH_MEMORY:
                yield from _more_batch_memory(job)
            case Cause.MISSING_MODULE if subject and "No module named" in seen.text:
                yield f"install the module for the Python of this job: {_python(job)} -m pip install {subject}"
            case Cause.MISSING_COMMAND if subject and job.exit_code == NOT_FOUND:
                yield f"install {subject}, or set PATH: jobtop rerun {job.id[:8]} --env PATH=DIRECTORY:$PATH"
            case Cause.MISSING_LIBRARY if subject:
                yield f"find {subject} and name its directory: --env LD_LIBRARY_PATH=DIRECTORY (or load its module)"


def _more_files(job: Job) -> str:
    """A limit that the job lowers for itself cannot be raised before it starts."""
    own = process_limit(job.findings, OPEN_FILES)
    if own is not None and own.is_lowered:
        change = f"from {own.at_start} to {own.lowest}" if own.at_start is not None else f"to {own.lowest}"
        return f"the job itself lowered its limit of open files {change}: change that in its command or script"
    limit = peak_of(job, "limit.fds")
    was, enough = ("", "$(ulimit -Hn)") if limit is None else (f", which was {limit:.0f},", f"{4 * limit:.0f}")
    return f"raise the limit of open files{was} first: ulimit -n {enough}; jobtop rerun {job.id[:8]}"


def _more_space(job: Job, path: str | None) -> str:
    """The path is the one in the message; without it, how full the job's file systems were is not known."""
    if not path:
        return "free space where it writes, or write elsewhere"
    place = os.path.normpath(os.path.join(job.cwd, path))
    return f"free some space; this shows how full it is: df -h {shlex.quote(place)}"


def _more_batch_memory(job: Job) -> Iterator[str]:
    if peak := job.usage.memory_peak_bytes:
        yield f"ask the batch system for more memory: sbatch --mem={size_text(peak * MEMORY_FACTOR)}"


def _python(job: Job) -> str:
    """The interpreter that the command names; `python` if it names none."""
    program = job.command[0] if job.command else ""
    return shlex.quote(program) if "python" in program.rpartition("/")[2] else "python"
