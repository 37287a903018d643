"""A block that was made to hurt is damaged, whatever its checksum says, and costs neither time nor memory."""

import random
import tracemalloc
import zlib

import pytest

from benchmarks.series import samples
from crafted import BOMB, CRAFTED, one_column, sealed
from fuzzing import MOST_BYTES, fuzz, fuzzed, mutated
from jobtop.core.errors import BlockDamaged
from jobtop.core.metrics import JOB_COLUMNS, Scope
from jobtop.core.series import blocks
from jobtop.core.series.blocks import HEAD, ONE_STREAM, TABLE_SIZE, decode, merge
from jobtop.core.series.readings import SampleReader, sample_json
from jobtop.core.series.rollup import roll_up
from jobtop.store.samples.head import JOBS
from jobtop.store.samples.joined import Joined
from jobtop.store.samples.packed import pack, unpack
from jobtop.store.samples.snapshots import unpacked_members
from records import made_job

APART = 2
KEYS = ("cpu.percent", "mem.used", "proc.fds", "cpu.user", "io.read_bytes")
JOB = made_job()


def real(length: int, seed: int = 0) -> bytes:
    kept = list(samples(length, seed=seed))
    ids = range(1, length + 1)
    return blocks.encode(JOB_COLUMNS, ids, [sample.elapsed for sample in kept], [sample.values for sample in kept])


GOOD = {length: real(length) for length in (1, 2, 40, 130, 400)}
MINUTES = [roll_up(decode(GOOD[length]), Scope.JOB) for length in (40, 400)]


@pytest.mark.parametrize("data", CRAFTED.values(), ids=CRAFTED)
def test_what_jobtop_never_wrote_is_damaged(data: bytes) -> None:
    with pytest.raises(BlockDamaged):
        decode(data)
    joined = Joined(JOBS, KEYS)
    joined.add_block(7, data)
    assert joined.series(None, None, None).damaged == 7


def test_a_sound_column_between_moments_and_ids_is_read() -> None:
    assert decode(one_column(1, bytes(9), 10, places=0, first=5)).columns == {"mem.used": [5] * 10}


def test_a_damaged_block_leaves_the_others_as_they_were() -> None:
    joined = Joined(JOBS, KEYS)
    for data in (GOOD[40], one_column(2, bytes(17), 10), GOOD[40]):
        joined.add_block(40, data)
    series = joined.series(None, None, None)
    assert (len(series.times), series.damaged) == (80, 40)
    assert {len(values) for values in series.values.values()} == {80}


def a_block(dice: random.Random) -> bytes:
    """A block of samples or of minutes, most often damaged below a checksum that is right."""
    data = dice.choice((*GOOD.values(), *MINUTES))
    version = data[0]
    body = data[HEAD.size :]
    way = dice.randrange(4)
    if way == 0:
        return mutated(dice, data)
    if way == 1:
        return sealed(dice.choice((version, version, 1, 2)), mutated(dice, body))
    if version == ONE_STREAM:
        return sealed(ONE_STREAM, zlib.compress(some_bytes_changed(dice, zlib.decompress(body)), 1))
    size = TABLE_SIZE.unpack_from(body)[0]
    table, parts = body[TABLE_SIZE.size : TABLE_SIZE.size + size], body[TABLE_SIZE.size + size :]
    if way == 2:
        table = zlib.compress(some_bytes_changed(dice, zlib.decompress(table)), 1)
    else:
        parts = some_bytes_changed(dice, parts)
    return sealed(APART, TABLE_SIZE.pack(len(table)) + table + parts)


def some_bytes_changed(dice: random.Random, data: bytes) -> bytes:
    """Most often of the same length, so that what comes first does not hide what comes later."""
    if dice.random() < 0.3:
        return mutated(dice, data)
    changed = bytearray(data)
    for _ in range(dice.randint(1, 6)):
        # The counts, names and rows of the table are at the beginning.
        most = len(changed) if dice.random() < 0.3 else min(len(changed), 2000)
        changed[dice.randrange(most)] = dice.choice((0, 1, 8, 9, 0x10, 0x20, 0x40, 0x80, 0xFF, dice.randrange(256)))
    return bytes(changed)


def read_every_way(data: bytes) -> None:
    joined = Joined(JOBS, KEYS)
    joined.add_block(1, GOOD[2])
    joined.add_block(1, data)
    joined.add_block(1, GOOD[2])
    series = joined.series(None, None, 50)
    assert {len(values) for values in series.values.values()} == {len(series.times)}
    block = decode(data)
    kept = block.samples(JOB_COLUMNS)
    for reading in SampleReader().read(kept[:5]):
        sample_json(JOB, reading)
    decode(data, ("cpu.user", "mem.used"))
    decode(merge([GOOD[2], data]))
    decode(roll_up(block, Scope.JOB))


@fuzzed("blocks", inputs=1000)
def test_any_block_is_samples_or_damage(count: int) -> None:
    fuzz("blocks", a_block, read_every_way, count)


@pytest.mark.parametrize(
    "data",
    [
        BOMB,
        b"",
        b"x",
        zlib.compress(b"[" * 100_000),
        zlib.compress(b"3")[:-2],
        None,
        7,
        "x",
    ],
    ids=["bomb", "nothing", "garbage", "deep", "breaks off", "null", "number", "text"],
)
def test_packed_values_are_bounded_too(data: bytes) -> None:
    tracemalloc.start()
    assert unpack(data) is None
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < MOST_BYTES


ROW = [4711, 1, "python", 1.5, None, 4096, 1, 2.0, "S"]
COLUMNS = ["pid", "parent", "command", "cpu_seconds", "cpu_percent", "memory_bytes", "threads", "age_seconds", "state"]


@pytest.mark.parametrize(
    "value",
    [
        3,
        [],
        {},
        {"columns": COLUMNS},
        {"columns": 3, "rows": []},
        {"columns": COLUMNS, "rows": 3},
        {"columns": COLUMNS, "rows": [3]},
        {"columns": COLUMNS, "rows": [ROW[1:]]},
        {"columns": COLUMNS[1:], "rows": [ROW[1:]]},
        {"columns": [[]] * 9, "rows": [ROW]},
        {"columns": COLUMNS, "rows": [["1", *ROW[1:]]]},
        {"columns": COLUMNS, "rows": [[*ROW[:3], float("inf"), *ROW[4:]]]},
    ],
    ids=str,
)
def test_a_snapshot_of_another_shape_is_damaged(value: object) -> None:
    assert unpacked_members(pack(value)) is None


def test_a_snapshot_with_a_column_of_a_later_version_is_read() -> None:
    members = unpacked_members(pack({"columns": [*COLUMNS, "later"], "rows": [[*ROW, 5]]}))
    assert members is not None
    assert members[0].command == "python"
