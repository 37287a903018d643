"""What samples add to a record: peaks with their source, nothing below nothing, and a word where it cannot be right."""

import pytest

from jobtop.cli.run.summary import summary
from jobtop.core.measure.collectors.energy.shares import METHOD
from jobtop.core.measure.collectors.members import Tree
from jobtop.core.measure.observation import Observation, seen_in
from jobtop.core.measure.tally import Tally
from jobtop.core.measure.watch import Watch
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Monitor, Sample, Status, Usage
from jobtop.core.record import replace
from processes import below
from records import made_job
from sampled import sample, steady

MIB = 1 << 20
JOB = made_job(
    duration_seconds=10.0,
    usage=Usage(
        cpu_user_seconds=4.0,
        cpu_system_seconds=1.0,
        cpu_total_seconds=5.0,
        memory_peak_bytes=5 * MIB,
        processes_peak=3,
        threads_peak=4,
        io_read_bytes=10_000,
        io_write_bytes=0,
    ),
    sources={"cpu": "rusage", "memory_peak": "rusage"},
    monitor=Monitor(interval_seconds=1.0),
)


def seen(*samples: Sample, job: Job = JOB) -> Job:
    return seen_in(samples).of(job)


def test_a_job_gets_its_minima_means_and_peaks() -> None:
    done = seen(*steady(9))
    usage = done.usage
    assert usage.samples == 11  # its start and its end too
    assert [usage.cpu_percent_min, usage.cpu_percent_peak] == pytest.approx([50, 50])
    assert (usage.memory_min_bytes, usage.memory_mean_bytes) == (MIB, 5 * MIB)
    assert done.metrics["cpu.percent"] == {"min": 50.0, "mean": 50.0, "peak": 50.0}
    assert done.metrics["mem.used"] == {"min": MIB, "mean": 5 * MIB, "peak": 9 * MIB}
    assert done.metrics["io.read_bytes"] == {"min": 1000, "mean": 1000, "peak": 1000}


def test_totals_stay_those_of_the_kernel() -> None:
    done = seen(*steady(9))
    assert (done.usage.cpu_total_seconds, done.usage.io_read_bytes) == (5.0, 10_000)
    assert done.sources["cpu"] == "rusage"


def test_cpu_time_that_only_samples_saw_is_kept_and_said() -> None:
    used = replace(JOB.usage, cpu_user_seconds=0.1, cpu_system_seconds=0.0, cpu_total_seconds=0.1)
    done = seen(*steady(9), job=replace(JOB, usage=used, sources={"cpu": "cgroup+rusage"}))
    assert done.usage.cpu_total_seconds == pytest.approx(4.5)
    assert done.sources["cpu"] == "cgroup+rusage+sampled"
    assert [entry.partition(":")[0] for entry in done.incomplete] == ["cpu"]


@pytest.mark.parametrize(
    ("also", "source"),
    [
        ({}, "rss"),
        ({"mem_pss": 9 * MIB}, "pss"),
        ({"mem_pss": 9 * MIB, "mem_anon": 9 * MIB}, "cgroup"),
        ({"mem_anon": MIB}, "cgroup+pss"),
        ({"mem_pss": 2 * MIB}, "pss+memfd"),
    ],
)
def test_memory_of_all_processes_together_is_the_peak_and_says_where_it_is_from(
    also: dict[str, float], source: str
) -> None:
    done = seen(sample(1.0, mem_used=9 * MIB, **also))
    assert (done.usage.memory_peak_bytes, done.sources["memory_peak"]) == (9 * MIB, source)


def test_the_mark_of_one_process_is_the_peak_where_no_sample_was_higher() -> None:
    done = seen(sample(1.0, mem_used=2 * MIB, mem_pss=2 * MIB))
    assert (done.usage.memory_peak_bytes, done.sources["memory_peak"]) == (5 * MIB, "rusage")
    assert done.usage.memory_mean_bytes == 2 * MIB


def test_a_peak_nothing_else_knows_is_that_of_the_samples() -> None:
    unknown = replace(JOB, usage=replace(JOB.usage, memory_peak_bytes=None, processes_peak=None, threads_peak=None))
    usage = seen(sample(1.0, mem_used=2 * MIB, proc_count=2, proc_threads=7), job=unknown).usage
    assert (usage.memory_peak_bytes, usage.processes_peak, usage.threads_peak) == (2 * MIB, 2, 7)


@pytest.mark.parametrize(("count", "expected"), [(2, 3), (9, 9)])
def test_as_many_processes_as_either_the_samples_or_the_shim_saw(count: int, expected: int) -> None:
    assert seen(sample(1.0, proc_count=count)).usage.processes_peak == expected


def test_a_job_that_was_not_sampled_in_between_has_its_two_ends() -> None:
    done = seen()
    assert done.usage.samples == 2
    assert [done.usage.cpu_percent_min, done.usage.cpu_percent_peak] == pytest.approx([50, 50])
    assert (done.usage.memory_mean_bytes, done.usage.memory_peak_bytes) == (None, 5 * MIB)
    assert "mem.used" not in done.metrics


def test_a_total_below_what_was_seen_makes_no_negative_minimum() -> None:
    """A parent that ignores SIGCHLD: the kernel forgets its children, the samples do not."""
    lost = replace(JOB, usage=replace(JOB.usage, cpu_user_seconds=0.02, cpu_system_seconds=0.01, io_read_bytes=0))
    done = seen(*steady(9), job=lost)
    assert done.usage.cpu_percent_min == pytest.approx(0)
    assert done.metrics["cpu.percent"]["mean"] == pytest.approx(45)
    assert done.metrics["io.read_bytes"]["min"] == 0
    assert min(value for row in done.metrics.values() for value in row.values() if value is not None) >= 0


def test_an_end_that_comes_before_the_last_sample_makes_no_negative_time() -> None:
    done = seen(*steady(11))
    assert done.metrics["cpu.percent"]["mean"] == pytest.approx(50)
    assert done.usage.cpu_percent_min == pytest.approx(50)


def test_of_a_job_with_survivors_only_the_samples_count() -> None:
    """Its totals were counted beyond its end."""
    left = replace(JOB, flags=("left_running",), usage=replace(JOB.usage, cpu_user_seconds=4000.0))
    done = seen(*steady(9), job=left)
    assert done.usage.samples == 10
    assert done.usage.cpu_percent_peak == pytest.approx(50)


@pytest.mark.parametrize("status", [Status.LOST, Status.FAILED])
def test_without_a_duration_there_is_no_last_sample(status: Status) -> None:
    done = seen(*steady(9), job=replace(JOB, status=status, duration_seconds=None))
    assert done.usage.samples == 10


def test_how_it_was_watched_is_in_the_record() -> None:
    monitor = Observation(Tally(), 5.0, 20.0, True).of(JOB).monitor
    assert (monitor.interval_seconds, monitor.longest_interval_seconds, monitor.thinned) == (5.0, 20.0, True)
    assert Observation(Tally()).of(JOB).monitor.interval_seconds == 1.0


def test_a_gap_between_samples_is_in_the_record() -> None:
    with_gap = [one for one in steady(9) if not 2.0 < one.elapsed < 8.0]
    done = seen(*with_gap)
    assert done.monitor.longest_interval_seconds == 6.0
    (said,) = done.incomplete
    assert "none for 6s, from 2s to 8s" in said
    (note,) = [line for line in summary(done, color=False).splitlines() if "samples" in line]
    assert note.split(maxsplit=1)[1].startswith("no samples for 6s, from 2s to 8s")


@pytest.mark.parametrize(
    ("asked", "moments", "longest", "is_said"),
    [
        (1.0, (1.0, 2.4, 3.0), None, False),
        (1.0, (1.0, 3.9, 5.0), 2.9, False),
        (0.2, (1.0, 3.1, 3.2), 2.1, True),
        (10.0, (0.1, 10.0, 20.0), None, False),
        (1.0, (3590.0, 3600.0, 3605.0), 3590.0, True),
        (None, (41.0, 42.0), 41.0, True),
    ],
)
def test_a_gap_is_measured_against_the_interval(
    asked: float | None, moments: tuple[float, ...], longest: float | None, is_said: bool
) -> None:
    job = replace(JOB, duration_seconds=moments[-1] + 0.1, monitor=Monitor(interval_seconds=asked))
    done = seen(*(sample(moment, mem_used=number) for number, moment in enumerate(moments)), job=job)
    assert done.monitor.longest_interval_seconds == pytest.approx(longest)
    assert bool(done.incomplete) is is_said


def test_an_idle_job_that_was_sampled_seldom_has_no_gap() -> None:
    done = seen(sample(1.0, mem_used=1), sample(11.0, mem_used=1), sample(12.0, mem_used=2))
    assert done.incomplete == ()
    assert done.monitor.longest_interval_seconds is None


def test_the_time_before_a_process_was_attached_is_no_gap() -> None:
    attached = replace(JOB, duration_seconds=100.0, submitted_at=(JOB.start_time or 0.0) + 97.0)
    done = seen(sample(98.0, mem_used=1), sample(99.0, mem_used=1), job=attached)
    assert not [entry for entry in done.incomplete if entry.startswith("samples:")]


def test_impossible_cpu_time_is_flagged_and_said() -> None:
    done = replace(seen_in(steady(9)), impossible_seconds=3600.0).of(replace(JOB, flags=("throttled",)))
    assert done.flags == ("impossible_cpu", "throttled")
    assert done.incomplete == ("cpu.percent: 1h00m more than the cores could give were held back",)


def test_what_could_not_be_kept_is_said() -> None:
    done = replace(seen_in(steady(9)), problem="disk full").of(replace(JOB, incomplete=("io: lost",)))
    assert done.incomplete == ("io: lost", "samples: disk full")
    assert done.flags == ()


def test_what_is_counted_in_whole_numbers_stays_whole() -> None:
    metrics = seen(sample(1.0, mem_used=3, proc_count=2), sample(2.0, mem_used=4, proc_count=2)).metrics
    assert [type(metrics[key]["min"]) for key in ("mem.used", "proc.count")] == [int, int]
    assert metrics["mem.used"]["mean"] == 3.5


@pytest.mark.parametrize(("possible", "missing"), [(10 * MIB, True), (5 * MIB + 1, False), (0, False)])
def test_memory_that_the_budget_did_not_allow_to_read_is_said_to_be_missing(possible: int, missing: bool) -> None:
    done = Observation(Tally(), possible_bytes=possible).of(JOB)
    assert any(entry.startswith("memory_peak:") for entry in done.incomplete) is missing


@pytest.mark.parametrize(("unread", "missing"), [(MIB, True), (MIB // 100, False)])
def test_memfds_that_were_not_looked_for_are_said_to_be_missing(unread: int, missing: bool) -> None:
    done = Observation(Tally(), unread_memfd_bytes=unread).of(JOB)
    assert any("memfd" in entry for entry in done.incomplete) is missing


def test_the_energy_after_the_last_reading_counts_at_the_mean_before_it() -> None:
    powered = [replace(one, values=with_energy(one, 2.0 * one.elapsed)) for one in steady(9)]
    done = seen(*powered)
    assert done.usage.energy_cpu_joules == pytest.approx(18.0 * 5.0 / 4.5), "4.5 of 5 s were read"
    assert not any(entry.startswith("energy_cpu") for entry in done.incomplete)
    assert done.sources["energy_cpu"] == METHOD, "also if the process that sampled it was killed"
    done = seen(*powered[:4])
    assert done.usage.energy_cpu_joules == pytest.approx(8.0 * 5.0 / 2.0)
    assert any(entry.startswith("energy_cpu: the last 3s") for entry in done.incomplete)


def test_a_job_that_was_attached_to_gets_no_energy_of_the_time_before() -> None:
    powered = [replace(one, values=with_energy(one, 2.0 * one.elapsed)) for one in steady(4)]
    late = replace(JOB, submitted_at=(JOB.start_time or 0.0) + 5.0)
    assert seen(*powered, job=late).usage.energy_cpu_joules == 8.0


def with_energy(one: Sample, joules: float) -> tuple[float | int | None, ...]:
    place = JOB_COLUMNS.index("energy.cpu")
    return (*one.values[:place], joules, *one.values[place + 1 :])


def test_counters_that_were_read_at_the_end_are_in_the_totals_and_make_no_peak() -> None:
    curve = [sample(float(second), net_rx_bytes=second * 100, net_tx_bytes=0) for second in (1, 2, 3)]
    seen_until = seen_in(curve)
    done = replace(seen_until, last_counts=sample(3.05, net_rx_bytes=390, net_tx_bytes=5)).of(JOB)
    assert (done.usage.net_rx_bytes, done.usage.net_tx_bytes) == (390, 5)
    assert done.metrics["net.rx_bytes"]["peak"] == 100


def test_a_job_that_has_ended_gets_a_last_sample_only_for_counters_that_are_new() -> None:
    watch = Watch("1", below(50), Tree(50), None)
    watch.take("network", {"net.rx_bytes": 100})
    watch.sample(1.0)
    watch.take("network", {"net.rx_bytes": 140})
    assert watch.last_sample(1.1) is None
    assert watch.last_counts is not None
    assert watch.last_counts.values[JOB_COLUMNS.index("net.rx_bytes")] == 140
    fresh = Watch("2", below(50), Tree(50), None)
    fresh.sample(1.0)
    fresh.take("network", {"net.rx_bytes": 7})
    assert fresh.last_sample(1.1) is not None


@pytest.mark.parametrize(("duration", "says_it"), [(60.0, True), (10.0, False)])
def test_bytes_after_the_last_sample_of_an_unwatched_job_are_said_to_be_missing(duration: float, says_it: bool) -> None:
    samples = [sample(float(step), net_rx_bytes=step * MIB, net_tx_bytes=step) for step in range(10)]
    job = replace(JOB, duration_seconds=duration)
    missing = [entry for entry in seen(*samples, job=job).incomplete if entry.startswith("network: not counted")]
    assert bool(missing) == says_it, missing
    assert not any(
        entry.startswith("network") for entry in replace(seen_in(samples), is_stored=False).of(job).incomplete
    )
    offline = [sample(float(step)) for step in range(10)]
    assert not any(entry.startswith("network") for entry in seen(*offline, job=job).incomplete)
