"""`jobtop alerts try-action` sends a test message through the same senders, and says whether it was accepted."""

from pathlib import Path

import pytest
from endpoints import WebEndpoint

from records import assert_one_line, call

SECRET = "T0KEN-s3cr3t-value"


@pytest.fixture
def configured(home: Path, web: WebEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration with actions whose addresses are secret."""
    file = home.parent / ".config/jobtop/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(
        '[[action]]\nname = "team"\ntype = "slack"\nurl = "env:TEAM_URL"\n'
        '[[action]]\nname = "unset"\ntype = "slack"\nurl = "env:NO_SUCH_VARIABLE"\n'
        '[[action]]\nname = "notes"\ntype = "log"\n'
    )
    monkeypatch.setenv("TEAM_URL", web.url(f"/services/{SECRET}"))


def test_a_test_message_is_sent(configured: None, web: WebEndpoint, home: Path) -> None:
    assert call("alerts", "try-action", "team") == (0, "sent a test message to team\n", "")
    path, headers, content = web.requests[0]
    assert path == f"/services/{SECRET}"
    assert headers["Idempotency-Key"]
    assert "test" in content["text"]
    assert call("alerts", "try-action", "notes").returncode == 0
    assert "test message" in (home / "jobtop.log").read_text()


def test_why_it_was_not_sent_is_said_without_the_address(configured: None, web: WebEndpoint) -> None:
    web.behaviour = 500
    answer = call("alerts", "try-action", "team")
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert_one_line(answer.stderr, "team", "500")
    assert SECRET not in answer.stderr
    unset = call("alerts", "try-action", "unset")
    assert unset.returncode == 1
    assert_one_line(unset.stderr, "NO_SUCH_VARIABLE")
    short = call("alerts", "try-action", f"webhook:{web.url(f'/{SECRET}')}")
    assert short.returncode == 1
    assert_one_line(short.stderr, "webhook:http://127.0.0.1")
    assert SECRET not in short.stderr


@pytest.mark.parametrize(("name", "word"), [("taem", "team"), ("stop", "acts on a job"), ("x" * 5000, "not an action")])
def test_an_unknown_name_says_the_nearest(configured: None, name: str, word: str) -> None:
    answer = call("alerts", "try-action", name)
    assert answer.returncode == 2
    assert_one_line(answer.stderr, word)
