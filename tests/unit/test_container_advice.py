"""Limits for containers: enough for what was seen, more after an OOM kill, none from thin data; as a compose file."""

from typing import Any

import pytest

from jobtop.core.analysis.container_advice import (
    ContainerAdvice,
    Run,
    Subject,
    advise,
    is_named,
    rounded_cpus,
    rounded_memory,
    subject_of,
    weighted_percentile,
)
from jobtop.core.model import Status, Usage
from jobtop.core.record import replace
from jobtop.core.text.compose_text import compose_fragment, memory_text, yaml_text
from records import HOSTILE_TEXTS, made_job, numbered_id

MEBIBYTE = 1 << 20
WEB = Subject("web", "shop")
ODD_NAMES = [text for name, text in HOSTILE_TEXTS.items() if name != "long"]


def run(number: int = 1, mebibytes: float = 100, seconds: float = 60.0, cpus: float = 0.5, **values: Any) -> Run:
    """A run with this memory peak and these CPUs busy all the time, sampled every second."""
    usage = Usage(
        memory_peak_bytes=round(mebibytes * MEBIBYTE), cpu_percent_mean=100 * cpus, cpu_percent_peak=100 * cpus
    )
    facts = {"image": "web:7", "name": "shop-web-1", "project": "shop", "service": "web"}
    job = made_job(id=numbered_id(number << 96), usage=usage, duration_seconds=seconds, findings={"container": facts})
    return Run(replace(job, **values), ((seconds, cpus),), samples=round(seconds))


def oom_killed(limit_mebibytes: int | None, **values: Any) -> Run:
    killed = run(9, status=Status.FAILED, flags=("oom_killed",), **values)
    return replace(killed, memory_limit=None if limit_mebibytes is None else limit_mebibytes * MEBIBYTE)


def value(advice: ContainerAdvice, name: str) -> float:
    amount = getattr(advice, name)
    assert amount is not None, name
    assert amount.reason
    return float(amount.value)


def test_a_container_with_a_peak_of_435_mib_gets_more_than_that() -> None:
    advice = advise(WEB, [run(number, 435 if number == 3 else 200) for number in range(6)])
    assert value(advice, "memory_limit") == 544 * MEBIBYTE  # 435 + 20 % = 522, rounded up
    assert value(advice, "memory_reservation") == 200 * MEBIBYTE
    assert 'memory: "544M"' in compose_fragment([advice])
    assert "435.0 MiB" in compose_fragment([advice])


def test_cpu_limits_are_above_the_peak_and_reservations_hold_most_of_the_time() -> None:
    busy = replace(run(0), cpu=((94.0, 0.2), (5.0, 0.8), (1.0, 2.5)))
    advice = advise(WEB, [busy, *(replace(run(number), cpu=()) for number in range(1, 6))])
    assert value(advice, "cpu_limit") == 3.0
    assert value(advice, "cpu_reservation") == 0.8


def test_no_more_cpus_are_advised_than_the_host_has() -> None:
    advice = advise(WEB, [run(number, cpus=1.9) for number in range(6)], host_cpus=2)
    assert value(advice, "cpu_limit") == 2
    assert value(advice, "cpu_reservation") == 1.9


def test_after_an_oom_kill_more_than_the_limit_is_advised() -> None:
    runs = [run(number, 200) for number in range(6)]
    assert value(advise(WEB, [*runs, oom_killed(256)]), "memory_limit") == 384 * MEBIBYTE  # by half
    small = [run(number, 60) for number in range(6)]
    assert value(advise(WEB, [*small, oom_killed(64, mebibytes=64)]), "memory_limit") == 168 * MEBIBYTE  # by 100 MiB
    shown = [run(number, 78) for number in range(6)]
    assert value(advise(WEB, [*shown, oom_killed(48, mebibytes=48)]), "memory_limit") == 96 * MEBIBYTE  # by its runs
    higher = [run(number, 900) for number in range(6)]
    assert value(advise(WEB, [*higher, oom_killed(256)]), "memory_limit") == 1088 * MEBIBYTE  # it has shown its need


def test_an_oom_kill_without_a_known_limit_counts_by_its_peak() -> None:
    advice = advise(WEB, [*(run(number, 200) for number in range(6)), oom_killed(None, mebibytes=300)])
    assert value(advice, "memory_limit") == 464 * MEBIBYTE
    assert "peak of 300.0 MiB" in compose_fragment([advice])


def test_after_an_oom_kill_thin_data_still_suggest_more_memory_and_nothing_else() -> None:
    advice = advise(WEB, [oom_killed(256)])
    assert value(advice, "memory_limit") == 384 * MEBIBYTE
    assert (advice.memory_reservation, advice.cpu_limit, advice.cpu_reservation) == (None, None, None)
    assert "nothing else is advised" in compose_fragment([advice])


def test_a_limit_that_held_the_container_back_is_raised() -> None:
    held = [replace(run(number, cpus=0.98), cpu_limit=1.0, throttled_share=0.6) for number in range(6)]
    assert value(advise(WEB, held), "cpu_limit") == 1.5
    barely = [replace(one, throttled_share=0.01) for one in held]
    assert value(advise(WEB, barely), "cpu_limit") == 1.2


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([run(number) for number in range(5)], ("6 runs", "5 such runs", "3h")),
        ([run(number, seconds=10.0) for number in range(6)], ("100 samples", "has 60")),
        ([run(number, status=Status.FAILED) for number in range(20)], ("0 such runs",)),
        ([run(0, seconds=3 * 3600.0 - 1)], ("1 such run", "3h")),
        ([run(number, usage=Usage(cpu_percent_mean=5.0)) for number in range(9)], ("memory peak",)),
        ([run(number, sources={"memory_peak": "rusage_floor"}) for number in range(9)], ("memory peak",)),
        ([], ("0 such runs", "has 0")),
    ],
)
def test_thin_data_are_refused_and_the_refusal_says_what_is_needed(runs: list[Run], words: tuple[str, ...]) -> None:
    advice = advise(WEB, runs)
    assert advice.is_refused
    assert advice.memory_reservation is None
    text = compose_fragment([advice])
    assert all(line.startswith("#") for line in text.splitlines())
    for word in words:
        assert word in text


def test_one_long_run_is_enough() -> None:
    assert not advise(WEB, [run(0, seconds=3 * 3600.0, status=Status.RUNNING)]).is_refused


def test_a_service_is_one_subject_and_a_job_another() -> None:
    assert subject_of(run().job) == WEB
    attached = made_job(flags=("attached",), findings={"container": {"name": "db"}})
    assert subject_of(attached) == Subject("db")
    own = made_job(name="solve", findings={"container": {"name": "jobtop-1234"}})
    assert subject_of(own) == Subject("solve", is_job=True)
    assert subject_of(made_job()) is None
    assert [name for name in ("shop", "web", "shop/web", "shop-web-1", "db") if is_named(run().job, name)] == [
        "shop",
        "web",
        "shop/web",
        "shop-web-1",
    ]


def test_the_fragment_of_a_job_names_the_options_of_run() -> None:
    advice = advise(Subject("solve", is_job=True), [run(number) for number in range(6)])
    assert "--memory 120M --cpus 0.6" in compose_fragment([advice])


def test_each_project_is_a_document_and_refused_services_are_comments_in_it() -> None:
    enough = [run(number) for number in range(6)]
    text = compose_fragment(
        [advise(Subject("b", "two"), enough), advise(Subject("a", "one"), enough), advise(Subject("c", "one"), [])]
    )
    first, second = text.split("\n---\n")
    assert first.startswith("# project one\n# c: no advice: ")
    assert "services:\n  a:\n" in first
    assert second.startswith("# project two\nservices:\n  b:\n")


def test_json_has_the_numbers_in_their_units() -> None:
    shape = advise(WEB, [run(number) for number in range(6)]).to_json()
    assert shape["memory_limit_bytes"] == 120 * MEBIBYTE
    assert shape["cpus_limit"] == 0.6
    assert shape["missing"] == []
    assert set(shape["reasons"]) == {"memory_limit_bytes", "memory_reservation_bytes", "cpus_limit", "cpus_reservation"}


@pytest.mark.parametrize("text", [*ODD_NAMES, "yes", "1", "a: b", "- x", "#", "", "ünï"])
def test_hostile_names_stay_one_quoted_line(text: str) -> None:
    quoted = yaml_text(text)
    assert quoted.startswith('"')
    assert quoted.endswith('"')
    assert len(quoted.splitlines()) == 1
    assert not quoted[1:-1].replace("\\\\", "").replace('\\"', "").count('"')
    fragment = compose_fragment([advise(Subject(text, text), [run(number) for number in range(6)])])
    assert all(line.lstrip().startswith("#") or line.rstrip().endswith((":", '"')) for line in fragment.splitlines())


@pytest.mark.parametrize(
    ("text", "is_plain"), [("web", True), ("db-1", True), ("_x", True), ("No", False), ("1a", False)]
)
def test_only_certain_names_are_left_unquoted(text: str, is_plain: bool) -> None:
    assert (yaml_text(text) == text) is is_plain


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "16M"), (17 * MEBIBYTE, "20M"), (522 * MEBIBYTE, "544M"), (2047 * MEBIBYTE, "2G"), (9000 * MEBIBYTE, "9G")],
)
def test_memory_is_rounded_up(size: float, text: str) -> None:
    assert memory_text(rounded_memory(size)) == text
    assert rounded_memory(size) >= size


def test_cpus_are_rounded_up() -> None:
    assert [rounded_cpus(cpus) for cpus in (0.0, 0.05, 0.051, 1.0, 1.26)] == [0.05, 0.05, 0.1, 1.0, 1.3]


def test_a_percentile_is_weighted_by_time() -> None:
    assert weighted_percentile([(1.0, 9.0), (99.0, 1.0)], 95) == 1.0
    assert weighted_percentile([(10.0, 9.0), (90.0, 1.0)], 95) == 9.0
    assert weighted_percentile([(1.0, 3.0)], 95) == 3.0
