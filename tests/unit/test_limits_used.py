"""What a job uses of its limits, from its record and from its samples; what was only asked for is no limit."""

from jobtop.core.model import Limits, Usage
from jobtop.core.text.limits_used import (
    LimitFacts,
    facts_of_record,
    facts_of_series,
    is_only_asked,
    limits_line,
    memory_share_text,
    open_files_text,
    throttled_line,
)
from records import made_job

GIB = 1 << 30
SPREADS = {
    "limit.cpus": {"min": 1.5, "mean": 1.8, "peak": 2.0},
    "limit.memory": {"min": GIB, "mean": GIB, "peak": GIB},
    "limit.pids": {"min": 100, "mean": 100.0, "peak": 100},
    "limit.fds": {"min": 1024, "mean": 1024.0, "peak": 1024},
    "mem.used": {"min": 0, "mean": 1.0, "peak": GIB // 2},
    "proc.threads": {"min": 1, "mean": 5.0, "peak": 12},
    "proc.fds": {"min": 3, "mean": 10.0, "peak": 45},
    "cpu.throttled": {"min": 0.0, "mean": 0.25, "peak": 0.5},
    "proc.forks_denied": {"min": 0.0, "mean": 0.3, "peak": 3.0},
}


def test_a_record_tells_the_tightest_limits_and_the_peaks() -> None:
    facts = facts_of_record(made_job(metrics=SPREADS, duration_seconds=10.0))
    assert limits_line(facts, Limits()) == (
        "1.5 CPUs, 1.0 GiB memory (peak 50.0 %), 100 processes and threads (peak 12.0 %),"
        " 1 024 open files in each process (peak 45 in all), 3 processes refused"
    )
    assert throttled_line(facts) == "25.0 % of the time"


def test_the_peak_of_a_container_is_the_one_of_its_record() -> None:
    metrics = {"limit.memory": {"min": 1000}, "mem.used": {"peak": 400}}
    job = made_job(kind="container", metrics=metrics, usage=Usage(memory_peak_bytes=700))
    assert facts_of_record(job).memory_used == 700
    assert facts_of_record(made_job(metrics=metrics, usage=Usage(memory_peak_bytes=700))).memory_used == 400


def test_a_job_without_limits_has_no_line() -> None:
    facts = facts_of_record(made_job())
    assert facts == LimitFacts()
    assert limits_line(facts, Limits()) is None
    assert throttled_line(facts) is None


def test_a_running_job_tells_its_limits_of_now_and_its_peaks_so_far() -> None:
    values: dict[str, list[float | None]] = {
        "limit.memory": [2 * GIB, GIB, None],
        "mem.used": [GIB // 2, GIB // 4, None],
        "cpu.throttled": [0.0, 1.0, 2.0],
    }
    facts = facts_of_series(values, 8.0)
    assert (facts.memory_bytes, facts.memory_used, facts.throttled_share) == (GIB, GIB // 2, 0.25)
    assert facts_of_series({}, 0.0) == LimitFacts()


def test_what_was_asked_for_is_a_limit_only_if_it_is_enforced() -> None:
    asked, enforced = Limits(cpus=2.0, memory_bytes=GIB), Limits(cpus=2.0, memory_bytes=GIB, enforced=True)
    assert is_only_asked(asked, "limit.memory", GIB)
    assert not is_only_asked(asked, "limit.memory", GIB // 2), "another limit is tighter"
    assert not is_only_asked(enforced, "limit.memory", GIB)
    assert limits_line(LimitFacts(cpus=2.0, memory_bytes=GIB), asked) is None
    assert limits_line(LimitFacts(cpus=2.0, memory_bytes=GIB), enforced) == "2 CPUs, 1.0 GiB memory"
    assert memory_share_text(2 * GIB, GIB, asked) == "200 % of 1.0 GiB asked for"
    assert memory_share_text(GIB // 2, GIB, enforced) == "50.0 % of 1.0 GiB"


def test_the_limit_of_open_files_is_of_one_process() -> None:
    assert open_files_text(45, 1024, 1) == "45 of 1 024"
    assert open_files_text(2000, 1024, 3) == "2 000 (limit of each process: 1 024)"
    assert open_files_text(45, None, 1) == "45"
