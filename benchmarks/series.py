"""The samples that storage is measured with: 24 metrics of a busy GPU job, one sample per second, from a seed."""

import json
import random
from collections.abc import Iterator

from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Sample

PAGE, MIB = 4096, 2**20
KEYS = (
    "cpu.user cpu.system cpu.throttled cpu.pressure mem.used mem.rss mem.vms mem.swap mem.faults_minor"
    " mem.faults_major mem.oom_kills io.read_bytes io.write_bytes io.read_chars io.write_chars io.read_ops io.write_ops"
    " proc.count proc.threads proc.fds proc.switches_voluntary gpu.util gpu.mem_used energy.gpu"
).split()
COUNTERS = frozenset(KEYS) - set(
    "mem.used mem.rss mem.vms mem.swap proc.count proc.threads proc.fds gpu.util gpu.mem_used".split()
)


def samples(count: int, seed: int = 0) -> Iterator[Sample]:
    """Yield samples of a job in the order of the catalogue; metrics other than the 24 are absent."""
    positions = [JOB_COLUMNS.index(key) for key in KEYS]
    absent: list[float | int | None] = [None] * len(JOB_COLUMNS)
    for elapsed, row in rows(count, seed):
        values = absent.copy()
        for position, key in zip(positions, KEYS, strict=True):
            values[position] = row[key]
        yield Sample(elapsed, tuple(values))


def rows(count: int, seed: int = 0) -> Iterator[tuple[float, dict[str, float | int]]]:
    """Yield rows: CPU ≈ N(380, 15) %, memory a random walk, I/O in bursts, mostly constant counts, a noisy GPU."""
    rng = random.Random(seed)
    row: dict[str, float | int] = dict.fromkeys(KEYS, 0)
    row |= {"mem.used": 400_000 * PAGE, "mem.vms": 9_000_000 * PAGE, "gpu.mem_used": 11_000 * MIB}
    row |= {"proc.count": 5, "proc.threads": 41, "proc.fds": 120}
    for number in range(count):
        if number:
            row = {key: value + row[key] if key in COUNTERS else value for key, value in _step(row, rng).items()}
        yield number + round(rng.uniform(0, 0.002), 3), row


def json_line(elapsed: float, row: dict[str, float | int]) -> str:
    """Return a sample as a line of JSON, to the microsecond."""
    return json.dumps({"elapsed": elapsed} | {key: round(value, 6) for key, value in row.items()}) + "\n"


def _step(row: dict[str, float | int], rng: random.Random) -> dict[str, float | int]:
    """Return the growth of counters in one second, and the next values of gauges."""
    cpu = max(0.0, rng.gauss(3.80, 0.15))
    system = cpu * rng.uniform(0.06, 0.08)
    used = max(1000 * PAGE, int(row["mem.used"]) + PAGE * round(rng.gauss(0, 200)))
    reads = rng.randint(20, 400) if rng.random() < 0.05 else 0
    writes = rng.randint(20, 400) if rng.random() < 0.05 else 0
    changes = rng.random() < 0.02
    return {
        **dict.fromkeys(KEYS, 0),
        "cpu.user": cpu - system,
        "cpu.system": system,
        "mem.used": used,
        "mem.rss": used + 30_000 * PAGE,
        "mem.vms": int(row["mem.vms"]) + (64 * PAGE if changes else 0),
        "mem.faults_minor": max(0, round(rng.gauss(150, 40))),
        "io.read_bytes": reads * 32 * PAGE,
        "io.write_bytes": writes * 32 * PAGE,
        "io.read_chars": reads * 32 * PAGE + rng.randint(0, 900),
        "io.write_chars": writes * 32 * PAGE + 80,
        "io.read_ops": reads + 3,
        "io.write_ops": writes + 1,
        "proc.count": 5 + changes,
        "proc.threads": 41 + changes,
        "proc.fds": int(row["proc.fds"]) + (rng.choice((-1, 1)) if rng.random() < 0.05 else 0),
        "proc.switches_voluntary": max(0, round(rng.gauss(1200, 120))),
        "gpu.util": min(100, max(0, round(rng.gauss(87, 5)))),
        "gpu.mem_used": 11_000 * MIB + (2 * MIB if rng.random() < 0.1 else 0),
        "energy.gpu": max(0, round(rng.gauss(245, 12), 3)),
    }
