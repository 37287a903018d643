"""A block gives back what was put in, to the resolution of each metric, and notices that it was changed."""

import gzip
import math
import random
from collections.abc import Sequence
from itertools import pairwise

import pytest

from benchmarks.series import KEYS, json_line, rows, samples
from jobtop.core.errors import BlockDamaged
from jobtop.core.metrics import BY_KEY, JOB_COLUMNS, VALUE, Scope, columns, steps
from jobtop.core.model import Sample
from jobtop.core.series import blocks
from jobtop.core.series.blocks import HEAD, MINUTE_SUFFIXES, OWN_STEPS, SHORT_IDS, Block, decode, merge

Number = float | int
HUGE = (2**63 - 1, -(2**63), 0, 2**62, -(2**62), 1)


def encode(keys: Sequence[str], kept: Sequence[Sample], ids: Sequence[int]) -> bytes:
    return blocks.encode(keys, ids, [sample.elapsed for sample in kept], [sample.values for sample in kept])


def resolved(key: str, value: Number | None) -> Number | None:
    """A value as its metric keeps it."""
    return None if value is None else round(value * steps(key)) / steps(key)


def resolved_sample(sample: Sample) -> Sample:
    values = tuple(resolved(key, value) for key, value in zip(JOB_COLUMNS, sample.values, strict=True))
    return Sample(round(sample.elapsed, 3), values)


def one_column(key: str, values: list[Number | None]) -> list[Number | None]:
    """A column after a round trip."""
    ids = list(range(1, len(values) + 1))
    block = decode(encode((key,), [Sample(float(number), (value,)) for number, value in enumerate(values)], ids))
    assert (block.ids, block.elapsed) == (ids, [float(number) for number in range(len(values))])
    return block.columns.get(key, [None] * len(values))


def random_value(chance: random.Random) -> Number | None:
    kind = chance.randrange(6)
    if kind == 0:
        return None
    if kind == 1:
        return chance.choice(HUGE)
    if kind == 2:
        return chance.uniform(-1e6, 1e6)
    return chance.randrange(-(2 ** chance.randrange(1, 50)), 2 ** chance.randrange(1, 50))


def test_a_long_series_comes_back_as_it_was() -> None:
    kept = list(samples(120, seed=3))
    ids = list(range(1000, 1000 + 7 * 120, 7))
    block = decode(encode(JOB_COLUMNS, kept, ids))
    assert block.ids == ids
    assert block.samples(JOB_COLUMNS) == [resolved_sample(sample) for sample in kept]


@pytest.mark.parametrize("seed", range(60))
def test_random_columns_come_back_exactly(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.choice((1, 2, 3, 8, 9, 120, 257))
    pure_integers = [key for key in JOB_COLUMNS if steps(key) == 1]
    kept = []
    for number in range(count):
        values = tuple(random_value(chance) if chance.random() < 0.9 else None for _ in pure_integers)
        kept.append(Sample(round(number + chance.uniform(0, 0.9), 3), values))
    block = decode(encode(pure_integers, kept, range(count)))
    expected = [
        Sample(sample.elapsed, tuple(None if value is None else round(value) for value in sample.values))
        for sample in kept
    ]
    assert block.samples(pure_integers) == expected


@pytest.mark.parametrize(
    "values",
    [
        [5],
        [None],
        [0, 0, 0],
        [None, None, 7],
        [7, None, None],
        [10, 8, 6, 4],
        [1, 2**40, 3],
        list(HUGE),
        [-(2**63), 2**63 - 1],
        [*range(0, 65536 * 4096, 4096 * 997)],
        [value % 7 - 3 for value in range(300)],
    ],
    ids=str,
)
def test_whole_numbers_of_any_size_come_back(values: list[Number | None]) -> None:
    back = one_column("mem.used", values)
    assert back == values
    assert all(value is None or type(value) is int for value in back)


@pytest.mark.parametrize(
    ("key", "step"), [("cpu.user", 1e-6), ("gpu.util", 0.01), ("limit.cpus", 0.001), ("energy.cpu", 0.001)]
)
def test_fractions_keep_the_resolution_of_their_unit(key: str, step: float) -> None:
    chance = random.Random(1)
    values: list[Number | None] = [chance.uniform(0, 10_000) for _ in range(100)]
    back = one_column(key, values)
    assert back == [resolved(key, value) for value in values]
    assert one_column(key, back) == back
    assert any(abs((value or 0) - (given or 0)) > step / 10 for value, given in zip(back, values, strict=True))


def test_a_fraction_among_whole_numbers_is_rounded() -> None:
    assert one_column("mem.used", [1, 2, 3.5, 7]) == [1, 2, 4, 7]
    assert one_column("mem.used", [0, 0.4, 2.4, 5]) == [0, 0, 2, 5]


@pytest.mark.parametrize(("value", "back"), [(math.inf, None), (-math.inf, None), (math.nan, None), (1e300, 1e300)])
def test_what_no_whole_number_can_hold_is_kept_as_it_is_if_it_is_a_number(value: float, back: float | None) -> None:
    for before, after in (([1.5], [None, 2.25]), ([], [1.5]), ([None], [])):
        assert one_column("cpu.user", [*before, value, *after]) == [*before, back, *after]


def test_blocks_that_are_merged_are_the_block_of_all_their_samples() -> None:
    kept = list(samples(700, seed=4))
    parts = [encode(JOB_COLUMNS, kept[start : start + 140], range(start, start + 140)) for start in range(0, 700, 140)]
    assert merge(parts) == encode(JOB_COLUMNS, kept, range(700))
    assert merge([merge(parts[:3]), merge(parts[3:])]) == merge(parts)


@pytest.mark.parametrize("seed", range(30))
def test_any_columns_are_merged_as_they_were(seed: int) -> None:
    chance = random.Random(seed)
    keys = ("cpu.user", "mem.used", "gpu.util", "limit.cpus", "net.errors")
    kinds: dict[str, list[Number | None]] = {"cpu.user": [1.5, 2.25, math.inf], "mem.used": [*HUGE], "gpu.util": [5]}
    parts, expected, first = [], [], 0
    for _ in range(chance.randrange(1, 6)):
        there = {key for key in keys if chance.random() < 0.6}
        kept: list[Sample] = []
        for _ in range(chance.choice((1, 7, 120))):
            values = [chance.choice([*kinds.get(key, [1, 2]), None]) if key in there else None for key in keys]
            kept.append(Sample(float(first + len(kept)), tuple(values)))
        parts.append(encode(keys, kept, range(first, first + len(kept))))
        expected += decode(parts[-1]).samples(keys)
        first += len(kept)
    block = decode(merge(parts))
    assert block.samples(keys) == expected
    assert block.ids == list(range(first))


def test_merging_keeps_columns_and_resolutions_of_other_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    fine = encode(("cpu.user", "mem.used"), [Sample(0.0, (1.234567, 5))], (1,))
    monkeypatch.setattr("jobtop.core.series.blocks.steps", lambda _key: 10)
    coarse = encode(("cpu.user",), [Sample(1.0, (2.3,))], (2,))
    known = dict(SHORT_IDS)
    monkeypatch.delitem(SHORT_IDS, "mem.used")
    data = merge([fine, coarse])
    monkeypatch.setattr("jobtop.core.series.blocks.SHORT_IDS", known)
    assert decode(data).columns == {"cpu.user": [1.234567, 2.3], "mem.used": [5, None]}


def test_no_samples_make_no_block() -> None:
    with pytest.raises(BlockDamaged):
        decode(encode(JOB_COLUMNS, [], []))


def test_a_column_that_is_absent_throughout_is_absent() -> None:
    block = decode(encode(("cpu.user", "mem.used"), [Sample(0.0, (None, 5)), Sample(1.0, (None, 6))], (1, 2)))
    assert block.columns == {"mem.used": [5, 6]}
    assert [sample.values for sample in block.samples(("cpu.user", "mem.used"))] == [(None, 5), (None, 6)]


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.0, 3.0],
        [1, None, 3, -(2**62)],
        [0.1, 0.30000000000000004, 1e-300, None],
        [1e300, -0.5, 7],
        [math.pi * 10**number for number in range(-20, 20)],
    ],
)
def test_a_chosen_value_is_not_rounded_in_a_block_or_in_a_merged_one(values: list[Number | None]) -> None:
    assert one_column(VALUE, values) == values
    parts: list[list[Number | None]] = [values, [1, 2, 3], [0.5], values]
    made = [encode((VALUE,), [Sample(0.0, (value,)) for value in part], range(len(part))) for part in parts]
    assert decode(merge(made)).columns[VALUE] == [value for part in parts for value in part]


@pytest.mark.parametrize("length", [120, 600])
def test_only_what_is_wanted_is_unpacked(length: int) -> None:
    data = encode(JOB_COLUMNS, list(samples(length)), range(length))
    whole, some = decode(data), decode(data, ["proc.fds", "mem.pss"])
    assert some == Block([], whole.elapsed, {"proc.fds": whole.columns["proc.fds"]})


def test_a_block_of_another_catalogue_is_read_as_far_as_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode(("cpu.user", "mem.used"), [Sample(0.0, (1.5, 5))], (9,))
    monkeypatch.delitem(SHORT_IDS, "cpu.user")
    monkeypatch.setattr("jobtop.core.series.blocks.KEYS", {short: key for key, short in SHORT_IDS.items()})
    monkeypatch.setattr("jobtop.core.series.blocks.steps", lambda _key: 1)
    assert decode(data) == Block([9], [0.0], {"mem.used": [5]})
    assert decode(data, ["cpu.user", "mem.used"]).columns == {"mem.used": [5]}


def test_a_resolution_that_changes_later_does_not_change_what_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode(("cpu.user",), [Sample(0.0, (1.5,)), Sample(1.0, (2.5,))], (1, 2))
    monkeypatch.setattr("jobtop.core.series.blocks.steps", lambda _key: 10)
    assert decode(data).columns == {"cpu.user": [1.5, 2.5]}


def test_every_key_has_a_short_name_of_its_own() -> None:
    minutes = len(MINUTE_SUFFIXES) * (len(BY_KEY) + 1)  # of every key, and of a chosen value
    assert len(set(SHORT_IDS.values())) == len(SHORT_IDS) == len(BY_KEY) + len(OWN_STEPS) + minutes
    assert all(steps(key) == 10 ** (len(str(steps(key))) - 1) for key in BY_KEY)


@pytest.mark.parametrize("count", [40, 400])
def test_any_changed_bit_is_noticed(count: int) -> None:
    data = encode(JOB_COLUMNS, list(samples(count)), range(count))
    chance = random.Random(0)
    for position in [*range(HEAD.size + 2), *(chance.randrange(len(data)) for _ in range(200))]:
        changed = bytearray(data)
        changed[position] ^= 1 << chance.randrange(8)
        with pytest.raises(BlockDamaged):
            decode(bytes(changed))


@pytest.mark.parametrize("count", [40, 400])
@pytest.mark.parametrize("length", [0, 4, 5, 40, -1])
def test_a_block_cut_short_is_noticed(count: int, length: int) -> None:
    with pytest.raises(BlockDamaged):
        decode(encode(JOB_COLUMNS, list(samples(count)), range(count))[:length])


@pytest.mark.parametrize("length", [120, 600])
def test_a_sample_of_24_metrics_takes_26_bytes_and_half_of_gzipped_json_lines(length: int) -> None:
    kept = list(samples(1200))
    sealed = [
        encode(JOB_COLUMNS, kept[start : start + length], range(start, start + length))
        for start in range(0, 1200, length)
    ]
    lines = "".join(json_line(elapsed, row) for elapsed, row in rows(1200))
    size = sum(map(len, sealed)) / len(kept)
    assert size <= 26
    assert size <= len(gzip.compress(lines.encode())) / len(kept) / 2


def test_the_series_of_the_benchmarks_is_what_it_says() -> None:
    made = [row for _, row in rows(2000)]
    cpu = [
        100 * (after["cpu.user"] + after["cpu.system"] - before["cpu.user"] - before["cpu.system"])
        for before, after in pairwise(made)
    ]
    mean = sum(cpu) / len(cpu)
    assert mean == pytest.approx(380, abs=2)
    assert math.sqrt(sum((value - mean) ** 2 for value in cpu) / len(cpu)) == pytest.approx(15, abs=1)
    assert len(KEYS) == 24
    assert set(KEYS) <= set(columns(Scope.JOB))
    assert sum(all(row[key] == 0 for row in made) for key in KEYS) >= 4
    assert [row for _, row in rows(50, seed=1)] == [row for _, row in rows(50, seed=1)]
