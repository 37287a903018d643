"""Jobs with samples, as tests make them."""

from collections.abc import Iterable
from pathlib import Path

from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Sample
from jobtop.core.paths import StatePaths
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.samples.series import SeriesStore
from records import HERE


def sample(elapsed: float, **values: float | None) -> Sample:
    """A sample with these values: `mem_used` is mem.used."""
    by_key = {key.replace("_", ".", 1): value for key, value in values.items()}
    assert by_key.keys() <= set(JOB_COLUMNS), by_key
    return Sample(elapsed, tuple(by_key.get(key) for key in JOB_COLUMNS))


def steady(count: int, interval: float = 1.0) -> list[Sample]:
    """Samples of a job that uses half a core, reads 1000 bytes a second and holds one MiB more each time."""
    return [
        sample(
            number * interval,
            cpu_user=number * interval * 0.4,
            cpu_system=number * interval * 0.1,
            mem_used=number << 20,
            mem_rss=number * 2 << 20,
            mem_vms=number * 10 << 20,
            io_read_bytes=round(number * interval * 1000),
            io_write_bytes=0,
            proc_count=2,
            proc_threads=5,
        )
        for number in range(1, count + 1)
    ]


def kept_sampled(root: Path, job: Job, samples: Iterable[Sample], sealed: bool = False) -> Job:
    """The job as the store of this host keeps it, with its samples."""
    database = open_to_write(StatePaths(root, HERE))
    try:
        kept = Jobs(database).insert(job)
        assert kept.seq is not None
        store = SeriesStore(database)
        store.append([(kept.seq, one) for one in samples])
        if sealed:
            store.seal(kept.seq)
        return kept
    finally:
        database.close()


def damage_samples(root: Path) -> None:
    """Change a bit in every sealed block."""
    database = open_to_write(StatePaths(root, HERE))
    try:
        with database.writing() as connection:
            for identifier, data in connection.execute("SELECT id, data FROM blocks").fetchall():
                changed = bytearray(data)
                changed[len(changed) // 2] ^= 4
                connection.execute("UPDATE blocks SET data = ? WHERE id = ?", (bytes(changed), identifier))
    finally:
        database.close()
