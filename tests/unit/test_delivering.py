"""Messages arrive at least once and in order, whatever happens to the endpoint or to the process that sends."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from endpoints import MailServer, WebEndpoint, web_endpoint

from jobtop.core.alerts.actions.trial import trial_message
from jobtop.core.alerts.message_text import to_json
from jobtop.core.alerts.model import Action, Message, Severity, State
from jobtop.core.errors import StoreBusy
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.lifecycle.alerts.delivering import Deliverer
from jobtop.store.alerts.outbox import Outbox, Outgoing
from jobtop.store.database import Database, open_to_write
from jobtop.store.leases import now_since_boot
from records import HERE
from support import wait_for

SECRET = "T0KEN-s3cr3t-value"
ORIGIN = "/etc/jobtop/config.toml"
QUICK = (0.01, 0.02)
# A process that delivers until it is killed, or until its standard input has a line.
DELIVERING = """
import sys, time
from test_delivering import deliverer
from jobtop.core.alerts.model import Action
from jobtop.core.paths import StatePaths
action = Action("web", "webhook", {"url": sys.argv[3], "timeout": 30}, "/etc/jobtop/config.toml")
sender = deliverer(StatePaths(sys.argv[1], sys.argv[2]), [action])
sender.wake()
if sys.stdin.readline():
    print(sender.close(), flush=True)
"""


pytestmark = pytest.mark.usefixtures("no_proxy")


@pytest.fixture
def outbox(database: Database) -> Outbox:
    return Outbox(database)


def webhook(endpoint: WebEndpoint, name: str = "web", **fields: Any) -> Action:
    return Action(name, "webhook", {"url": endpoint.url(), "timeout": 0.1, **fields}, ORIGIN)


def composed(_: Database, row: Outgoing) -> Message | None:
    return replace(trial_message(row.key, HERE, row.created_at), rule=row.rule)


def deliverer(paths: StatePaths, actions: Sequence[Action], **settings: Any) -> Deliverer:
    by_name = {(action.name, action.origin): action for action in actions}
    defaults: dict[str, Any] = {"backoff_seconds": QUICK, "poll_seconds": 0.05, "environ": {}}
    return Deliverer(
        lambda: open_to_write(paths),
        lambda name, origin: by_name.get((name, origin)),
        settings.pop("compose", composed),
        paths.names.log,
        **defaults | settings,
    )


@pytest.fixture
def sending(paths: StatePaths) -> Iterator[Callable[..., Deliverer]]:
    with ExitStack() as stack:

        def start(actions: Sequence[Action], **settings: Any) -> Deliverer:
            started = deliverer(paths, actions, **settings)
            stack.callback(started.close)
            started.wake()
            return started

        yield start


def add(
    outbox: Outbox, *keys: str, action: str = "web", severity: Severity = Severity.WARNING, wait: float = 0.0
) -> None:
    now = time.time()
    for key in keys:
        outbox.add(key, "nearly full", action, ORIGIN, State.FIRING, severity, now, now + wait, [1])


def log_of(paths: StatePaths) -> str:
    return paths.log.read_text() if paths.log.exists() else ""


def first_arrivals(keys: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(keys))


def test_every_message_arrives_in_order_once_the_endpoint_recovers(
    outbox: Outbox, web: WebEndpoint, sending: Callable[..., Deliverer], paths: StatePaths
) -> None:
    keys = [f"key-{number}" for number in range(5)]
    web.behaviour = "hang"
    sender = sending([webhook(web)])
    add(outbox, *keys)
    sender.wake()
    for behaviour in ("hang", 500):
        web.behaviour = behaviour
        tries = outbox.unsent()[0].tries
        wait_for(lambda tries=tries: outbox.unsent()[0].tries >= tries + 2)  # type: ignore[misc]
    assert [row.tries for row in outbox.unsent()[1:]] == [0, 0, 0, 0]
    web.behaviour = 200
    wait_for(lambda: outbox.unsent_count() == 0)
    assert web.accepted == keys
    assert re.search(r"message 1 of .* was sent after \d+ tries", log_of(paths))
    wait_for(lambda: sender.unsent() == 0)


def test_an_endpoint_that_refuses_and_comes_back_gets_all(outbox: Outbox, sending: Callable[..., Deliverer]) -> None:
    with web_endpoint() as gone:
        pass
    add(outbox, "a", "b")
    sending([webhook(gone)])
    wait_for(lambda: outbox.unsent()[0].tries >= 2)
    with web_endpoint(gone.port) as back:
        wait_for(lambda: outbox.unsent_count() == 0)
        assert back.accepted == ["a", "b"]


def test_a_mail_server_that_drops_gets_all_after_it_recovers(
    outbox: Outbox, mail: MailServer, sending: Callable[..., Deliverer]
) -> None:
    mail.drops = True
    add(outbox, "a", "b", action="mail")
    fields = {"server": "127.0.0.1", "port": mail.port, "to": "ada@example.org"}
    sending([Action("mail", "mail", fields, ORIGIN)])
    wait_for(lambda: outbox.unsent()[0].tries >= 2)
    mail.drops = False
    wait_for(lambda: outbox.unsent_count() == 0)
    assert [b"Idempotency-Key: a" in content for _, content in mail.mails] == [True, False]


@contextmanager
def delivering(paths: StatePaths, web: WebEndpoint) -> Iterator[subprocess.Popen[str]]:
    """Another process that delivers, killed at the end."""
    here = Path(__file__).parent
    process = subprocess.Popen(
        [sys.executable, "-c", DELIVERING, paths.names.root, HERE, web.url()],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(here), str(here.parent)])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)


def test_a_message_that_is_accepted_slowly_while_its_process_ends_is_sent_once(
    outbox: Outbox, web: WebEndpoint, paths: StatePaths
) -> None:
    web.behaviour = "slow"
    add(outbox, "a")
    looks: list[str] = []

    def resolve(name: str, _: str) -> Action:
        looks.append(name)
        return webhook(web, timeout=30)

    with delivering(paths, web) as process:
        assert web.asked.wait(30)
        assert process.stdin is not None
        process.stdin.write("close\n")
        process.stdin.flush()
        second = Deliverer(
            lambda: open_to_write(paths),
            resolve,
            composed,
            paths.names.log,
            poll_seconds=0.05,
        )
        second.wake()
        wait_for(lambda: len(looks) >= 12)  # the other process had 0.6 s to end
        web.released.set()
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
        assert second.close() == 0
    assert (web.accepted, outbox.unsent_count()) == (["a"], 0)


def test_what_another_process_sends_in_the_last_moment_is_not_left(
    outbox: Outbox, web: WebEndpoint, paths: StatePaths
) -> None:
    add(outbox, "a")
    asked, may_go = threading.Event(), threading.Event()

    def resolve(_: str, __: str) -> Action:
        asked.set()
        may_go.wait(30)
        return webhook(web)

    sender = Deliverer(lambda: open_to_write(paths), resolve, composed, paths.names.log, poll_seconds=30)
    sender.wake()
    assert asked.wait(30), "it has counted one"
    outbox.mark_sent(outbox.unsent()[0].id)
    with ThreadPoolExecutor(1) as pool:
        left = pool.submit(sender.close)
        wait_for(left.running)
        may_go.set()
        assert left.result(30) == 0


def test_a_killed_process_leaves_its_messages_to_the_next_with_the_same_keys(
    outbox: Outbox, web: WebEndpoint, sending: Callable[..., Deliverer], paths: StatePaths
) -> None:
    web.behaviour = "hang"
    keys = ["a", "b", "c"]
    add(outbox, *keys)
    with delivering(paths, web):
        assert web.asked.wait(30)
        add(outbox, "d")
    web.behaviour = 200
    sending([webhook(web)])  # the lease of the killed process is free at once
    wait_for(lambda: outbox.unsent_count() == 0)
    assert first_arrivals(web.accepted) == [*keys, "d"]


def test_only_one_process_sends(outbox: Outbox, web: WebEndpoint, paths: StatePaths, database: Database) -> None:
    with database.writing() as connection:  # the lease of a process that lives
        other = identify(os.getppid())
        connection.execute(
            "INSERT INTO leases (name, boot, pid, start, until) VALUES ('messages', ?, ?, ?, ?)",
            (other.boot, other.pid, other.start, now_since_boot() + 60),
        )
    add(outbox, "a")
    sender = deliverer(paths, [webhook(web)])
    sender.wake()
    assert sender.close(0.2) == 1
    assert web.accepted == []


def test_a_process_that_waits_for_the_next_try_leaves_the_lease_to_others(
    outbox: Outbox, web: WebEndpoint, sending: Callable[..., Deliverer], database: Database
) -> None:
    web.behaviour = 500
    sending([webhook(web)], backoff_seconds=(600.0,))
    add(outbox, "a")
    wait_for(lambda: outbox.unsent()[0].tries == 1)

    def is_free() -> bool:
        with database.reading() as connection:
            return not connection.execute("SELECT 1 FROM leases WHERE name = 'messages'").fetchall()

    wait_for(is_free)


def test_adding_never_waits_for_an_endpoint_and_closing_for_one_try_at_most(
    outbox: Outbox, web: WebEndpoint, sending: Callable[..., Deliverer]
) -> None:
    web.behaviour = "hang"
    sender = sending([webhook(web, timeout=0.5)])
    add(outbox, "first")
    sender.wake()
    assert web.asked.wait(10)
    slowest = 0.0
    for number in range(20):
        begin = time.perf_counter()
        add(outbox, f"more-{number}")
        sender.wake()
        sender.unsent()
        slowest = max(slowest, time.perf_counter() - begin)
    assert slowest < 5  # milliseconds on an idle machine; the endpoint hangs
    begin = time.perf_counter()
    assert sender.close(0.05) == 21
    assert time.perf_counter() - begin < 5


def test_what_is_being_sent_at_the_end_is_stored_and_nothing_more_is_begun(outbox: Outbox, paths: StatePaths) -> None:
    begun, may_end = [], threading.Event()

    def send(message: Message, *_: object) -> None:
        begun.append(message.key)
        assert may_end.wait(60)

    add(outbox, "a", "b")
    sender = deliverer(paths, [Action("web", "webhook", {}, ORIGIN)], send=send)
    sender.wake()
    wait_for(lambda: begun)
    timer = threading.Timer(0.1, may_end.set)
    timer.start()
    assert sender.close() == 1
    timer.join()
    assert begun == ["a"]
    assert [row.key for row in outbox.unsent()] == ["b"]
    later = deliverer(paths, [])
    later.wake()
    assert later.close() == 1, "and the lease is free"


def test_one_action_that_fails_holds_back_its_own_messages_only(
    outbox: Outbox, web: WebEndpoint, sending: Callable[..., Deliverer]
) -> None:
    with web_endpoint() as other:
        web.behaviour = "hang"
        add(outbox, "a", "b", action="web")
        add(outbox, "c", "d", action="other")
        sending([webhook(web, timeout=30), webhook(other, "other")])
        wait_for(lambda: other.accepted == ["c", "d"])
        assert web.accepted == []
        web.released.set()


def test_a_message_is_given_up_after_its_time_and_that_is_said(
    outbox: Outbox, web: WebEndpoint, sending: Callable[..., Deliverer], paths: StatePaths
) -> None:
    web.behaviour = 500
    add(outbox, "late", wait=-100.0)
    add(outbox, "nowhere", action="gone", wait=-100.0)
    add(outbox, "young")
    sender = sending([webhook(web)], give_up_seconds=50.0)
    wait_for(lambda: outbox.unsent_count() == 1 and outbox.unsent()[0].tries >= 1)
    given_up = {row.key: row for row in outbox.listing() if row.given_up_at is not None}
    assert given_up.keys() == {"late", "nowhere"}
    assert "500" in (given_up["late"].problem or "")
    assert log_of(paths).count(" ERROR ") == 2
    assert sender.close() == 1


def test_a_refused_message_does_not_hold_back_the_next(
    outbox: Outbox, web: WebEndpoint, sending: Callable[..., Deliverer]
) -> None:
    web.behaviour = 400
    add(outbox, "bad")
    sending([webhook(web)])
    wait_for(lambda: outbox.unsent_count() == 0)
    assert outbox.listing()[0].given_up_at is not None


def test_quiet_hours_let_only_critical_messages_pass(
    outbox: Outbox, web: WebEndpoint, sending: Callable[..., Deliverer]
) -> None:
    quiet = [True]
    add(outbox, "warning")
    add(outbox, "critical", severity=Severity.CRITICAL)
    sender = sending([webhook(web)], is_quiet=lambda _: quiet[0])
    wait_for(lambda: web.accepted == ["critical"])
    wait_for(lambda: sender.unsent() == 1)
    quiet[0] = False
    sender.wake()
    wait_for(lambda: web.accepted == ["critical", "warning"])


def test_a_group_waits_and_closing_sends_it_at_once(outbox: Outbox, web: WebEndpoint, paths: StatePaths) -> None:
    add(outbox, "group", wait=30.0)
    sender = deliverer(paths, [webhook(web)])
    sender.wake()
    wait_for(lambda: sender.unsent() == 1)
    assert web.accepted == []
    assert sender.close(10.0) == 0
    assert web.accepted == ["group"]


def test_a_clock_that_was_set_back_does_not_delay_a_message(
    outbox: Outbox, web: WebEndpoint, sending: Callable[..., Deliverer]
) -> None:
    add(outbox, "a", wait=7200.0)
    sending([webhook(web)], clock=lambda: time.time() - 86400.0)
    wait_for(lambda: web.accepted == ["a"])


def test_each_try_says_the_same_and_a_message_without_alerts_is_dropped(
    outbox: Outbox, web: WebEndpoint, sending: Callable[..., Deliverer]
) -> None:
    titles = iter(["first", "second"])
    web.behaviour = 500
    add(outbox, "a")

    def compose(database: Database, row: Outgoing) -> Message | None:
        message = composed(database, row)
        return None if row.key == "b" or message is None else replace(message, title=next(titles))

    sending([webhook(web)], compose=compose)
    wait_for(lambda: outbox.unsent()[0].tries >= 2)
    add(outbox, "b")
    web.behaviour = 200
    wait_for(lambda: outbox.unsent_count() == 0)
    assert [content["title"] for _, _, content in web.requests] == ["first"]


def test_no_secret_is_in_the_store_the_log_or_the_output_after_failures(
    outbox: Outbox,
    web: WebEndpoint,
    sending: Callable[..., Deliverer],
    paths: StatePaths,
    capfd: pytest.CaptureFixture[str],
) -> None:
    web.behaviour, web.body = 500, f"no {SECRET}"
    environ = {"URL": web.url(f"/services/{SECRET}"), "AUTH": f"Bearer {SECRET}"}
    with web_endpoint() as gone:
        pass
    actions = [
        webhook(web, url="env:URL", headers={"Authorization": "env:AUTH"}),
        webhook(gone, "refused", url=gone.url(f"/{SECRET}")),
        webhook(gone, "wrong", url=f"http://a b/{SECRET}"),
        webhook(gone, "bad port", url=f"http://127.0.0.1:{SECRET}/"),
    ]
    for action in actions:
        add(outbox, f"key of {action.name}", action=action.name)
    sender = sending(actions, environ=environ)
    wait_for(lambda: all(row.tries >= 2 for row in outbox.unsent()))
    assert sender.close() == len(actions)
    assert "500" in log_of(paths)
    for file in Path(paths.names.root).iterdir():
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes(), file
    assert SECRET not in "".join(capfd.readouterr())


def test_a_store_that_cannot_be_opened_is_tried_again(web: WebEndpoint, paths: StatePaths, outbox: Outbox) -> None:
    add(outbox, "a")
    failures = iter([StoreBusy("busy"), None])

    def open_database() -> Database:
        if (error := next(failures, None)) is not None:
            raise error
        return open_to_write(paths)

    action = webhook(web)
    sender = Deliverer(open_database, lambda *_: action, composed, paths.names.log, environ={}, poll_seconds=0.01)
    with closing(sender):
        sender.wake()
        wait_for(lambda: web.accepted == ["a"])


def test_what_the_outbox_keeps_is_a_message(
    outbox: Outbox, web: WebEndpoint, sending: Callable[..., Deliverer]
) -> None:
    add(outbox, "a")
    sending([webhook(web)])
    wait_for(lambda: outbox.unsent_count() == 0)
    kept = outbox.listing()[0].content
    assert kept == web.requests[0][2]
    assert kept is not None
    assert kept.keys() == to_json(trial_message("a", HERE, 0.0)).keys()
