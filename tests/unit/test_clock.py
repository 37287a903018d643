"""Moments as text and back."""

import time
from collections.abc import Iterator

import pytest

from jobtop.core.clock import from_iso, iso, local


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Kathmandu"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each of these time zones in turn."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000000Z"),
        (1767323045.123456, "2026-01-02T03:04:05.123456Z"),
        (1767323045.0, "2026-01-02T03:04:05.000000Z"),
        (None, None),
    ],
)
def test_a_moment_is_written_in_utc_wherever_we_are(zone: str, moment: float | None, text: str | None) -> None:
    assert iso(moment) == text
    assert from_iso(text) == moment


def test_a_person_reads_the_clock_on_the_wall(zone: str) -> None:
    moment = 1767323045.9
    assert local(moment) == time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))
    assert local(None) == "–"


@pytest.mark.parametrize("moment", [-1e12, 1e18, float("nan")])
def test_a_moment_of_no_calendar_is_none(moment: float) -> None:
    assert iso(moment) is None
    assert local(moment) == "–"
