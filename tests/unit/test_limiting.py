"""What limited a job: each word from a series that shows it, and nothing where the numbers are absent."""

import pytest

from jobtop.core.analysis.limiting import (
    HELP,
    JOB_KEYS,
    NO_CURVES,
    Curves,
    Limit,
    Setting,
    Use,
    find_limits,
    judge,
    mean_rate,
)
from jobtop.core.model import Job
from jobtop.core.query.filter import parse
from jobtop.core.record import replace
from jobtop.core.text.limit_text import limit_bar, limit_evidence, limit_help, limit_of, limit_tenths
from jobtop.lifecycle.limiting import with_limits
from jobtop.store.database import Database
from jobtop.store.figures import read_figures
from jobtop.store.jobs import Jobs, Query
from records import made_job

MIB = 1024 * 1024
SECONDS = 20
IDLE = {"cpu.user": 0.01, "cpu.system": 0.0, "io.read_bytes": 0.0, "io.write_bytes": 0.0, "io.pressure": 0.0}


def growing(rates: dict[str, float], seconds: int = SECONDS) -> Curves:
    """Counters with these rates per second, and gauges with these values."""
    times = [float(second) for second in range(seconds + 1)]
    values = {
        key: [rate if key in ("gpu.util", "cpu.percent") else rate * moment for moment in times]
        for key, rate in rates.items()
    }
    return Curves(times, values)


def word(rates: dict[str, float], host: dict[str, float] | None = None, cpus: float = 8.0) -> Limit | None:
    """The word for a job with these rates; all ten tenths have the same."""
    limits = find_limits(growing(rates), growing(host) if host else NO_CURVES, SECONDS, Setting(cpus, 1, 8))
    assert limits is not None
    assert [part.word for part in limits.parts] == [limits.whole.word] * 10
    assert limits.whole.evidence
    return limits.whole.word


@pytest.mark.parametrize(
    ("rates", "host", "expected"),
    [
        ({"cpu.user": 7.5}, {}, Limit.CPU),
        ({"cpu.user": 0.99}, {}, Limit.CPU),
        ({"cpu.user": 0.5, "cpu.pressure": 0.45}, {}, Limit.CPU),
        ({"cpu.user": 0.4}, {"cpu.percent": 790.0, "cpu.steal": 0.5}, Limit.CPU),
        ({"cpu.user": 1.9, "cpu.throttled": 0.5}, {}, Limit.THROTTLING),
        ({"cpu.user": 7.0, "cpu.throttled": 1.0}, {}, Limit.CPU),
        ({"cpu.user": 0.001, "cpu.throttled": 0.01}, {}, Limit.WAITING),
        ({"mem.pressure": 0.3}, {}, Limit.MEMORY),
        ({"mem.faults_major": 500.0, "io.read_bytes": 2.0 * MIB}, {}, Limit.MEMORY),
        ({"io.pressure": 0.81}, {}, Limit.STORAGE),
        ({"io.pressure": 0.3}, {}, Limit.STORAGE),
        ({"io.pressure": 0.3, "cpu.user": 0.95}, {}, Limit.CPU),
        ({"net.rx_bytes": 50.0 * MIB, "net.tx_bytes": 0.0}, {}, Limit.NETWORK),
        ({"gpu.util": 92.0, "cpu.user": 1.0}, {}, Limit.GPU),
        ({}, {}, Limit.WAITING),
        ({"cpu.user": 0.4}, {}, Limit.NOTHING),
    ],
)
def test_each_word_has_its_rule(rates: dict[str, float], host: dict[str, float], expected: Limit) -> None:
    assert word(IDLE | rates, host) is expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [({"disk.busy": 0.9}, Limit.STORAGE), ({"io.pressure": 0.6}, Limit.STORAGE), ({"cpu.iowait": 0.8}, Limit.STORAGE)],
)
def test_without_its_own_stalls_storage_is_told_by_traffic_and_the_host(
    host: dict[str, float], expected: Limit
) -> None:
    rates = {key: rate for key, rate in IDLE.items() if key != "io.pressure"} | {"io.write_bytes": 9.0 * MIB}
    assert word(rates, host) is expected


def test_the_use_of_several_gpus_is_their_mean() -> None:
    limits = find_limits(growing(IDLE | {"gpu.util": 120.0}), NO_CURVES, SECONDS, Setting(8.0, gpus=4))
    assert limits is not None
    assert limits.whole.word is Limit.WAITING


def test_what_is_absent_is_not_guessed() -> None:
    assert judge(Use()).word is None
    # It moves data, but nothing says whether it waited for that.
    assert judge(Use(cores=0.05, io_bytes=9.0 * MIB)).word is None
    assert judge(Use(cores=0.05)).word is None
    assert judge(Use(cores=0.05, io_bytes=0.0)).word is Limit.WAITING
    limits = find_limits(growing({"cpu.user": 1.0}), NO_CURVES, SECONDS, Setting())
    assert limits is not None
    assert (limits.whole.word, {part.word for part in limits.parts}) == (None, {None})


def test_a_short_run_and_one_without_samples_have_no_limits() -> None:
    assert find_limits(growing(IDLE), NO_CURVES, 1.5, Setting(8.0)) is None
    assert find_limits(NO_CURVES, NO_CURVES, SECONDS, Setting(8.0)) is None


def test_each_tenth_is_judged_by_itself_and_the_run_by_most_of_them() -> None:
    times = [float(second) for second in range(11)]
    busy = [min(moment, 3.0) for moment in times]  # it computes for three seconds, then it waits
    values = {key: [0.0] * 11 for key in JOB_KEYS if key != "gpu.util"} | {"cpu.user": busy}
    limits = find_limits(Curves(times, values), NO_CURVES, 10.0, Setting(1.0))
    assert limits is not None
    assert [part.word for part in limits.parts] == [Limit.CPU] * 3 + [Limit.WAITING] * 7
    assert limits.whole.word is Limit.WAITING
    assert "7 of 10" in limits.whole.evidence


def test_a_rate_needs_enough_of_its_part_and_a_counter_that_fell_has_none() -> None:
    times, falls = [0.0, 1.0, 2.0, 3.0], Curves([0.0, 1.0, 2.0], {"cpu.throttled": [5.0, 6.0, 1.0]})
    late = Curves(times, {"cpu.throttled": [None, None, 4.0, 5.0]})
    assert mean_rate(late, "cpu.throttled", 0.0, 3.0) == 1.0
    assert mean_rate(late, "cpu.throttled", 0.0, 2.1) is None
    assert mean_rate(falls, "cpu.throttled", 0.0, 2.0) is None
    assert mean_rate(falls, "cpu.pressure", 0.0, 2.0) is None
    gauge = Curves(times, {"gpu.util": [0.0, 90.0, 90.0, 30.0]})
    assert mean_rate(gauge, "gpu.util", 0.0, 2.0) == 90.0


def limited_job(**values: object) -> Job:
    limits = find_limits(growing(IDLE | {"io.pressure": 0.81}), NO_CURVES, SECONDS, Setting(8.0))
    assert limits is not None
    return with_limits(made_job(**values), limits)


def test_the_record_has_the_word_and_the_texts_say_it() -> None:
    job = limited_job()
    assert job.limited_by == "storage"
    assert len(job.findings["limited"]) == 10
    again = Job.from_json(job.to_json())
    assert (again.limited_by, again.findings) == (job.limited_by, job.findings)
    assert (limit_of(job), limit_bar(job), limit_tenths(job)) == (Limit.STORAGE, "SSSSSSSSSS", "storage ×10")
    assert "81.0 %" in str(limit_evidence(job))
    assert limit_help(job) == HELP[Limit.STORAGE]


def test_damaged_findings_are_not_known() -> None:
    job = replace(limited_job(), limited_by="fate", findings={"limited": [7, {"word": "cpu"}], "limited_whole": 3})
    assert (limit_of(job), limit_bar(job), limit_evidence(job), limit_help(job)) == (None, "?C", None, None)


def test_jobs_are_grouped_by_what_limited_them(database: Database) -> None:
    Jobs(database).insert(limited_job(name="slow"))
    Jobs(database).insert(made_job(name="unknown"))
    assert sorted(str(row[0]) for row in read_figures(database, None, "limited")) == ["None", "storage"]


def test_jobs_are_found_by_what_limited_them(database: Database) -> None:
    jobs = Jobs(database)
    slow = jobs.insert(limited_job(name="slow"))
    jobs.insert(made_job(name="unknown"))
    for text, names in (("limited:storage", ["slow"]), ("limited:cpu", []), ("!limited:cpu,storage", ["unknown"])):
        wanted = parse(text, 0.0)
        assert [job.name for job in jobs.select(Query(filter=wanted))] == names, text
        assert wanted.matches(slow) == ("slow" in names)
