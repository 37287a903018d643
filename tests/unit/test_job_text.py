"""Texts about a job that verbs and console share."""

import pytest

from jobtop.core.model import Job, Kept, Queued, Status, Usage
from jobtop.core.record import replace
from jobtop.core.text.job_text import not_started_text, queue_parts, samples_kept_text
from jobtop.core.text.memory_text import counts_mapped_files, is_peak_upper_bound
from records import made_job


@pytest.mark.parametrize(
    ("kept", "samples", "words"),
    [
        (Kept.WHOLE, 100, None),
        (Kept.MINUTES, 100, "one per minute"),
        (Kept.MINUTES, 2, None),
        (Kept.RECORD, 100, "deleted"),
        (Kept.RECORD, None, None),
    ],
)
def test_what_became_of_samples_is_told_where_any_were(kept: Kept, samples: int | None, words: str | None) -> None:
    told = samples_kept_text(made_job(kept=kept, usage=Usage(samples=samples)))
    assert (told or "").startswith(words or "")
    assert (told is None) == (words is None)


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (made_job(status=Status.QUEUED, start_time=None), "queued"),
        (made_job(status=Status.CANCELLED, start_time=None, queue=Queued()), "never run"),
        (made_job(queue=Queued()), None),
        (made_job(status=Status.UNKNOWN, start_time=None), None),  # imported, without its start
    ],
)
def test_of_a_job_that_has_not_begun_that_is_said(job: Job, words: str | None) -> None:
    text = not_started_text(job)
    assert (text is None) == (words is None)
    assert (words or "") in (text or "")


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        (None, []),
        (Queued(), []),
        (Queued(priority=5, group="gpu\n"), ["priority 5", "group gpu\\n"]),
        (Queued(after=("a" * 32, "b" * 32)), ["after aaaaaaaa, bbbbbbbb"]),
        (Queued(retries=1, attempt=2, retry_of="c" * 32), ["attempt 2", "1 retry left", "retry of cccccccc"]),
    ],
)
def test_how_a_job_waits_is_shown_as_far_as_it_was_given(queue: Queued | None, words: list[str]) -> None:
    assert queue_parts(made_job(status=Status.FAILED, queue=queue)) == words


def test_tries_that_are_not_needed_are_not_shown() -> None:
    assert queue_parts(made_job(status=Status.SUCCESS, queue=Queued(retries=2))) == []


def test_the_largest_process_alone_bounds_the_peak() -> None:
    jobs: list[Job] = [made_job(sources={"memory_peak": source}) for source in ("rusage_floor", "pss")]
    assert [is_peak_upper_bound(job) for job in jobs] == [True, False]


@pytest.mark.parametrize(
    ("source", "used", "resident", "expected"),
    [
        ("rusage", 50, 99, True),
        ("vmhwm", 50, 130, True),
        ("cgroup", 50, 99, False),
        ("rusage", 99, 99, False),
        ("rusage", 50, 60, False),  # the peak was between two samples
    ],
)
def test_a_high_water_mark_above_the_samples_counts_mapped_files(
    source: str, used: int, resident: int, expected: bool
) -> None:
    metrics: dict[str, dict[str, float | None]] = {"mem.used": {"peak": used}, "mem.rss": {"peak": resident}}
    job = made_job(usage=Usage(memory_peak_bytes=100), sources={"memory_peak": source}, metrics=metrics)
    assert counts_mapped_files(job) is expected
    assert not counts_mapped_files(replace(job, metrics={}))
