"""Alerts from end to end: real jobs, the real agent, real endpoints on the loopback interface."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from endpoints import web_endpoint

from running import ended, kill_if_alive, running, show
from support import Jobtop, clean_environment, wait_for

BUSY = ("python3", "-c", "import time\nwhile time.process_time() < {}: pass")  # of CPU time, on a busy machine too
WORKS = """
[[alert]]
name = "works"
metric = "cpu.percent"
above = 5
severity = "{severity}"
"""


SCENES: dict[str, Callable[[Jobtop], None]] = {}
AT_ONCE = 3


def meanwhile(scene: Callable[[Jobtop], None]) -> Callable[[dict[str, Future[None]]], None]:
    """A test that mostly waits: it runs beside the other tests of this module, with a home of its own."""
    SCENES[scene.__name__] = scene

    def test(begun: dict[str, Future[None]]) -> None:
        begun[scene.__name__].result()

    test.__doc__ = scene.__doc__
    return test


@pytest.fixture(scope="module", autouse=True)
def begun(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[None]]]:
    """Those of them that are to run."""
    chosen = {item.name for item in request.session.items if item.path == request.path}

    def home() -> Jobtop:
        home = tmp_path_factory.mktemp("home")
        return Jobtop(sys.executable, home, clean_environment(home))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {name: pool.submit(scene, home()) for name, scene in SCENES.items() if name in chosen}


def configure(jobtop: Jobtop, text: str) -> Path:
    file = jobtop.home / ".config/jobtop/config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def busy(seconds: float) -> list[str]:
    return [*BUSY[:2], BUSY[2].format(seconds)]


def alerts(jobtop: Jobtop, *options: str) -> list[dict[str, Any]]:
    done = jobtop("alerts", "list", "--all", "--json", *options)
    assert done.returncode == 0, done.stderr
    shape = json.loads(done.stdout)
    found: list[dict[str, Any]] = shape["alerts"] if isinstance(shape, dict) else shape
    return found


@pytest.mark.parametrize(("severity", "code"), [("warning", 0), ("critical", 1)])
def test_a_run_prints_an_alert_that_fires_and_may_fail_on_it(jobtop: Jobtop, severity: str, code: int) -> None:
    configure(jobtop, f'[[alert]]\nname = "works"\nmetric = "mem.used"\nabove = "5B"\nseverity = "{severity}"\n')
    words = ("--interval", "0.2", "--fail-on", "critical", "--name", "it", "--", "head", "-n", "1")
    with jobtop.start("run", *words) as run:
        assert run.stderr is not None
        said = ""
        while "alert works" not in said:
            line = run.stderr.readline()
            assert line, said
            said += line
        said += run.communicate("end\n")[1]
    assert run.returncode == code, said
    lines = [line for line in said.splitlines() if "alert works" in line]
    assert len(lines) == 1
    assert severity in lines[0]
    assert "above 5 B" in lines[0]
    (alert,) = [alert for alert in alerts(jobtop) if alert["rule"] == "works"]
    assert (alert["state"], alert["severity"]) == ("resolved", severity)
    kinds = [event["kind"] for event in show(jobtop, "it").get("events", [])]
    assert not kinds or {"alert", "alert_resolved"} <= set(kinds)


def test_a_job_that_fails_is_an_alert_and_its_open_ones_end(jobtop: Jobtop) -> None:
    configure(jobtop, "")
    assert jobtop("run", "--quiet", "--", "sh", "-c", "exit 3").returncode == 3
    (alert,) = alerts(jobtop)
    assert alert["rule"] == "job-failed"
    assert "3" in alert["text"]
    assert alert["state"] == "resolved"


def test_an_alert_captures_its_job_and_samples_it_more_often(jobtop: Jobtop) -> None:
    configure(jobtop, WORKS.format(severity="info") + 'actions = ["capture", "interval:0.1s"]\n')
    assert jobtop("run", "--quiet", "--interval", "0.5", "--name", "it", "--", *busy(4)).returncode == 0
    record = show(jobtop, "it")
    (capture,) = record["captures"]
    assert (os.stat(capture).st_mode & 0o777) == 0o600
    text = Path(capture).read_text()
    assert "alert: works" in text
    assert "time.process_time()" in text
    assert record["resource_usage"]["samples"] > 14


def test_the_agent_uses_rules_that_were_changed_before_its_first_job(jobtop: Jobtop) -> None:
    rule = '[[alert]]\nname = "lives"\nmetric = "mem.used"\nabove = {}\n'
    configure(jobtop, rule.format("1e15"))
    env = {"JOBTOP_AGENT_IDLE": "1m"}
    assert jobtop("agent", "start", env=env).returncode == 0
    try:
        configure(jobtop, rule.format("1"))
        assert jobtop("run", "--detach", "--name", "it", "--", "sleep", "30", env=env).returncode == 0
        wait_for(lambda: alerts(jobtop), 20)
        assert jobtop("stop", "it").returncode == 0
    finally:
        jobtop("agent", "stop")


def test_an_alert_goes_on_when_the_engine_is_killed(jobtop: Jobtop) -> None:
    configure(jobtop, WORKS.format(severity="warning"))
    with running(jobtop, "--quiet", "--interval", "0.2", "--", *busy(60), reference="it") as run:
        run.until(lambda: alerts(jobtop))
        os.kill(run.pid, signal.SIGKILL)
        run.process.wait()
        wait_for(lambda: show(jobtop, "it")["monitor"], 10)
        agent = wait_for(lambda: recorder_of(jobtop), 10)
        samples = newest(jobtop, "it")
        wait_for(lambda: newest(jobtop, "it") > samples + 1, 20)
        (alert,) = alerts(jobtop)
        assert alert["state"] == "firing"
        assert jobtop("stop", "it").returncode == 0
        ended(jobtop, "it", 20)
    (alert,) = [alert for alert in alerts(jobtop) if alert["rule"] == "works"]
    assert alert["state"] == "resolved"
    kill_if_alive(agent)


def recorder_of(jobtop: Jobtop) -> int | None:
    """The agent that has taken over, if it has."""
    lock = next(iter(jobtop.state.glob("*.agent")), None)
    text = "" if lock is None else lock.read_text().strip("\0 \n")
    return int(text) if text.isdigit() and int(text) > 0 else None


def newest(jobtop: Jobtop, reference: str) -> float:
    done = jobtop("metrics", reference, "--format", "csv", "--no-follow")
    return float(done.stdout.splitlines()[-1].split(",")[1])


STEPS = """
[[alert]]
name = "{0}"
metric = "mem.used"
above = 1
filter = "name:{0}"
steps = [{{after = "0s"}}, {{after = "1s", do = "stop"}}]
"""


@meanwhile
def test_a_slower_run_is_told_of_once(jobtop: Jobtop) -> None:
    configure(jobtop, '[[alert]]\nname = "slow"\nkind = "deviation"\nmetric = "duration_seconds"\n')
    for _ in range(5):
        assert jobtop("run", "--quiet", "--name", "it", "--", "sleep", "0.5").returncode == 0
    done = jobtop("run", "--quiet", "--name", "it", "--", "sleep", "13", timeout=60)
    assert [line for line in done.stderr.splitlines() if "alert slow" in line] == done.stderr.splitlines()
    assert len(done.stderr.splitlines()) == 1
    assert len(alerts(jobtop)) == 1


@meanwhile
def test_a_rule_of_the_host_fires_once_with_two_engines(jobtop: Jobtop) -> None:
    configure(jobtop, '[[alert]]\nname = "some"\nscope = "host"\nmetric = "mem.used"\nabove = 1\n')
    job = ("--quiet", "--", "sleep", "60")
    with running(jobtop, *job, reference="one") as one, running(jobtop, *job, reference="two") as two:
        one.until(lambda: alerts(jobtop), 20)
        one.send(signal.SIGTERM)
        one.end(10)
        # The other engine takes over the host, and goes on with the alert.
        since = newest(jobtop, "two")
        two.until(lambda: newest(jobtop, "two") > since + 6, 20)
        (alert,) = [alert for alert in alerts(jobtop) if alert["rule"] == "some"]
        assert alert["state"] == "firing"


@meanwhile
def test_a_rule_with_steps_stops_a_job_only_when_it_is_armed(jobtop: Jobtop) -> None:
    configure(jobtop, STEPS.format("armed") + STEPS.format("other"))
    done = jobtop("alerts", "arm", "armed")
    assert done.returncode == 0, done.stderr
    ends = jobtop.home / "end"
    until_told = ("sh", "-c", f"until [ -e {ends} ]; do sleep 0.05; done")
    armed, other = (jobtop.start("run", "--quiet", "--name", name, "--", *until_told) for name in ("armed", "other"))
    armed.communicate(timeout=60)
    wait_for(lambda: [alert for alert in alerts(jobtop) if alert["rule"] == "other"], 60)
    since = newest(jobtop, "other")
    wait_for(lambda: newest(jobtop, "other") > since + 3, 60)
    ends.touch()
    other.communicate(timeout=60)
    assert (show(jobtop, "armed")["status"], show(jobtop, "other")["status"]) == ("cancelled", "success")
    assert "alert armed" in show(jobtop, "armed")["reason"]


@meanwhile
def test_many_jobs_that_trip_a_rule_become_one_message(jobtop: Jobtop) -> None:
    """They wait for another job, so that they start together."""
    with web_endpoint() as endpoint:
        configure(
            jobtop,
            '[[alert]]\nname = "lives"\nmetric = "mem.used"\nabove = 1\nfilter = "name:it-*"\nactions = ["here"]\n'
            f'[[action]]\nname = "here"\ntype = "webhook"\nurl = "{endpoint.url()}"\n'
            '[alerts]\ngroup_wait = "6s"\n',
        )
        free = ("--cpus", "0.1")
        gate = jobtop("submit", *free, "--", "sh", "-c", f"until [ -e {jobtop.home}/go ]; do sleep 0.05; done")
        for number in range(4):
            words = ("--after", gate.stdout.strip(), "--name", f"it-{number}", "--", "sleep", "60")
            assert jobtop("submit", *free, *words).returncode == 0
        ids = sorted(str(show(jobtop, f"name:it-{number}")["id"]) for number in range(4))
        (jobtop.home / "go").touch()
        wait_for(lambda: endpoint.requests, 60)
        assert [sorted(content["job_ids"]) for _, _, content in endpoint.requests] == [ids]
        assert jobtop("stop", *ids).returncode == 0
    assert {alert["rule"] for alert in alerts(jobtop)} >= {"lives"}


@meanwhile
def test_a_message_arrives_although_the_endpoint_fails_and_the_agent_is_killed(jobtop: Jobtop) -> None:
    with web_endpoint() as endpoint:
        endpoint.behaviour = 500
        configure(
            jobtop,
            f'[[action]]\nname = "here"\ntype = "webhook"\nurl = "{endpoint.url()}"\n'
            '[alerts]\nactions = ["here"]\ngroup_wait = "0s"\n',
        )
        assert jobtop("run", "--quiet", "--name", "it", "--", "sh", "-c", "exit 3").returncode == 3
        assert endpoint.asked.wait(20), "the run leaves the message to an agent"
        wait_for(lambda: "500" in jobtop("alerts").stdout, 20)
        agent = wait_for(lambda: recorder_of(jobtop), 10)
        os.kill(agent, signal.SIGKILL)
        endpoint.behaviour = 200
        assert jobtop("run", "--quiet", "--", "true").returncode == 0, "which starts an agent, since a message waits"
        wait_for(lambda: endpoint.requests, 30)
        (path, headers, content) = endpoint.requests[0]
        assert (path, content["rule"], content["key"]) == ("/hook", "job-failed", headers["Idempotency-Key"])
        wait_for(lambda: recorder_of(jobtop) is None, 20)
