"""Expressions of alert rules: what they accept, what they refuse, and their values."""

from __future__ import annotations

import random
import time

import pytest

from jobtop.core.alerts.expressions.expression import compile_tripped, format_key, format_value, parse, supplying_keys
from jobtop.core.errors import BadValue
from jobtop.core.measure.derive import derive
from jobtop.core.metrics import JOB_COLUMNS, Scope
from jobtop.core.model import Sample

Values = dict[str, float | int | None]


def values(**given: float | int | None) -> tuple[float | int | None, ...]:
    """A sample of a job: keys are given with _ for the first dot."""
    by_key = {key.replace("_", ".", 1): value for key, value in given.items()}
    assert by_key.keys() <= set(JOB_COLUMNS)
    return tuple(by_key.get(key) for key in JOB_COLUMNS)


NONE = values()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mem.used", 600),
        ("mem.used / limit.memory", 0.6),
        ("(mem.used + 100B) / limit.memory", 0.7),
        ("mem.used / limit.memory - 10%", 0.5),
        ("rate(io.write_bytes)", 50.0),
        ("io.write_bytes", 150),
        ("rate(mem.used)", -200.0),
        ("cpu.percent", 150.0),
        ("cpu.percent / limit.cpus", 75.0),
        ("min(mem.used, limit.memory, 500)", 500),
        ("max(mem.used, 1KiB)", 1024),
        ("-mem.used + 1000", 400),
        ("2 * 3 + 4 / 2 - 1", 7),
        ("2 - 3 - 4", -5),
        ("8 / 4 / 2", 1),
        ("elapsed / 30s", 2.0),
        ("elapsed - 1m", 0.0),
    ],
)
def test_an_expression_has_the_value_that_its_text_says(text: str, expected: float) -> None:
    before = values(mem_used=1000, io_write_bytes=50, cpu_user=10.0, cpu_system=1.0)
    after = values(mem_used=600, io_write_bytes=150, cpu_user=12.0, cpu_system=2.0, limit_memory=1000, limit_cpus=2)
    assert parse(text, Scope.JOB).job_value(before, after, 2.0, 60.0) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "before", "after", "seconds"),
    [
        ("mem.used / limit.memory", NONE, values(mem_used=1), 1.0),
        ("mem.used / limit.memory", NONE, values(mem_used=1, limit_memory=0), 1.0),
        ("mem.used / (mem.used - mem.used)", NONE, values(mem_used=1), 1.0),
        ("min(mem.used, mem.rss)", NONE, values(mem_used=1), 1.0),
        ("rate(io.write_bytes)", values(io_write_bytes=9), values(io_write_bytes=8), 1.0),
        ("rate(io.write_bytes)", values(io_write_bytes=1), values(io_write_bytes=8), 0.0),
        ("rate(io.write_bytes)", NONE, values(io_write_bytes=8), 1.0),
        ("cpu.percent", values(cpu_user=1.0), values(cpu_user=2.0, cpu_system=1.0), 1.0),
    ],
)
def test_an_absent_part_makes_the_whole_absent(
    text: str, before: tuple[float | None, ...], after: tuple[float | None, ...], seconds: float
) -> None:
    expression = parse(text, Scope.JOB)
    assert expression.job_value(before, after, seconds) is None
    assert compile_tripped(expression, -1.0e9, None)([("job", after, before, seconds, 1.0)]) == []


def test_the_cpu_percent_of_a_job_is_that_of_derive() -> None:
    before = Sample(10.0, values(cpu_user=1.25, cpu_system=0.5))
    after = Sample(11.5, values(cpu_user=2.0, cpu_system=0.75))
    expected = derive(before, after).values["cpu.percent"]
    assert parse("cpu.percent", Scope.JOB).job_value(before.values, after.values, 1.5) == pytest.approx(expected)


def test_values_of_the_host_and_of_devices_are_read_by_key() -> None:
    before: Values = {"mem.used": 90, "io.pressure": 1.0}
    after: Values = {"mem.used": 95, "mem.total": 100, "io.pressure": 2.0, "cpu.percent": 250.0}
    assert parse("mem.used / mem.total", Scope.HOST).value(before, after, 2.0) == 0.95
    assert parse("rate(io.pressure)", Scope.HOST).value(before, after, 2.0) == 0.5
    assert parse("cpu.percent", Scope.HOST).value(before, after, 2.0) == 250.0
    assert parse("swap.used / swap.total", Scope.HOST).value(before, after, 2.0) is None
    assert parse("gpu.temp", Scope.GPU).value({}, {"gpu.temp": 81.0}, 0.0) == 81.0


def test_tripped_finds_the_rows_above_or_below_the_level() -> None:
    rows = [(f"j{used}", values(mem_used=used, limit_memory=100), NONE, 0.0, 1.0) for used in (10, 90, 91, 100)]
    expression = parse("mem.used / limit.memory", Scope.JOB)
    assert compile_tripped(expression, 0.9, None)(rows) == [("j91", 0.91), ("j100", 1.0)]
    assert compile_tripped(expression, None, 0.5)(rows) == [("j10", 0.1)]
    assert compile_tripped(expression, 0.99, 0.5)(rows) == [("j10", 0.1), ("j100", 1.0)]


@pytest.mark.parametrize(
    ("text", "scope", "words"),
    [
        ("mem.usd / limit.memory", Scope.JOB, '"mem.usd" (did you mean "mem.used"?)'),
        ("gpu.temp", Scope.JOB, '"gpu.temp" is not measured for job, only for gpu'),
        ("rat(io.write_bytes)", Scope.JOB, '(did you mean "rate"?)'),
        ("rate(cpu.percent)", Scope.JOB, "no rate"),
        ("rate(mem.used + 1)", Scope.JOB, 'expected ")"'),
        ("rate(5)", Scope.JOB, "needs one metric"),
        ("mem.used + cpu.percent", Scope.JOB, "bytes and percent"),
        ("max(mem.used, 5s)", Scope.JOB, "bytes and seconds"),
        ("mem.used /", Scope.JOB, "not the end"),
        ("mem.used mem.rss", Scope.JOB, 'unexpected "mem.rss"'),
        ("(mem.used", Scope.JOB, 'expected ")"'),
        ("mem.used ** 2", Scope.JOB, 'not "*"'),
        ("", Scope.JOB, "the end"),
        ("min(mem.used)", Scope.JOB, "two or more"),
        ("mem.used > 5", Scope.JOB, 'unexpected ">"'),
        ("__import__('os')", Scope.JOB, "unknown function"),
        ("mem.used.__class__", Scope.JOB, "unknown metric"),
        ("1x5", Scope.JOB, "not a number"),
        ("1.2.3", Scope.JOB, "not a number"),
        ("9" * 200, Scope.JOB, "too large"),
        ("\x1b[2J", Scope.JOB, "\\x1b"),
        ("cwd.disk_used / mem.used", Scope.JOB, "cannot be combined"),
    ],
)
def test_a_wrong_expression_is_refused_with_the_wrong_part(text: str, scope: Scope, words: str) -> None:
    with pytest.raises(BadValue) as caught:
        parse(text, scope)
    assert words in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100 + "1" + ")" * 100,
        "-" * 250 + "1",
        "min(" * 70,
        "1" + "+1" * 100,
        "mem.used" * 10_000,
        "mem.used*" * 30 + "1",
        " " * 299 + "(",
    ],
)
def test_hostile_expressions_are_refused_at_once(text: str) -> None:
    began = time.perf_counter()
    with pytest.raises(BadValue):
        parse(text, Scope.JOB)
    assert time.perf_counter() - began < 1


def test_random_text_is_a_number_or_refused() -> None:
    parts = [
        "mem.used",
        "limit.memory",
        "cpu.percent",
        "rate(",
        "min(",
        "(",
        ")",
        ",",
        "+",
        "-",
        "*",
        "/",
        "0",
        "5",
        "9%",
    ]
    seeded = random.Random(14)
    known = values(mem_used=2**62, limit_memory=2**62, cpu_user=1.0, cpu_system=1.0)
    evaluated = 0
    for _ in range(3000):
        text = " ".join(seeded.choices(parts, k=seeded.randint(1, 12)))
        try:
            expression = parse(text, Scope.JOB)
        except BadValue:
            continue
        value = expression.job_value(known, known, 1.0)
        evaluated += 1
        assert value is None or isinstance(value, float | int)
    assert evaluated > 50


@pytest.mark.parametrize(
    ("text", "scope", "value", "shown"),
    [
        ("mem.used / limit.memory", Scope.JOB, 0.9, "90.0 %"),
        ("mem.used", Scope.JOB, 2**30, "1.0 GiB"),
        ("rate(io.write_bytes)", Scope.JOB, 2**20, "1.0 MiB/s"),
        ("io.write_bytes / elapsed", Scope.JOB, 2**20, "1.0 MiB/s"),
        ("rate(io.pressure)", Scope.HOST, 0.31, "31.0 %"),
        ("cpu.percent", Scope.JOB, 150.0, "150 %"),
        ("cpu.percent / limit.cpus", Scope.JOB, 75.0, "75.0 %"),
        ("rate(energy.cpu)", Scope.JOB, 45.0, "45.0 W"),
        ("rate(proc.switches_voluntary)", Scope.JOB, 12.0, "12/s"),
        ("gpu.temp", Scope.GPU, 81.0, "81.0 °C"),
        ("(limit.memory - mem.used) / rate(mem.used)", Scope.JOB, 90.0, "1m30s"),
        ("2 * mem.used * 50%", Scope.JOB, 1024.0, "1.0 KiB"),
        ("mem.used", Scope.JOB, None, "–"),
    ],
)
def test_a_value_is_shown_in_its_unit(text: str, scope: Scope, value: float | None, shown: str) -> None:
    assert format_value(parse(text, scope), value) == shown


def test_the_values_of_the_keys_are_at_hand_for_messages() -> None:
    expression = parse("mem.used / limit.memory + rate(io.pressure) * 0", Scope.JOB)
    before, after = values(io_pressure=1.0), values(mem_used=2**20, limit_memory=None, io_pressure=3.0)
    found = expression.job_values_of(before, after, 4.0)
    assert found == {"mem.used": 2**20, "io.pressure": 0.5}
    assert [format_key(expression, key, value) for key, value in found.items()] == ["1.0 MiB", "50.0 %"]
    assert expression.keys == ("mem.used", "limit.memory", "io.pressure")


def test_a_derived_key_needs_what_it_is_made_of() -> None:
    assert supplying_keys(parse("cpu.percent", Scope.JOB)) == ("cpu.user", "cpu.system")
    assert supplying_keys(parse("cpu.percent", Scope.HOST)) == ("cpu.percent",)
