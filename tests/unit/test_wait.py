"""Waiting for what others write: cheap on a network, and patient with whoever holds the store."""

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from jobtop.core.model import Job, Status
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.lifecycle.queue import Queue
from jobtop.lifecycle.wait import Looks, await_ends
from jobtop.store.database import open_to_read, open_to_write
from jobtop.store.jobs import Jobs
from records import running_job


def test_a_store_on_the_network_is_asked_again_once_it_was_written(
    paths: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_to_write(paths, network=True).close()
    near, far = Looks(paths.store, False), Looks(paths.store, True)
    assert [near.is_due(), near.is_due()] == [True, True]
    assert not far.is_due()
    os.utime(paths.store, (1, 1))
    assert [far.is_due(), far.is_due()] == [True, False]
    journal = Path(f"{paths.store}-journal")
    journal.write_bytes(b"")
    assert [far.is_due(), far.is_due()] == [True, False]
    monkeypatch.setattr("jobtop.lifecycle.wait.NETWORK_LOOK_SECONDS", 0.0)
    assert far.is_due()


def test_who_waits_for_a_job_of_another_host_is_patient_while_that_writes(paths: StatePaths) -> None:
    ended: list[Job] = []
    with closing(open_to_write(paths, network=True)) as database:
        job = Jobs(database).insert(running_job())
        other = StatePaths(paths.root, "beta")

        def wait() -> None:
            with closing(open_to_read(paths.store, patience=0.01)) as reader:
                opened.set()
                ended.extend(await_ends(Queue(Jobs(reader), other), [job], network=False))

        opened, waiter = threading.Event(), threading.Thread(target=wait)
        waiter.start()
        assert opened.wait(10.0)
        with closing(sqlite3.connect(paths.store, isolation_level=None)) as holder:
            holder.execute("BEGIN EXCLUSIVE")
            waiter.join(0.3)
            holder.execute("COMMIT")
        assert waiter.is_alive()
        Jobs(database).change(job.id, lambda row: (replace(row, status=Status.SUCCESS, settled=True), ()))
        waiter.join(10.0)
    assert [job.status for job in ended] == [Status.SUCCESS]
