"""A script that makes a store with many jobs, prints `ready`, and adds a sample of each job every second.

`python crowd.py STATE HOST STATUS JOBS SECONDS`: JOBS jobs of one status, sampled for SECONDS; 0 only makes the store.
"""

import sys
import time
import uuid
from pathlib import Path
from random import Random

from jobtop.core.job_id import JobId
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Limits, Sample, Status, Usage
from jobtop.core.paths import StatePaths
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.samples.series import SeriesStore

PAST_SECONDS, AGE_SECONDS = 70, 300
GIB = 2**30
KEYS = "cpu.user cpu.system mem.used io.read_bytes io.write_bytes proc.count proc.threads".split()


class Crowd:
    """Jobs of which every number changes each second."""

    def __init__(self, root: Path, host: str, status: Status, count: int) -> None:
        self.database = open_to_write(StatePaths(root, host))
        self.series = SeriesStore(self.database)
        self.began = time.time() - AGE_SECONDS
        self._random = Random(1)
        with self.database.writing():
            self.owners = [
                Jobs(self.database).insert(self._job(number, host, status)).seq or 0 for number in range(count)
            ]
        self._used = [0.0] * count
        self._moved = [0] * count
        for second in range(PAST_SECONDS, 0, -1):
            self.sample(time.time() - second)

    def sample(self, now: float) -> None:
        """Add one sample of each job."""
        rng = self._random
        rows = []
        for place, owner in enumerate(self.owners):
            self._used[place] += 4 * rng.random()
            self._moved[place] += rng.randrange(1 << 24)
            used, moved = self._used[place], self._moved[place]
            values = (0.9 * used, 0.1 * used, rng.randrange(GIB), moved, moved // 2, 1 + place % 7, 2 + place % 9)
            named = dict(zip(KEYS, values, strict=True))
            rows.append((owner, Sample(now - self.began, tuple(map(named.get, JOB_COLUMNS)))))
        self.series.append(rows)
        for _ in range(6):
            self.series.step()

    def _job(self, number: int, host: str, status: Status) -> Job:
        return Job(
            JobId(str(uuid.UUID(int=self._random.getrandbits(128), version=4))),
            f"job-{number:04d}",
            ("work", str(number)),
            host,
            "ada",
            "/work",
            status,
            submitted_at=self.began,
            start_time=self.began,
            end_time=self.began + AGE_SECONDS if status.ended else None,
            duration_seconds=AGE_SECONDS if status.ended else None,
            limits=Limits(cpus=4, memory_bytes=GIB),
            usage=Usage(cpus_allowed=4.0),
            settled=True,  # otherwise the console would look for its processes
        )


def main() -> None:
    root, host, status, count, seconds = sys.argv[1:]
    crowd = Crowd(Path(root), host, Status(status), int(count))
    print("ready", flush=True)
    end = time.monotonic() + float(seconds)
    due = time.monotonic()
    while due < end:
        crowd.sample(time.time())
        due += 1.0
        time.sleep(max(0.0, due - time.monotonic()))
    crowd.database.close()


if __name__ == "__main__":
    main()
