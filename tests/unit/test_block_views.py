"""Samples of blocks, made from the samples of their process."""

from collections.abc import Mapping

from jobtop.core.measure.sampler import Batch
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Sample
from jobtop.core.track.views import View, Views

PROCESS, STARTED = "process 7", 1000.0


def sample_at(elapsed: float, **values: float) -> Sample:
    named = {key.replace("_", ".", 1): value for key, value in values.items()}
    return Sample(elapsed, tuple(named.get(key) for key in JOB_COLUMNS))


def value_of(sample: Sample, key: str) -> float | None:
    return sample.values[JOB_COLUMNS.index(key)]


def views_of(used: Mapping[str, tuple[float, float]] | None = None) -> Views:
    return Views(PROCESS, STARTED, lambda: used or {})


def samples_of(views: Views, sample: Sample) -> dict[str, Sample]:
    return dict(views.expanded(Batch(samples=[(PROCESS, sample)])).samples)


def test_counters_are_those_since_the_block_was_opened_and_gauges_as_they_are() -> None:
    views = views_of()
    views.add(View("a", None, STARTED + 50, {"cpu.user": 3.0, "cpu.system": 1.0, "io.read_chars": 100}))
    first = samples_of(views, sample_at(51.0, cpu_user=3.5, cpu_system=1.0, io_read_chars=150, mem_used=7))["a"]
    assert first.elapsed == 1.0
    assert [value_of(first, key) for key in ("cpu.user", "cpu.system", "io.read_chars", "mem.used")] == [0.5, 0, 50, 7]


def test_a_counter_that_was_not_known_when_the_block_was_opened_begins_with_its_first_sample() -> None:
    views = views_of()
    views.add(View("a", None, STARTED, {}))
    samples_of(views, sample_at(1.0, cpu_user=0.0, cpu_system=0.0, net_rx_bytes=500))
    second = samples_of(views, sample_at(2.0, cpu_user=0.0, cpu_system=0.0, net_rx_bytes=700))["a"]
    assert value_of(second, "net.rx_bytes") == 200


def test_a_sample_from_before_a_block_is_not_its_own() -> None:
    views = views_of()
    views.add(View("a", None, STARTED + 10, {}))
    assert samples_of(views, sample_at(9.0, cpu_user=1.0, cpu_system=0.0)) == {}


def test_while_two_blocks_are_open_each_has_the_time_of_its_threads_and_children() -> None:
    used = {"a": (0.0, 0.0), "b": (0.0, 0.0)}
    views = views_of(used)
    views.add(View("a", None, STARTED, {"cpu.user": 0.0, "cpu.system": 0.0}))
    samples_of(views, sample_at(1.0, cpu_user=1.0, cpu_system=0.0))
    used["a"] = (1.0, 0.0)
    views.add(View("b", None, STARTED + 1, {"cpu.user": 1.0, "cpu.system": 0.0}))
    used.update(a=(1.25, 0.0), b=(0.5, 0.0))
    samples = samples_of(views, sample_at(2.0, cpu_user=1.75, cpu_system=0.0))
    assert (value_of(samples["a"], "cpu.user"), value_of(samples["b"], "cpu.user")) == (1.25, 0.5)
    used.update(a=(1.5, 0.0), b=(1.25, 0.0))  # b is closed in the middle of an interval: its part of it stays its own
    views.remove("b")
    last = samples_of(views, sample_at(3.0, cpu_user=2.75, cpu_system=0.0))["a"]
    assert value_of(last, "cpu.user") == 1.5
    last = samples_of(views, sample_at(4.0, cpu_user=3.75, cpu_system=0.0))["a"]
    assert value_of(last, "cpu.user") == 2.5


def test_nothing_of_the_process_itself_is_left_in_a_batch() -> None:
    views = views_of()
    views.add(View("a", None, STARTED, {}))
    batch = Batch(
        samples=[(PROCESS, sample_at(1.0))],
        snapshots=[(PROCESS, 1.0, [])],
        events=[(PROCESS, 5.0, "suspended", {}), (None, 5.0, "host", {})],
        named=[(PROCESS, "loss", 1.0, 2.0)],
    )
    made = views.expanded(batch)
    assert [key for key, _ in made.samples] == ["a"]
    assert [key for key, *_ in made.snapshots] == ["a"]
    assert [event[0] for event in made.events] == ["a", None]
    assert made.named == []
