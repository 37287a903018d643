"""The notification about alerts that fire while the console is open."""

import asyncio
import os
from pathlib import Path
from typing import Any

from raised import RULES, raise_alert

from jobtop.core.alerts.model import State
from jobtop.core.config import load
from jobtop.core.model import Limits
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.store.incidents import Incident
from jobtop.tui.data.announcing import Announcer, make_toast
from jobtop.tui.data.incidents import Incidents, sorted_incidents
from jobtop.tui.data.reader import StoreReader
from records import HERE, kept_jobs, live_job
from visiting import Visitor, own_store, visit


def alert(key: str, severity: str = "warning", **values: Any) -> Incident:
    content = {"name": f"job {key}", "words": "memory 92 % of its limit", "state": State.FIRING, "rule": "r"} | values
    return Incident(key, 1.0, key, content.pop("name"), None, content.pop("words"), severity, **content)


def known(*found: Incident, **values: Any) -> Incidents:
    return replace(sorted_incidents(found), is_known=True, **values)


def test_only_what_fires_after_the_first_list_is_announced_and_only_once() -> None:
    announcer = Announcer()
    assert announcer.fired(Incidents()) == []
    assert announcer.fired(known(alert("a"))) == []
    assert [found.key for found in announcer.fired(known(alert("a"), alert("b")))] == ["b"]
    assert announcer.fired(known(alert("a"), alert("b"))) == []
    assert announcer.fired(known(alert("a"))) == []
    assert announcer.fired(known(alert("a"), alert("b"))) == []


def test_pending_acknowledged_resolved_muted_alerts_and_failures_are_not_announced() -> None:
    announcer = Announcer()
    announcer.fired(known())
    quiet = (
        alert("a", state=State.PENDING),
        alert("b", state=State.ACKNOWLEDGED, is_acknowledged=True),
        alert("c", state=State.RESOLVED),
        Incident("d", 1.0, "d", "pg-dump", None, "exit code 1"),
        alert("e"),
    )
    assert announcer.fired(known(*quiet, muted=frozenset({"e"}))) == []


def test_many_alerts_are_one_notification_as_bad_as_the_worst_and_with_a_bell_if_a_rule_has_one() -> None:
    fired = [alert(str(number), "critical" if number == 5 else "info") for number in range(7)]
    rules = {"r": replace(RULES["job-memory-limit"], name="r", actions=("bell",))}
    toast = asyncio.run(make_toast(fired, known(*fired), rules, StoreReader()))
    assert toast.title == "7 alerts"
    assert toast.severity == "error"
    assert toast.has_bell
    lines = toast.text.splitlines()
    assert lines[0] == "· job 0: memory 92 % of its limit"
    assert lines[-2] == "and 3 more"
    assert not asyncio.run(make_toast(fired, known(*fired), {}, StoreReader())).has_bell


def test_an_alert_that_fires_is_shown_with_what_helps_on_any_screen(home: Path) -> None:
    [job] = kept_jobs(home, live_job(name="train [/b]", limits=Limits(memory_bytes=4 << 30)))

    async def scene(visitor: Visitor) -> None:
        await visitor.press("2")
        await visitor.until(lambda: visitor.console.screen.incident_watch.incidents.is_known)  # type: ignore[attr-defined]
        raise_alert(home, job)
        await visitor.until(lambda: visitor.console._notifications, "a notification")
        [shown] = visitor.console._notifications
        assert shown.title == "▲ train [/b]: job-memory-limit"
        assert shown.severity == "error"
        lines = shown.message.splitlines()
        assert lines[0].startswith("memory 92.0 % of its limit")
        assert lines[1] == RULES["job-memory-limit"].remedy
        assert "jobtop " in lines[-1]
        await visitor.shows("▲1")

    config = load((), os.environ, home.parent, root=home.parent)
    visit(home, scene, options=own_store(StatePaths(home, HERE), config=config))
