"""What is derived is the same from blocks, from rows and from samples one by one."""

import random

import pytest

from jobtop.core.measure.derive import derive
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Sample
from jobtop.core.series import blocks
from jobtop.store.samples.head import JOBS
from jobtop.store.samples.joined import Joined

USER, SYSTEM, USED = (JOB_COLUMNS.index(key) for key in ("cpu.user", "cpu.system", "mem.used"))
Made = list[tuple[float, float | None, float | None, int | None]]  # elapsed, cpu.user, cpu.system, mem.used


def made_series(chance: random.Random, oddity: str) -> Made:
    """Two hours of a job, to the resolution of a block, some of it odd."""
    step = 0.01 if oddity == "ticks" else 1e-6
    elapsed = user = system = 0.0
    made: Made = []
    for number in range(300):
        elapsed = round(elapsed + chance.choice((0.5, 1.0, 7.0)) + chance.randrange(5) / 1000, 3)
        user = round(user + chance.randrange(400) * step, 6)
        system = round(system + (0 if oddity == "idle" else chance.randrange(100) * step), 6)
        is_odd = number % 97 == 50
        if is_odd and oddity == "short":
            elapsed = round(made[-1][0] + 0.005, 3)
        fallen = round(user / 2, 6) if is_odd and oddity == "fell" else user
        made.append((elapsed, None if is_odd and oddity == "gaps" else fallen, system, chance.randrange(10**9)))
    return made


def sample(row: tuple[float, float | None, float | None, int | None]) -> Sample:
    values: list[float | int | None] = [None] * len(JOB_COLUMNS)
    values[USER], values[SYSTEM], values[USED] = row[1:]
    return Sample(row[0], tuple(values))


def joined(kept: list[Sample], lengths: list[int], keys: list[str]) -> Joined:
    """The samples from blocks of these lengths, and the rest from rows."""
    whole = Joined(JOBS, keys)
    packed, start = [], 0
    for length in lengths:
        part = kept[start : start + length]
        data = blocks.encode(JOB_COLUMNS, range(length), [one.elapsed for one in part], [one.values for one in part])
        packed.append((length, data))
        start += length
    positions = [JOB_COLUMNS.index(key) for key in whole.stored]
    rows = [Sample(one.elapsed, tuple(one.values[position] for position in positions)) for one in kept[start:]]
    whole.add_all(packed, list(enumerate(rows)))
    return whole


@pytest.mark.parametrize("oddity", ["none", "ticks", "idle", "gaps", "fell", "short"])
def test_percents_are_those_of_the_samples_one_by_one(oddity: str) -> None:
    chance = random.Random(oddity)
    kept = [sample(row) for row in made_series(chance, oddity)]
    expected = [derive(before, after).values["cpu.percent"] for before, after in zip([None, *kept], kept, strict=False)]
    assert (None in expected[1:]) == (oddity in {"gaps", "fell", "short"})
    for lengths in ([], [300], [1, 1, 120, 120], [120, 50, 130]):
        for keys in (["cpu.percent"], ["mem.used", "cpu.percent"], ["cpu.percent", "cpu.user"]):
            found = joined(kept, lengths, keys).series(None, None, None)
            assert found.times == [one.elapsed for one in kept]
            assert found.values["cpu.percent"] == pytest.approx(expected)
            assert list(found.values) == keys
            for key in set(keys) - {"cpu.percent"}:
                assert found.values[key] == [one.values[JOB_COLUMNS.index(key)] for one in kept]


def test_the_newest_values_are_known_whichever_way_they_came() -> None:
    kept = [sample(row) for row in made_series(random.Random(1), "none")]
    for lengths in ([], [300], [120]):
        newest = joined(kept, lengths, ["cpu.percent", "mem.used"]).newest
        last = kept[-1].values
        assert newest == {"cpu.user": last[USER], "cpu.system": last[SYSTEM], "mem.used": last[USED]}


def test_a_damaged_block_is_counted_and_the_next_rate_is_over_the_hole() -> None:
    kept = [sample((float(second), second * 0.5, 0.0, second)) for second in range(300)]
    whole = Joined(JOBS, ["cpu.percent"])
    for start in (0, 100, 200):
        part = kept[start : start + 100]
        data = blocks.encode(JOB_COLUMNS, range(100), [one.elapsed for one in part], [one.values for one in part])
        whole.add_block(100, data if start != 100 else data[:-1])
    found = whole.series(None, None, None)
    assert (len(found.times), found.damaged) == (200, 100)
    assert found.values["cpu.percent"][1:] == pytest.approx([50.0] * 199)
