"""Stores and blocks that were made to hurt: sound ones, changed as no jobtop ever writes them."""

import sqlite3
import struct
import zlib
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.series import samples
from jobtop.core.measure.snapshot import ProcessRow
from jobtop.core.model import Identity, Job, Monitor, Usage
from jobtop.core.paths import StatePaths
from jobtop.core.series import blocks
from jobtop.core.series.blocks import COLUMN, COUNTS, HEAD, ONE_STREAM, TABLE_SIZE
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs, event
from jobtop.store.samples.hosts import HostRecord
from jobtop.store.samples.series import SeriesStore
from jobtop.store.samples.snapshots import Snapshots
from records import made_job, this_process

APART = 2
HOST = "elsewhere"
BAD, GOOD = "bad", "good"
SAMPLES = 150  # a block of 120, and the head


def made_store(directory: Path) -> tuple[Path, dict[str, Job]]:
    """A store of another host, of which nothing is STRICT any more, with two jobs that have all that jobs can have."""
    paths = StatePaths(directory, HOST)
    database = open_to_write(paths)
    jobs, kept = Jobs(database), {}
    for name in (BAD, GOOD):
        job = jobs.insert(sampled_job(name), event("started", pid=7), event("alert", text="hot", severity="warning"))
        assert job.seq is not None
        jobs.add_log_marks(job, [(1.0, 10, 20), (2.0, 30, 40)])
        row = ProcessRow(4711, 1, "python", 1.5, 99.0, 1 << 20, 1, 2.0, "S")
        Snapshots(database).keep(job.seq, 10.0, (row,))
        series = SeriesStore(database)
        series.append([(job.seq, sample) for sample in samples(SAMPLES)])
        assert series.seal_due(1) < SAMPLES
        paths.job(job.id).mkdir(parents=True)
        (paths.job(job.id) / "stdout.log").write_text("some words\n")
        kept[name] = job
    me = this_process()
    machine = HostRecord(database)
    assert machine.lease(me)
    machine.append([(1.0, {"cpu.percent": 5.0}), (2.0, {"cpu.percent": 6.0})])
    machine.keep_detail(2.0, {"cores": [1.0, 2.0]})
    database.close()
    loosen(paths.store)
    return paths.store, kept


def sampled_job(name: str) -> Job:
    return made_job(
        name=name,
        host=HOST,
        tags={"team": name},
        params={"lr": 0.1},
        flags=("left_running",),
        usage=Usage(1.0, 0.5, 1.5, 0.7, memory_peak_bytes=1 << 20, samples=SAMPLES),
        sources={"cpu": "rusage"},
        monitor=Monitor(1.0, 0.01, 1 << 20),
        metrics={"cpu.percent": {"min": 0.0, "mean": 1.0, "peak": 2.0}},
        shim=Identity("boot", 4711, 5),
        start_boottime=100.0,
    )


def loosen(path: Path) -> None:
    """Let every column take any value, as in a file that another program made."""
    run(
        path,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = replace(replace(sql, ') STRICT, WITHOUT', ') WITHOUT'), ') STRICT', ')')",
        "UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE name IN ('jobs', 'events', 'hosts')",
        "PRAGMA writable_schema = RESET",
    )


def run(path: Path, *statements: str, values: Iterable[object] = ()) -> None:
    """Change a store by SQL."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement, tuple(values) if "?" in statement else ())


def sealed(version: int, body: bytes) -> bytes:
    """A block with a checksum that is right."""
    return HEAD.pack(version, zlib.crc32(body, version)) + body


def one_column(kind: int, part: bytes, count: int, places: int = 3, divisor: int = 1, first: int = 0) -> bytes:
    """A block with moments and ids, and one more column as given."""
    rows = [
        (blocks.SHORT_IDS["elapsed"], COLUMN.pack(0, 3, 0, 1000, 1), b""),
        (blocks.SHORT_IDS["id"], COLUMN.pack(0, 0, 1, 1, 1), b""),
        (blocks.SHORT_IDS["mem.used"], COLUMN.pack(kind, places, first, 0, divisor), part),
    ]
    index = COUNTS.pack(count, 3) + struct.pack("<3H3I", *(row[0] for row in rows), *(len(row[2]) for row in rows))
    body = index + b"".join(row[1] for row in rows) + b"".join(row[2] for row in rows)
    return sealed(ONE_STREAM, zlib.compress(body))


def bomb(mebibytes: int = 256) -> bytes:
    """A zlib stream of so many zeros, without the time that it takes to compress them."""
    size = mebibytes << 20
    packer, end = (zlib.compressobj(9, wbits=-zlib.MAX_WBITS) for _ in range(2))
    part = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    checksum = (size % 65521) << 16 | 1  # Adler-32 of zeros
    return b"\x78\xda" + part * mebibytes + end.flush() + checksum.to_bytes(4, "big")


BOMB = bomb()
CRAFTED: dict[str, Any] = {
    "more samples than memory": one_column(0, b"", 2**32 - 1),
    "no samples": one_column(0, b"", 0),
    "a wide column": one_column(9, bytes(9 * 9), 10),
    "too few bytes": one_column(2, bytes(17), 10),
    "too many bytes": one_column(1, bytes(11), 10),
    "too few doubles": one_column(blocks.FLOATS, bytes(8), 10),
    "too many plain numbers": one_column(blocks.PLAIN, bytes(88), 10),
    "gaps that break off": one_column(blocks.GAPS, b"\xff", 10),
    "gaps beyond the samples": one_column(blocks.GAPS, b"\xff\xff", 10),
    "250 decimal places": one_column(0, b"", 10, places=250),
    "a divisor of 0": one_column(1, bytes(9), 10, divisor=0),
    "a bomb": sealed(ONE_STREAM, BOMB),
    "a table that is a bomb": sealed(APART, TABLE_SIZE.pack(1 << 30) + BOMB),
    "no stream": sealed(ONE_STREAM, b"garbage"),
    "an empty stream": sealed(ONE_STREAM, zlib.compress(b"")),
    "a stream that breaks off": sealed(ONE_STREAM, zlib.compress(bytes(1000))[:-5]),
    "nothing": sealed(ONE_STREAM, b""),
    "no table": sealed(APART, b"\x01"),
    "text": "text",
    "a number": 7,
    "null": None,
}
