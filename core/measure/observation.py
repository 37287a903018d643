"""What samples add to the record of a job: minima, means and peaks, and how it was sampled. Pure."""

from __future__ import annotations

from jobtop.core.clock import automatic_interval
from jobtop.core.measure.tally import Spread, Tally
from jobtop.core.measure.target import CONTAINER
from jobtop.core.metrics import BY_KEY, JOB_COLUMNS, Unit
from jobtop.core.model import Job, Sample
from jobtop.core.record import record, replace
from jobtop.core.run.attached import with_missing_totals
from jobtop.core.run.outcome import (
    BY_SAMPLES,
    IMPOSSIBLE,
    IMPOSSIBLE_RATE,
    UNREAD_MEMORY,
    is_far_more,
    watched,
    with_note_on_sampled_cpu,
)
from jobtop.core.series.endpoints import end_sample_after
from jobtop.core.units import format_bytes, format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobtop.core.measure.source import Remarks

MEMFD_SHARE = 0.01
TOGETHER_SHARE = 0.05  # of the memory of several processes: what docs/accuracy.md promises
LATE_SHARE = 1.5  # of the interval: a sample that comes a little late is no news
GAP_SECONDS, GAP_INTERVALS = 2.0, 3
WHOLE = (Unit.BYTES, Unit.COUNT)
UNREAD_SECONDS, UNREAD_SHARE = 1.0, 0.05  # of the CPU time of a job: less of it after the last reading is no news
ENERGY_OF_GPUS = "nvml, by share of SM time"


@record
class Observation:
    """What the samples of a job say; `impossible_seconds` of CPU time were more than the cores could give."""

    tally: Tally
    interval_seconds: float | None = None
    longest_interval_seconds: float | None = None
    thinned: bool | None = None
    impossible_seconds: float = 0.0
    problem: str | None = None
    over_bytes: int | None = None  # held when it was stopped for that
    high_bytes: int | None = None  # the highest mark of any one process that was seen
    possible_bytes: int = 0  # the most that all processes may have held together, for all that was read of them
    unread_memfd_bytes: int = 0  # that may be in open files it was not looked for in
    remarks: tuple[Remarks, ...] = ()  # of the sources
    last_counts: Sample | None = None  # counters that were read once more at its end
    is_stored: bool = False  # the samples are those of a process that did not see the end of the job

    def of(self, job: Job) -> Job:
        """The finished record with what was seen."""
        newest = self.tally.last if self.tally.samples > 1 else None
        if newest is not None and job.kind == CONTAINER:
            job = with_missing_totals(job, newest, self.high_bytes)
        last = end_sample_after(newest, job)
        if last is not None:
            self.tally.add(last)
        if newest is not None:
            job = _with_sampled_cpu(job, newest)
        spreads = self.tally.spreads()
        monitor = replace(
            job.monitor,
            interval_seconds=self.interval_seconds or job.monitor.interval_seconds,
            longest_interval_seconds=self._longest_seconds(job),
            thinned=self.thinned,
        )
        metrics = {key: shape(key, spread) for key, spread in spreads.items()}
        job = replace(job, usage=replace(job.usage, samples=self.tally.samples), monitor=monitor, metrics=metrics)
        job = _with_processes(_with_memory(_with_cpu(job, spreads), spreads), spreads)
        if self.last_counts is not None:
            self.tally.count(self.last_counts)
        job = _with_gpus(job, spreads, self.tally.total("energy.gpu"))
        job = self._with_remarks(_with_energy(_with_totals(job, self.tally), newest))
        job = _with_uncounted_network(job, newest) if self.is_stored else job
        return self._doubted(self._with_unread(watched(job, self.over_bytes)))

    def _with_remarks(self, job: Job) -> Job:
        """The record with what sources say about their own totals; a later recorder of the job replaces findings."""
        for remarks in self.remarks:
            job = replace(
                job,
                sources=job.sources | remarks.sources,
                incomplete=(*job.incomplete, *(entry for entry in remarks.incomplete if entry not in job.incomplete)),
                findings=job.findings | remarks.findings,
            )
        return job

    def _with_unread(self, job: Job) -> Job:
        """What samples may have missed of memory that processes shared first and wrote to later, and of open memfds."""
        peak, missed = job.usage.memory_peak_bytes or 0, []
        if self.possible_bytes > peak * (1 + TOGETHER_SHARE):
            missed.append((self.possible_bytes - peak, "processes wrote to memory they had shared"))
        if self.unread_memfd_bytes > peak * MEMFD_SHARE:
            missed.append((self.unread_memfd_bytes, "open memfds were not searched again"))
        words = [
            f"{UNREAD_MEMORY} may have missed up to {format_bytes(size)}: {why}, and the sampling budget was used up"
            for size, why in missed
        ]
        return replace(job, incomplete=(*job.incomplete, *words))

    def _expected_seconds(self, job: Job) -> float:
        """How far apart samples may be where the longest time between two was."""
        asked, automatic = job.monitor.interval_seconds, automatic_interval(self.tally.gap[1].elapsed)
        is_automatic = asked is None or asked == automatic_interval(0.0)
        return max(automatic if is_automatic else asked or 0.0, self.longest_interval_seconds or 0.0)

    def _longest_seconds(self, job: Job) -> float | None:
        if self.tally.gap_seconds <= LATE_SHARE * self._expected_seconds(job) or self._began_late(job):
            return self.longest_interval_seconds
        return round(self.tally.gap_seconds, 3)

    def _began_late(self, job: Job) -> bool:
        """Whether the longest time without samples is the one before jobtop knew of the job."""
        return self.tally.gap[0].elapsed == 0.0 and (job.submitted_at or 0.0) > (job.start_time or 0.0)

    def _with_gap(self, job: Job) -> Job:
        """The record says where samples are missing: what happened there is not in peaks and curves."""
        seconds = self.tally.gap_seconds
        expected = self._expected_seconds(job)
        if seconds <= max(GAP_SECONDS, GAP_INTERVALS * expected) or self._began_late(job):
            return job
        since, until = (format_duration(sample.elapsed) for sample in self.tally.gap)
        when = f"none for {format_duration(seconds)}, from {since} to {until}"
        why = f"samples: {when}: peaks in that time may be missing"
        return replace(job, incomplete=(*job.incomplete, why))

    def _doubted(self, job: Job) -> Job:
        job = self._with_gap(job)
        if self.problem is not None:
            job = replace(job, incomplete=(*job.incomplete, f"samples: {self.problem}"))
        if not self.impossible_seconds:
            return job
        held_back = format_duration(self.impossible_seconds)
        why = f"{IMPOSSIBLE_RATE} {held_back} more than the cores could give were held back"
        return replace(job, flags=tuple(sorted({*job.flags, IMPOSSIBLE})), incomplete=(*job.incomplete, why))


def seen_in(samples: Iterable[Sample]) -> Observation:
    """What stored samples say, after the process that took them has exited."""
    tally = Tally()
    for sample in samples:
        is_unchanged = sample.values == tally.last.values
        tally.add(replace(sample, values=tally.last.values) if is_unchanged else sample)
    return Observation(tally, is_stored=True)


def shape(key: str, spread: Spread) -> dict[str, float | None]:
    """The value for the record: integers stay integers."""
    whole = key in BY_KEY and BY_KEY[key].unit in WHOLE
    return {
        "min": round(spread.least) if whole and spread.least == int(spread.least) else round(spread.least, 6),
        "mean": round(spread.mean, 6),
        "peak": round(spread.greatest)
        if whole and spread.greatest == int(spread.greatest)
        else round(spread.greatest, 6),
    }


def _with_sampled_cpu(job: Job, newest: Sample) -> Job:
    """If the kernel discarded CPU times, the samples are closer to the truth than the remaining totals."""
    seen = dict(zip(JOB_COLUMNS, newest.values, strict=True))
    user, system, total = seen["cpu.user"], seen["cpu.system"], job.usage.cpu_total_seconds
    if user is None or system is None or total is None or user + system <= total:
        return job
    is_known_gap = any(entry.startswith(("cpu:", "all:")) for entry in job.incomplete)
    if not is_known_gap and not is_far_more(user + system, total):
        return job
    share = (user + system) / total if total else None
    usage = replace(
        job.usage,
        cpu_user_seconds=user,
        cpu_system_seconds=system,
        cpu_total_seconds=user + system,
        cpu_efficiency=None if share is None else (job.usage.cpu_efficiency or 0.0) * share,
        cpu_percent_mean=None if share is None else (job.usage.cpu_percent_mean or 0.0) * share,
    )
    source = job.sources.get("cpu", "rusage").removesuffix(BY_SAMPLES) + BY_SAMPLES
    incomplete = with_note_on_sampled_cpu(source, job.incomplete)
    return replace(job, usage=usage, sources=job.sources | {"cpu": source}, incomplete=incomplete)


def _with_cpu(job: Job, spreads: dict[str, Spread]) -> Job:
    cpu = spreads.get("cpu.percent")
    if cpu is None:
        return job
    # Samples of a short job may miss its busiest moment; that was at least as busy as the job was on average.
    peak = max(cpu.greatest, job.usage.cpu_percent_mean or 0.0)
    return replace(job, usage=replace(job.usage, cpu_percent_min=cpu.least, cpu_percent_peak=peak))


def _with_memory(job: Job, spreads: dict[str, Spread]) -> Job:
    """The peak: the largest sample of all processes together, or the largest high-water mark of one process."""
    memory = spreads.get("mem.used")
    if memory is None:
        return job
    usage = replace(job.usage, memory_mean_bytes=round(memory.mean), memory_min_bytes=round(memory.least))
    if memory.greatest <= (usage.memory_peak_bytes or 0):
        return replace(job, usage=usage)
    usage = replace(usage, memory_peak_bytes=round(memory.greatest))
    return replace(job, usage=usage, sources=job.sources | {"memory_peak": _memory_source(spreads)})


def _memory_source(spreads: dict[str, Spread]) -> str:
    """The source of a peak: above the cgroup's it comes from processes outside, above all shares from open files."""
    if "mem.anon" not in spreads:
        if "mem.pss" not in spreads:
            return "rss"
        is_in_files = spreads["mem.used"].greatest > spreads["mem.pss"].greatest * (1 + MEMFD_SHARE)
        return "pss+memfd" if is_in_files else "pss"
    in_cgroup = sum(spreads[key].greatest for key in ("mem.anon", "mem.shmem") if key in spreads)
    return "cgroup+pss" if spreads["mem.used"].greatest > in_cgroup else "cgroup"


def _with_gpus(job: Job, spreads: dict[str, Spread], joules: float | None) -> Job:
    busy, memory = spreads.get("gpu.util"), spreads.get("gpu.mem_used")
    usage = job.usage
    if busy is not None:
        usage = replace(usage, gpu_util_mean=round(busy.mean, 3), gpu_util_peak=busy.greatest)
    if memory is not None:
        usage = replace(usage, gpu_memory_peak_bytes=round(memory.greatest))
    if joules is None:
        return replace(job, usage=usage)
    usage = replace(usage, energy_gpu_joules=round(joules, 3))
    return replace(job, usage=usage, sources=job.sources | {"energy_gpu": ENERGY_OF_GPUS})


def _with_totals(job: Job, tally: Tally) -> Job:
    """The totals of counters that only samples have."""
    joules, received, sent = map(tally.total, ("energy.cpu", "net.rx_bytes", "net.tx_bytes"))
    usage = job.usage
    if joules is not None:
        from jobtop.core.measure.collectors.energy.shares import METHOD

        usage = replace(usage, energy_cpu_joules=round(joules, 3))
        job = replace(job, sources=job.sources | {"energy_cpu": METHOD})
    if received is not None and sent is not None:
        usage = replace(usage, net_rx_bytes=round(received), net_tx_bytes=round(sent))
    return replace(job, usage=usage)


def _with_uncounted_network(job: Job, newest: Sample | None) -> Job:
    """The record says from when on nothing counted the bytes of a job that had used the network before."""
    if newest is None or job.usage.net_rx_bytes is None or job.duration_seconds is None:
        return job
    rest = job.duration_seconds - newest.elapsed
    if rest <= max(GAP_SECONDS, GAP_INTERVALS * (job.monitor.interval_seconds or 0.0)):
        return job
    why = f"network: not counted in the last {format_duration(rest)}, in which nothing watched the job"
    return replace(job, incomplete=(*job.incomplete, why))


def _with_energy(job: Job, newest: Sample | None) -> Job:
    """The record with the energy of the CPU time after the last reading, at the mean of the time before it.

    A job that jobtop attached to has none: what it used before is in its CPU time, and not in its energy.
    """
    joules, seconds = job.usage.energy_cpu_joules, job.usage.cpu_total_seconds
    if joules is None or seconds is None or newest is None or (job.submitted_at or 0.0) > (job.start_time or 0.0):
        return job
    values = dict(zip(JOB_COLUMNS, newest.values, strict=True))
    read = (values["cpu.user"] or 0) + (values["cpu.system"] or 0)
    rest = seconds - read
    if rest <= 0 or read <= 0:
        return job
    usage = replace(job.usage, energy_cpu_joules=round(joules * seconds / read, 3))
    if rest < max(UNREAD_SECONDS, UNREAD_SHARE * seconds):
        return replace(job, usage=usage)
    why = f"energy_cpu: the last {format_duration(rest)} of CPU time were not read, and count at the mean of the job"
    return replace(job, usage=usage, incomplete=(*job.incomplete, why))


def _with_processes(job: Job, spreads: dict[str, Spread]) -> Job:
    usage = job.usage
    for key, name in (("proc.count", "processes_peak"), ("proc.threads", "threads_peak")):
        if key in spreads:
            usage = replace(usage, **{name: max(getattr(usage, name) or 0, round(spreads[key].greatest))})
    return replace(job, usage=usage)
