"""A real engine that is restarted or killed meanwhile: the monitor goes on, and no container and no job is lost."""

import json
from collections.abc import Iterator

import pytest

from container_jobs import check_whole, containers_of_jobs, gated, led_to
from engines import CannotRunError, RealEngine, own_engine, start_daemon, stop_daemon
from jobtop.core.measure.collectors.docker.monitor import ContainerMonitor
from jobtop.core.measure.collectors.docker.snapshot import ContainerRow
from running import ended, is_alive, show, the_log
from support import Jobtop, long_test, require, wait_for

pytestmark = long_test
LIVE_RESTORE = "--live-restore"
STAYS = ("sh", "-c", "trap 'exit 9' TERM; while :; do sleep 0.1; done")


@pytest.fixture(params=[LIVE_RESTORE, "--live-restore=false"], ids=["live-restore", "plain"])
def flag(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def restarted(flag: str) -> Iterator[RealEngine]:
    """An engine that this test may restart."""
    try:
        with own_engine("docker", flag) as engine:
            yield engine
    except CannotRunError as error:
        require("docker", str(error))


def row_of(monitor: ContainerMonitor, container: str) -> ContainerRow | None:
    return next((row for row in monitor.snapshot().rows if row.container.id == container), None)


def test_the_monitor_finds_the_containers_again(restarted: RealEngine, flag: str) -> None:
    container = restarted.create(*STAYS)
    with restarted.api() as api:
        api.start(container)
    pid = restarted.inspect(container)["State"]["Pid"]
    with ContainerMonitor(restarted.env, 0.2, every=True) as monitor:
        wait_for(lambda: (row := row_of(monitor, container)) and row.cpu_percent is not None, 20)
        stop_daemon(restarted)
        wait_for(lambda: monitor.snapshot().engines[0].problem, 20)
        assert is_alive(pid) == (flag == LIVE_RESTORE)
        start_daemon(restarted, flag)
        wait_for(lambda: monitor.snapshot().engines[0].problem is None, 20)
        again = wait_for(lambda: row_of(monitor, container), 20)
    if flag == LIVE_RESTORE:
        assert (again.container.state, again.container.pid) == ("running", pid)
    else:
        assert (again.container.state, again.container.exit_code) == ("exited", 9)


def test_a_job_outlives_the_restart_of_its_engine(jobtop: Jobtop, restarted: RealEngine, flag: str) -> None:
    contained = led_to(jobtop, restarted)
    started = contained("run", "--detach", "--external-id", "gated", *gated(jobtop.home))
    assert started.returncode == 0, started.stderr
    wait_for(lambda: "err 1" in the_log(contained, "gated", "stderr"), 30)
    stop_daemon(restarted)
    if flag == LIVE_RESTORE:
        assert show(contained, "gated")["status"] == "running"
        start_daemon(restarted, flag)
        (jobtop.home / "gate/open").touch()
        check_whole(contained, "gated")
    else:
        start_daemon(restarted, flag)
        job = ended(contained, "gated", 90)
        assert job["status"] == "failed"
        assert the_log(contained, "gated") == "out 1\n"
    assert containers_of_jobs(contained, restarted) == []


def test_a_job_that_ends_while_its_engine_is_down(jobtop: Jobtop, restarted: RealEngine, flag: str) -> None:
    if flag != LIVE_RESTORE:
        pytest.skip("without live-restore no container runs while its engine is down")
    contained = led_to(jobtop, restarted)
    contained("run", "--detach", "--external-id", "gated", *gated(jobtop.home))
    wait_for(lambda: "err 1" in the_log(contained, "gated", "stderr"), 30)
    pid = restarted.inspect(containers_of_jobs(contained, restarted)[0]["Id"])["State"]["Pid"]
    stop_daemon(restarted)
    (jobtop.home / "gate/open").touch()
    wait_for(lambda: not is_alive(pid), 20)
    start_daemon(restarted, flag)
    job = ended(contained, "gated", 90)
    assert (job["status"], job["exit_code"]) == ("failed", 5)
    assert the_log(contained, "gated").startswith("out 1\n")  # Docker may lose what is written while it is down


def test_an_attached_container_outlives_the_restart_or_is_recorded(
    jobtop: Jobtop, restarted: RealEngine, flag: str
) -> None:
    outside, label = led_to(jobtop, restarted), {"test": "restart"}
    container = restarted.create(*STAYS, name="stays", labels=label)
    with restarted.api() as api:
        api.start(container)
    outside("attach", "--label", "test=restart")
    job = wait_for(lambda: json.loads(outside("history", "--json").stdout), 30)[0]["id"]
    stop_daemon(restarted)
    is_restored = flag == LIVE_RESTORE
    assert is_alive(show(outside, job)["pid"]) == is_restored
    start_daemon(restarted, flag)
    if is_restored:
        assert show(outside, job)["status"] == "running"
        assert outside("stop", job).returncode == 0
    done = ended(outside, job, 90)
    assert (done["status"], done["exit_code"]) == ("cancelled" if is_restored else "failed", 9)
    with restarted.api() as api:
        api.start(container)  # the follow has gone on
    wait_for(lambda: len(json.loads(outside("history", "name:stays", "--json").stdout)) == 2, 60)
    outside("attach", "--label", "test=restart", "--stop")
    assert outside("stop", "stays").returncode == 0
