"""Rows that are appended many at a time: each has an id of its own, and comes back as it was."""

import pytest

from jobtop.core.model import Sample
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs
from jobtop.store.samples import head
from jobtop.store.samples.head import JOBS, ROWS_AT_ONCE
from records import running_job
from sampled import sample


@pytest.mark.parametrize("count", [1, ROWS_AT_ONCE - 1, ROWS_AT_ONCE, ROWS_AT_ONCE + 1, 5 * ROWS_AT_ONCE + 3])
def test_any_number_of_rows_is_kept_each_under_the_id_that_is_told(database: Database, count: int) -> None:
    seqs = [seq for _ in range(count) if (seq := Jobs(database).insert(running_job()).seq) is not None]
    rows: list[tuple[int, Sample]] = [
        (seq, sample(seq / 8, mem_used=seq, cpu_user=None if seq % 5 == 0 else seq / 4)) for seq in seqs
    ]
    with database.writing() as connection:
        inserted = head.insert(connection, JOBS, rows)
        kept = {seq: head.select(connection, JOBS, seq, 0, JOBS.keys) for seq in seqs}
    assert len(inserted) == count
    for identifier, (seq, one) in inserted:
        assert kept[seq] == [(identifier, one.elapsed, one.values)]
