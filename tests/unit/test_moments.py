"""Moments as people write them: a time of the day, or ISO 8601."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from jobtop.core.errors import BadValue
from jobtop.core.query.moments import parse_moment, parse_past

NOON = datetime(2026, 3, 27, 12, 0, tzinfo=UTC).timestamp()


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two hours before UTC in summer, which begins at 02:00 of 2026-03-29; one in winter."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("14:30", "2026-03-27T13:30"),
        ("13:01", "2026-03-27T12:01"),
        ("13:00", "2026-03-28T12:00"),  # it is 13:00 now
        ("12:59", "2026-03-28T11:59"),
        (" 9:05 ", "2026-03-28T08:05"),
        ("00:00", "2026-03-27T23:00"),
        ("2026-03-27T14:30", "2026-03-27T13:30"),
        ("2026-03-29 14:30", "2026-03-29T12:30"),  # summer by then
        ("2026-03-28", "2026-03-27T23:00"),
        ("2026-03-27T14:30Z", "2026-03-27T14:30"),
        ("2026-03-28T14:30:15+05:30", "2026-03-28T09:00:15"),
    ],
)
def test_a_moment_is_local_unless_it_says_otherwise(text: str, expected: str) -> None:
    assert parse_moment(text, NOON) == datetime.fromisoformat(expected).replace(tzinfo=UTC).timestamp()


def test_tomorrow_may_have_fewer_hours() -> None:
    evening = datetime(2026, 3, 28, 20, 0, tzinfo=UTC).timestamp()
    assert parse_moment("20:00", evening) - evening == 22 * 3600


@pytest.mark.parametrize(
    "text", ["", "soon", "24:00", "12:60", "1:2", "12:00:00", "2026-13-01", "٣:٠٠", "14.30", "\x1b[31m"]
)
def test_what_is_no_time_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(BadValue, match="is not a time") as caught:
        parse_moment(text, NOON)
    assert "\x1b" not in str(caught.value)


def test_a_moment_that_is_over_is_refused_but_for_a_slow_script() -> None:
    assert parse_moment("2026-03-27T11:59:30Z", NOON) == NOON - 30
    with pytest.raises(BadValue, match=r'"2025-03-28" .*past'):
        parse_moment("2025-03-28", NOON)


def test_today_and_yesterday_are_whole_days() -> None:
    now = time.mktime((2026, 11, 17, 20, 0, 0, 0, 0, -1))
    assert parse_past("today", now) == parse_past("2026-11-17", now)
    assert parse_past("Yesterday", now) == parse_past("2026-11-16", now)
