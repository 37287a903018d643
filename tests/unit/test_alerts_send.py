"""`jobtop alerts send` sends what waits, and says what was sent and what was not."""

import json
import time
from pathlib import Path

import pytest
from endpoints import WebEndpoint, web_endpoint
from raised import raise_alert

from jobtop.core.alerts.model import Severity, State
from jobtop.store.alerts.outbox import Outbox
from jobtop.store.database import Database
from records import call, kept_jobs, live_job

ACTION = '[[action]]\nname = "{}"\ntype = "webhook"\nurl = "{}"\n'


@pytest.fixture
def alert(home: Path) -> int:
    [job] = kept_jobs(home, live_job(name="train"))
    return raise_alert(home, job).id


def configure(text: str) -> str:
    """Write the configuration file of the user; return its path."""
    path = Path.home() / ".config/jobtop/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def add(database: Database, alert: int, key: str, action: str, origin: str, wait: float = 3600.0) -> None:
    """Add a message that waits for its group, or for its next try."""
    now = time.time()
    Outbox(database).add(key, "nearly full", action, origin, State.FIRING, Severity.WARNING, now, now + wait, [alert])


def test_it_sends_what_waits_and_names_what_failed(database: Database, alert: int, web: WebEndpoint) -> None:
    with web_endpoint() as broken:
        broken.behaviour = 500
        origin = configure(
            ACTION.format("team", web.url("/T0KEN"))
            + ACTION.format("pager", broken.url())
            # All day: a person who sends does not wait for the end of the quiet hours.
            + '[alerts]\nquiet_hours = "00:00-23:59"\n'
        )
        for key, action in (("a", "team"), ("b", "pager"), ("c", "pager"), ("d", "team"), ("e", "gone")):
            add(database, alert, key, action, origin, 0.0 if key == "b" else 3600.0)
        Outbox(database).mark_failed(1, "refused", time.time() + 900)
        answer = call("alerts", "send")
        assert answer.returncode == 1
        assert (web.accepted, [row.key for row in Outbox(database).unsent()]) == (["a", "d"], ["b", "c", "e"])
        failed, sent, behind, sent_too, gone, counts = answer.stdout.splitlines()
        assert [line.split(":")[0] for line in (sent, failed, behind, sent_too, gone)] == [
            *("sent", "not sent", "not sent", "sent", "not sent")
        ]
        assert Outbox(database).unsent()[0].tries == 1
        assert ("500" in failed, "earlier" in behind, "not configured" in gone) == (True, True, True)
        assert (counts, "T0KEN" in answer.stdout) == ("2 messages sent, 3 not sent", False)

        broken.behaviour = 200
        answer = call("alerts", "send", "--json")
        records = json.loads(answer.stdout)
        assert (answer.returncode, broken.accepted) == (1, ["b", "c"])
        assert [(row["action"], row["state"], row["rule"], row["alerts"]) for row in records] == [
            ("pager", "sent", "nearly full", [alert]),
            ("pager", "sent", "nearly full", [alert]),
            ("gone", "waiting", "nearly full", [alert]),
        ]
        assert [row["problem"] is None for row in records] == [True, True, False]


def test_nothing_to_send_is_no_failure(database: Database) -> None:
    assert [
        (answer.returncode, answer.stdout) for answer in (call("alerts", "send"), call("alerts", "send", "--json"))
    ] == [
        (0, "No messages wait.\n"),
        (0, "[]\n"),
    ]
