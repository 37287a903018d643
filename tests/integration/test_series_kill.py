"""`kill -9` of whoever writes samples: the file stays sound, no sample is torn or there twice, followers miss none."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobtop.core.measure.device import Device
from jobtop.core.model import Sample
from jobtop.core.paths import StatePaths
from jobtop.store.database import Database, open_to_read, open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.samples.devices import DeviceRecord
from jobtop.store.samples.head import DEVICES, JOBS, Layout
from jobtop.store.samples.series import SeriesStore
from records import HERE, running_job
from support import wait_for

OWNERS = 5
MOST_BLOCKS = 80  # of 5,000 samples that are sealed early so often; some 300 if they were not merged
# Every value of sample N is N, or absent by a rule, so that a torn one shows; what was committed is said on stdout. All
# owners but the first have new values at every seventh sample only.
WRITER = """
import os, random, sys
from pathlib import Path
from jobtop.core.model import Sample
from jobtop.core.paths import StatePaths
from jobtop.store.database import open_to_write
from jobtop.store.samples.head import LAYOUTS
from jobtop.store.samples.series import SeriesStore
root, host, owners = Path(sys.argv[1]), sys.argv[2], [int(owner) for owner in sys.argv[3].split(",")]
(layout,) = (layout for layout in LAYOUTS if layout.owners == sys.argv[4])
store = SeriesStore(open_to_write(StatePaths(root, host)), layout)
news = store.follow(owners[0])
number = int(news.samples[-1].elapsed) + 1 if news.samples else 0
while True:
    rows = []
    for owner in owners:
        value = number if owner == owners[0] else number // 7 * 7
        values = tuple(None if (value + place) % 7 == 0 else value for place in range(len(layout.keys)))
        rows.append((owner, Sample(float(number), values)))
    store.append(rows)
    os.write(1, b"%d\\n" % number)
    for _ in range(random.choice((0, 1, 5))):
        store.step()
    if random.random() < 0.3:
        store.seal(random.choice(owners))
    if random.random() < 0.5:
        store.trim(random.choice((20, 500)))
    number += 1
"""


def expected_sample(layout: Layout, number: int, is_restless: bool) -> Sample:
    value = number if is_restless else number // 7 * 7
    values = tuple(None if (value + place) % 7 == 0 else value for place in range(len(layout.keys)))
    return Sample(float(number), values)


@contextmanager
def writer(root: Path, layout: Layout, owners: list[int], said: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that writes as fast as it can, and says in a file which samples it has committed."""
    command = [sys.executable, "-c", WRITER, str(root), HERE, ",".join(map(str, owners)), layout.owners]
    with said.open("ab") as file, subprocess.Popen(command, stdout=file, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()
            assert process.stderr is not None
            assert process.stderr.read() == b""


def new_owners(root: Path, layout: Layout) -> list[int]:
    database = open_to_write(StatePaths(root, HERE))
    with database.writing() as connection:
        if layout is JOBS:
            numbers = [Jobs(database).insert(running_job()).seq for _ in range(OWNERS)]
        else:
            record, names = DeviceRecord(database), [f"{random.random()}" for _ in range(OWNERS)]
            numbers = [record.number(connection, Device("gpu", name)) for name in names]
    database.close()
    return [number for number in numbers if number is not None]


def last_said(said: Path) -> int:
    """The last sample a writer called committed; a line may be cut off by the kill."""
    lines = said.read_bytes().rpartition(b"\n")[0].split()
    return int(lines[-1]) if lines else -1


def wait_until_more_than(number: int, said: Path) -> None:
    wait_for(lambda: last_said(said) > number, 30)


def check_sound(database: Database, layout: Layout) -> None:
    by_owner = f"FROM {layout.blocks} GROUP BY {layout.owner}"
    with database.reading() as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        doubles = connection.execute(f"SELECT last_id {by_owner}, last_id HAVING count(*) > 1").fetchall()
        most = connection.execute(f"SELECT max(n) FROM (SELECT count(*) n {by_owner})").fetchone()[0]
    assert doubles == []
    assert (most or 0) <= MOST_BLOCKS


def check_whole(database: Database, layout: Layout, owners: list[int], committed: int) -> None:
    """Each owner has every sample up to the last committed, or the one after it, once and as it was."""
    store = SeriesStore(database, layout)
    for owner in owners:
        kept = store.follow(owner)
        assert kept.damaged == 0
        assert len(kept.samples) in (committed + 1, committed + 2)
        is_restless = owner == owners[0]
        assert kept.samples == [expected_sample(layout, number, is_restless) for number in range(len(kept.samples))]
        assert store.series(owner, layout.keys[:1]).times == [sample.elapsed for sample in kept.samples]


@pytest.mark.parametrize(
    ("layout", "rounds"),
    [
        (JOBS, 6),
        (DEVICES, 3),
        pytest.param(JOBS, 200, marks=pytest.mark.soak),
        pytest.param(DEVICES, 50, marks=pytest.mark.soak),
    ],
    ids=lambda value: value.owners if isinstance(value, Layout) else str(value),
)
def test_a_writer_killed_at_any_moment_leaves_every_sample_whole_and_once(
    tmp_path: Path, layout: Layout, rounds: int
) -> None:
    root, said = tmp_path / "state", tmp_path / "said"
    owners = new_owners(root, layout)
    said.touch()
    for number in range(rounds):
        before = last_said(said)
        if before > 5000:
            owners = new_owners(root, layout)
            said.write_bytes(b"")
            before = -1
        with writer(root, layout, owners, said) as process:
            wait_until_more_than(before, said)
            time.sleep(random.uniform(0, 0.4))
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL, f"round {number}"
        database = open_to_write(StatePaths(root, HERE))
        try:
            assert database.notice is None
            check_sound(database, layout)
            check_whole(database, layout, owners, last_said(said))
        finally:
            database.close()


@pytest.mark.parametrize("kills", [3, pytest.param(40, marks=pytest.mark.soak)])
def test_a_follower_across_seals_and_killed_writers_has_no_gap_and_nothing_twice(tmp_path: Path, kills: int) -> None:
    root, said = tmp_path / "state", tmp_path / "said"
    jobs = new_owners(root, JOBS)
    said.touch()
    database = open_to_read(StatePaths(root, HERE).store)
    store = SeriesStore(database)
    cursors: dict[int, int | None] = dict.fromkeys(jobs)
    seen: dict[int, list[float]] = {job: [] for job in jobs}

    def look() -> None:
        job = random.choice(jobs)
        news = store.follow(job, cursors[job])
        cursors[job] = news.cursor
        assert news.damaged == 0
        seen[job] += [sample.elapsed for sample in news.samples]

    for kill in range(kills):
        before = last_said(said)
        with writer(root, JOBS, jobs, said) as process:
            wait_until_more_than(before, said)
            end = time.monotonic() + random.uniform(0.3, 0.8)
            while time.monotonic() < end or last_said(said) < 100 * min(kill + 1, 3):
                look()
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
    while any(store.follow(job, cursors[job]).samples for job in jobs):
        look()
    database.close()
    for job in jobs:
        assert len(seen[job]) >= last_said(said) + 1 > 240
        assert seen[job] == [float(number) for number in range(len(seen[job]))]
