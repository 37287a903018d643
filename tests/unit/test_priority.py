"""What may be asked of --nice and --ionice, by whom, and the system call that is made of it."""

import os

import pytest

from jobtop.core.errors import BadValue
from jobtop.core.run import priority
from jobtop.core.run.priority import io_call, io_class, niceness

ROOT, NO_AGENT = (lambda _: True), (lambda _: False)


@pytest.mark.parametrize("text", ["", "x", "1.5", "-21", "20", "1e1", "9" * 50])
def test_what_is_no_niceness_is_refused(text: str) -> None:
    with pytest.raises(BadValue, match="from -20"):
        niceness(text)


def test_less_than_one_has_takes_privileges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "lowest_allowed", lambda: 20)
    monkeypatch.setattr(os, "getpriority", lambda *_: 3)
    assert niceness("3") == 3
    with pytest.raises(BadValue, match="needs privileges: as this user 3 at least"):
        niceness("2")
    monkeypatch.setattr(priority, "lowest_allowed", lambda: -20)
    assert niceness("-20") == -20


def test_a_limit_of_the_user_s_lowers_what_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(priority, "may", NO_AGENT)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (30, 40))
    assert priority.lowest_allowed() == -10


@pytest.mark.parametrize("text", ["", "none", "best-effort:8", "best-effort:", "idle:3", "realtime:x", "Idle", "idle "])
def test_what_is_no_class_of_io_is_refused(text: str) -> None:
    with pytest.raises(BadValue, match="is not idle"):
        io_class(text)


def test_realtime_takes_privileges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "may", NO_AGENT)
    assert io_class("idle") == "idle"
    with pytest.raises(BadValue, match="realtime needs privileges"):
        io_class("realtime:0")
    monkeypatch.setattr(priority, "may", ROOT)
    assert io_class("realtime:0") == "realtime:0"


@pytest.mark.parametrize(
    ("text", "value"),
    [("idle", 3 << 13), ("best-effort", 2 << 13 | 4), ("best-effort:0", 2 << 13), ("realtime:7", 1 << 13 | 7)],
)
def test_class_and_level_become_one_number(text: str, value: int) -> None:
    assert io_call(text)[1:] == (1, 0, value)
