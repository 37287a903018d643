"""What is said of a job in verbs and console alike."""

import pytest

from jobtop.core.model import Job, Kept, Queued, Usage
from jobtop.core.told import kept_words, memory_is_bound, queued_words
from records import made_job


@pytest.mark.parametrize(
    ("kept", "samples", "words"),
    [
        (Kept.WHOLE, 100, None),
        (Kept.MINUTES, 100, "one a minute"),
        (Kept.MINUTES, 2, None),
        (Kept.RECORD, 100, "let go, like its output"),
        (Kept.RECORD, None, None),
    ],
)
def test_what_became_of_samples_is_told_where_there_were_any(kept: Kept, samples: int | None, words: str) -> None:
    told = kept_words(made_job(kept=kept, usage=Usage(samples=samples)))
    assert told is None if words is None else told is not None and told.startswith(words)


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        (None, []),
        (Queued(), []),
        (Queued(priority=5, group="gpu\n"), ["priority 5", "group gpu\\n"]),
        (Queued(after=("a" * 32, "b" * 32)), ["after aaaaaaaa, bbbbbbbb"]),
        (Queued(retries=1, attempt=2, retry_of="c" * 32), ["attempt 2", "1 try left", "once more after cccccccc"]),
    ],
)
def test_how_a_job_waits_is_told_as_far_as_somebody_wished_it(queue: Queued | None, words: list[str]) -> None:
    assert queued_words(made_job(queue=queue)) == words


def test_the_largest_process_alone_bounds_the_peak() -> None:
    jobs: list[Job] = [made_job(sources={"memory_peak": source}) for source in ("rusage_floor", "pss")]
    assert [memory_is_bound(job) for job in jobs] == [True, False]
