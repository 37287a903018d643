"""Adds to the record of a job why it ended badly: one line in `reason`, and the evidence for it in `findings`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobtop.core.analysis.evidence import FINDING, MOST, Cause, Evidence, Source, clean
from jobtop.core.analysis.kernel_log import crash_text
from jobtop.core.analysis.last_message import last_line, last_message
from jobtop.core.analysis.output_causes import BATCH, NOT_FOUND, Sign, best_sign, find_signs
from jobtop.core.analysis.process_limits import ADDRESS_SPACE, process_limit
from jobtop.core.model import Job, Status
from jobtop.core.procfs import signals
from jobtop.core.record import record, replace
from jobtop.core.run.containers.facts import FINDING as CONTAINER
from jobtop.core.run.outcome import REACHED_SHARE, signal_name
from jobtop.core.units import format_bytes, format_duration, number_of

SHELL_SIGNAL_CODES = range(129, 160)  # shells return 128 + signal number for a command that a signal ended
OOM_KILLED = "oom_killed"  # a flag
BY_LOG, WITHOUT_LIMIT = "kernel_log", "the kernel's OOM killer"
LONGEST_REASON = 200
OTHERS = 3  # further signs in the output that are kept
# Signals by which a program ends itself: what it wrote before may explain them.
OWN_SIGNALS = frozenset(
    (signals.SIGABRT, signals.SIGSEGV, signals.SIGBUS, signals.SIGILL, signals.SIGFPE, signals.SIGTRAP)
)
KERNEL_SIGNALS = OWN_SIGNALS | {signals.SIGKILL, signals.SIGSYS}
SIGNAL_MEANINGS = {
    "SIGSEGV": "it accessed memory that is not its own: a bug, or a stack that grew too large (ulimit -s)",
    "SIGBUS": "it accessed memory that could not be provided: a mapped file that shrank, or a full disk or /dev/shm",
    "SIGABRT": "it called abort: an assertion failed, or the C library found an error",
    "SIGFPE": "it divided by zero, or did another invalid arithmetic operation",
    "SIGILL": "it executed an instruction that this processor does not have: built for another one?",
    "SIGPIPE": "it wrote to a pipe or socket that no process reads any more",
    "SIGXCPU": "it used up its CPU time (ulimit -t)",
    "SIGXFSZ": "it wrote a file larger than allowed (ulimit -f)",
    "SIGSYS": "it made a system call that is forbidden here (seccomp)",
    "SIGHUP": "its terminal was closed, or the connection to it was lost",
}


@record
class Clues:
    """What was read at the end of a job: the last lines of stderr and stdout, and entries of the kernel log.

    `errors` has the lines of stderr, or of the one log that has both streams.
    """

    outputs: Sequence[Sequence[str]] = ()
    errors: Sequence[str] = ()
    is_one_log: bool = False
    kernel: Sequence[Evidence] = ()
    secrets: Sequence[str] = ()


def ending_signal(job: Job) -> int | None:
    """The signal that ended the job, or, by its exit code, a command of its shell."""
    if job.signal is not None:
        return job.signal
    code = job.exit_code
    return code - 128 if code in SHELL_SIGNAL_CODES and code is not None else None


def explained(job: Job, clues: Clues) -> Job:
    """The record of a job that ended badly with reason and evidence; other records stay as they are."""
    if job.status not in (Status.FAILED, Status.TIMEOUT, Status.CANCELLED, Status.LOST, Status.UNKNOWN):
        return job
    signs = _signs(job, clues)
    kernel = [seen for seen in clues.kernel if seen.kind is not Cause.IO_ERROR or _has(signs, Cause.IO_ERROR)]
    best = best_sign(signs)
    if not _is_cause(job, best) and (message := _message(job, clues, signs)) is not None:
        best = message
    others = [sign for sign in signs if sign is not best][-OTHERS:]
    shown = [*_last_line(job, clues)] if best is None else [best, *others]
    output = [_evidence(sign, clues.secrets) for sign in shown]
    limits = _address_space(job) if best is not None and best.cause is Cause.ALLOCATION else ()
    evidence = list(dict.fromkeys([*kernel, *output, *limits, *record_evidence(job)]))[:MOST]
    if not evidence:
        return job
    job = replace(job, reason=_reason(job, best, kernel, clues.secrets))
    if kills := sum(seen.kind is Cause.OUT_OF_MEMORY for seen in kernel):
        job = replace(job, flags=tuple(sorted({*job.flags, OOM_KILLED})))
    if kills and job.usage.oom_kills is None and CONTAINER in job.findings:  # its cgroup was gone before it was read
        job = replace(job, usage=replace(job.usage, oom_kills=kills), sources=job.sources | {"oom_kills": BY_LOG})
    return replace(job, findings=job.findings | {FINDING: [seen.to_json() for seen in evidence]})


def record_evidence(job: Job) -> Iterator[Evidence]:
    """The evidence that the record itself has: what its cgroup counted, its signal, its timeout."""
    if job.usage.oom_kills:
        killed = number_of(job.usage.oom_kills, "process", "processes")
        text = f"the kernel's OOM killer ended {killed} of this job (oom_kill)"
        yield Evidence(Cause.OUT_OF_MEMORY, text, Source.CGROUP)
    if "over_limit" in job.flags and job.limits.memory_bytes:
        text = f"its memory exceeded the limit of {format_bytes(job.limits.memory_bytes)}"
        yield Evidence(Cause.OUT_OF_MEMORY, text, Source.LIMIT)
    if job.status is Status.FAILED and peak_of(job, "proc.forks_denied"):
        limit = peak_of(job, "limit.pids")
        of = f" of {limit:.0f}" if limit else ""
        text = f"its limit{of} processes and threads was reached, and new ones were refused (pids.max)"
        yield Evidence(Cause.PROCESSES, text, Source.CGROUP)
    if job.status is Status.TIMEOUT and job.limits.timeout_seconds is not None:
        text = f"its timeout was {format_duration(job.limits.timeout_seconds)}"
        yield Evidence(Cause.TIMEOUT, text, Source.LIMIT)
    if was_hung_up(job):
        yield Evidence(Cause.TERMINAL, f"SIGHUP: {SIGNAL_MEANINGS['SIGHUP']}", Source.SIGNAL)
    elif job.status is Status.FAILED:
        yield from _signal_evidence(job)


def peak_of(job: Job, key: str) -> float | None:
    """The largest sample of a metric; of a counter, its largest rate."""
    return job.metrics.get(key, {}).get("peak")


def was_hung_up(job: Job) -> bool:
    """Whether the job ended because its terminal was closed."""
    asked = job.stop_request
    hung_up = asked is not None and asked.by == "SIGHUP"
    return (job.status is Status.CANCELLED and hung_up) or (
        job.status is Status.FAILED and ending_signal(job) == signals.SIGHUP
    )


def _address_space(job: Job) -> Iterator[Evidence]:
    if (limit := process_limit(job.findings, ADDRESS_SPACE)) is not None:
        by = ", which the job set itself" if limit.is_lowered else ""
        text = f"its address space was limited to {format_bytes(limit.lowest)} (ulimit -v){by}"
        yield Evidence(Cause.ALLOCATION, text, Source.LIMIT)


def _signal_evidence(job: Job) -> Iterator[Evidence]:
    if job.signal is not None:
        name = signal_name(job.signal)
        if name in SIGNAL_MEANINGS:
            yield Evidence(Cause.SIGNAL, f"{name}: {SIGNAL_MEANINGS[name]}", Source.SIGNAL)
    elif (number := ending_signal(job)) is not None:
        name = signal_name(number)
        text = f"{job.exit_code} is 128 + {number}: shells return it for a command that {name} ended"
        text += f" ({SIGNAL_MEANINGS[name]})" if name in SIGNAL_MEANINGS else ""
        yield Evidence(Cause.SIGNAL, text, Source.SIGNAL)


def _signs(job: Job, clues: Clues) -> list[Sign]:
    """The signs in the output that can have to do with this end; standard error, which comes first, counts more."""
    found: list[Sign] = []
    for lines in reversed(clues.outputs):
        found += find_signs(lines, job.exit_code)
    if job.status in (Status.TIMEOUT, Status.UNKNOWN):
        return []
    if job.status is Status.CANCELLED or (job.signal is not None and job.signal not in OWN_SIGNALS):
        return [sign for sign in found if sign.cause in BATCH]
    return found


def _is_cause(job: Job, sign: Sign | None) -> bool:
    """Whether a sign explains the end; a script can go on after a missing command."""
    return sign is not None and (sign.cause is not Cause.MISSING_COMMAND or job.exit_code == NOT_FOUND)


def _message(job: Job, clues: Clues, signs: Sequence[Sign]) -> Sign | None:
    """The last message of a job that failed by its exit code, if it is of no known kind."""
    if job.status is not Status.FAILED or not job.exit_code or ending_signal(job) is not None:
        return None
    text = last_message(clues.errors, is_all=not clues.is_one_log)
    is_known = text is None or any(sign.text == text for sign in signs)
    return None if text is None or is_known else Sign(Cause.MESSAGE, text, len(clues.errors))


def _last_line(job: Job, clues: Clues) -> Iterator[Sign]:
    """What a job that failed by its exit code wrote last: evidence, and not the reason."""
    if job.status is Status.FAILED and job.exit_code and ending_signal(job) is None:
        written = clues.errors or next(iter(clues.outputs), ())
        if (text := last_line(written)) is not None:
            yield Sign(Cause.LAST_LINE, f"the last line that it wrote: {text}", len(written), is_strong=False)


def _own_limit(job: Job) -> str | None:
    """In words, the memory limit of a container that reached it; None if it did not, or is not known to have."""
    limit, peak = job.limits.memory_bytes, job.usage.memory_cgroup_peak_bytes
    if CONTAINER not in job.findings or limit is None or peak is None or peak < REACHED_SHARE * limit:
        return None
    return f"over its memory limit of {format_bytes(limit)}"


def _has(signs: Sequence[Sign], cause: Cause) -> bool:
    return any(sign.cause is cause for sign in signs)


def _evidence(sign: Sign, secrets: Sequence[str]) -> Evidence:
    place = f", at {sign.frame}" if sign.frame else ""
    subject = None if sign.subject is None else clean(sign.subject, secrets)
    return Evidence(sign.cause, clean(f"{sign.text}{place}", secrets), Source.OUTPUT, subject)


def _reason(job: Job, sign: Sign | None, kernel: Sequence[Evidence], secrets: Sequence[str]) -> str | None:
    """The reason with its cause; a cause that is known by the counters of the kernel stays alone."""
    if job.usage.oom_kills or "over_limit" in job.flags or job.status is Status.TIMEOUT:
        return job.reason
    before = job.reason or str(job.status)
    if any(seen.kind is Cause.OUT_OF_MEMORY for seen in kernel):
        what = f"{_own_limit(job) or WITHOUT_LIMIT} (kernel log)"
        text = f"{before}; {what}" if job.status is Status.LOST else f"{before.partition(';')[0]}: {what}"
    elif job.status is Status.LOST:
        return job.reason
    elif sign is not None and _is_cause(job, sign):
        text = f"{before}: {sign.text}"
    elif crash := next((seen for seen in kernel if seen.kind in (Cause.CRASH, Cause.GPU_ERROR)), None):
        text = f"{before}: {crash_text(crash.text) or f'{crash.text} (kernel log)'}"
    else:
        return job.reason
    return clean(text, secrets, LONGEST_REASON)
