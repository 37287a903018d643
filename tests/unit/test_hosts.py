"""One engine records the machine; jobs see it in their own seconds."""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from jobtop.core.errors import BadValue
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.metrics import Scope, metrics_of
from jobtop.core.model import Identity, Job
from jobtop.core.paths import StatePaths
from jobtop.core.procfs import boot_id
from jobtop.core.record import replace
from jobtop.store.database import Database, open_to_read, open_to_write
from jobtop.store.leases import now_since_boot
from jobtop.store.samples import hosts
from jobtop.store.samples.hosts import HostRecord
from records import HERE, NO_PROCESS, made_job, this_process
from support import ROOT, wait_for

ME = this_process()
# Asks for the lease for ever, and says each change of its mind.
RIVAL = """
import os, sys, time
from pathlib import Path
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.paths import StatePaths
from jobtop.store.database import open_to_write
from jobtop.store.samples.hosts import HostRecord
host, me, before = HostRecord(open_to_write(StatePaths(Path(sys.argv[1]), sys.argv[2]))), identify(os.getpid()), None
while True:
    held = host.lease(me, 60.0)
    if held != before:
        os.write(1, b"yes\\n" if held else b"no\\n")
    before = held
    time.sleep(0.01)
"""


@pytest.fixture
def host(database: Database) -> HostRecord:
    host = HostRecord(database)
    assert host.lease(ME)
    return host


def job_begun(at: float, **values: object) -> Job:
    return made_job(shim=Identity(boot_id(), NO_PROCESS, 1), start_boottime=at, **values)


def fill(host: HostRecord, begin: int, count: int) -> None:
    """A reading a second; its mem.used is the second."""
    for second in range(begin, begin + count):
        assert host.append([(float(second), {"mem.used": second, "cpu.percent": 50.0, "net.rx_bytes": 10 * second})])


def test_no_other_process_has_the_lease_while_its_holder_lives_and_renews(database: Database) -> None:
    first, second = HostRecord(database), HostRecord(database)
    holder = identify(os.getppid())
    assert first.lease(holder, 60.0)
    assert not second.lease(ME)
    assert first.lease(holder, 60.0)
    first.release(ME)
    assert not second.lease(ME)
    first.release(holder)
    assert second.lease(ME)


@pytest.mark.parametrize(
    "holder",
    [Identity(boot_id(), NO_PROCESS, 1), Identity("another boot", os.getppid(), 1), replace(ME, start=1)],
    ids=["no such process", "another boot", "its pid was used again"],
)
def test_the_dead_hold_nothing(database: Database, holder: Identity) -> None:
    assert HostRecord(database).lease(holder, 60.0)
    assert HostRecord(database).lease(ME)


def test_a_holder_that_does_not_renew_loses_it_and_keeps_no_more(database: Database) -> None:
    slow, other = HostRecord(database), HostRecord(database)
    assert slow.lease(identify(os.getppid()), 0.0)
    assert not slow.append([(1.0, {"mem.used": 1})])
    assert not slow.keep_detail(1.0, {})
    assert other.lease(ME)
    assert other.append([(2.0, {"mem.used": 2})])
    assert other.around(job_begun(0.0, duration_seconds=9.0), ["mem.used"]).times == [2.0]


def test_who_has_no_lease_keeps_nothing(database: Database, host: HostRecord) -> None:
    other = HostRecord(database)
    assert not other.append([(1.0, {"mem.used": 1})])
    host.release(ME)
    assert not host.append([(1.0, {"mem.used": 1})])
    assert host.latest_detail() is None


def test_of_many_engines_one_has_the_lease_and_another_when_it_is_killed(tmp_path: Path) -> None:
    root = tmp_path / "state"
    open_to_write(StatePaths(root, HERE)).close()
    with ExitStack() as stack:
        rivals: dict[Path, subprocess.Popen[bytes]] = {}
        for number in range(3):
            said = tmp_path / f"said-{number}"
            command = [sys.executable, "-c", RIVAL, str(root), HERE]
            with said.open("wb") as file:
                rivals[said] = stack.enter_context(subprocess.Popen(command, stdout=file))
            stack.callback(rivals[said].kill)
        for _ in range(2):
            wait_for(lambda: all(said.read_bytes() for said in rivals))
            wait_for(lambda: any(said.read_bytes().endswith(b"yes\n") for said in rivals))
            holders = [said for said in rivals if said.read_bytes().endswith(b"yes\n")]
            assert len(holders) == 1
            process = rivals.pop(holders[0])
            process.send_signal(signal.SIGKILL)
            process.wait()
        (last,) = rivals
        wait_for(lambda: last.read_bytes() == b"no\nyes\n")


def test_the_machine_is_seen_in_the_seconds_of_a_job(host: HostRecord) -> None:
    fill(host, 1000, 300)
    job = job_begun(1100.5, duration_seconds=20.0)
    found = host.around(job, ["mem.used", "cpu.percent"])
    assert found.times == [second + 0.5 for second in range(20)]
    assert found.values["mem.used"] == list(range(1101, 1121))
    assert found.values["cpu.percent"] == [50.0] * 20
    assert host.around(job, ["mem.used"], 4.0, 6.0).values["mem.used"] == [1105, 1106]
    assert host.around(job, ["mem.used"], -3.0, 1.0).times == [-2.5, -1.5, -0.5, 0.5]
    assert len(host.around(job, ["mem.used"], max_points=7).times) <= 7
    running = job_begun(1290.0, duration_seconds=None)
    assert host.around(running, ["mem.used"]).values["mem.used"] == list(range(1290, 1300))


def test_what_was_sealed_reads_the_same(host: HostRecord) -> None:
    fill(host, 0, 250)
    job = job_begun(10.0, duration_seconds=200.0)
    before = host.around(job, [metric.key for metric in metrics_of(Scope.HOST)])
    host.step()
    fill(host, 250, 1)
    host.step()
    fill(host, 251, 1)
    while host.step():
        pass
    assert host.around(job, list(before.values)) == before
    with host.database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM host_head").fetchone()[0] == 12
    assert host.around(job, ["cpu.user"]).values["cpu.user"] == [None] * 201


def test_a_job_of_another_boot_or_of_none_has_no_machine(host: HostRecord) -> None:
    fill(host, 0, 10)
    for job in (
        replace(job_begun(0.0), shim=Identity("another boot", 1, 1)),
        replace(job_begun(0.0), shim=None),
        replace(job_begun(0.0), start_boottime=None),
    ):
        assert host.around(job, ["mem.used"]).values == {"mem.used": []}
        assert host.detail_at(job, 5.0) is None
        with pytest.raises(BadValue):
            host.around(job, ["mem.usd"])


def test_the_newest_detail_is_there_and_one_of_every_ten_seconds(host: HostRecord) -> None:
    assert host.latest_detail() is None
    for second in range(100, 135):
        assert host.keep_detail(second + 0.25, {"cores": {"0": second}, "name": "sd\udcff"})
        newest = host.latest_detail()
        assert newest is not None
        assert newest.values == {"cores": {"0": second}, "name": "sd\udcff"}
    assert newest is not None
    assert newest.at == pytest.approx(time.time() - now_since_boot() + 134.25, abs=5)
    with host.database.reading() as connection:
        kept = [row[0] for row in connection.execute("SELECT elapsed FROM host_details ORDER BY 1")]
    assert kept == [109.25, 119.25, 129.25, 134.25]
    job = job_begun(100.0)
    found = host.detail_at(job, 20.0)
    assert found is not None
    assert (found.elapsed, found.values["cores"]) == (19.25, {"0": 119})
    assert host.detail_at(job, 5.0) is None


def test_a_boot_is_one_row_and_each_boot_has_its_own(
    host: HostRecord, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(host, 0, 5)
    again = HostRecord(database)
    assert again.lease(ME)
    fill(again, 5, 5)
    monkeypatch.setattr(hosts, "boot_id", lambda: "the next boot")
    after = HostRecord(database)
    assert after.lease(ME)
    fill(after, 0, 3)
    job = job_begun(0.0, duration_seconds=100.0)
    assert host.around(job, ["mem.used"]).values["mem.used"] == list(range(10))
    later = replace(job, shim=Identity("the next boot", 1, 1))
    assert host.around(later, ["mem.used"]).values["mem.used"] == [0, 1, 2]
    while after.step():
        pass
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM hosts").fetchone()[0] == 2
        assert connection.execute("SELECT count(*) FROM host_head").fetchone()[0] == 3
    assert host.around(job, ["mem.used"]).values["mem.used"] == list(range(10))


def test_a_store_from_before_knows_nothing_of_its_machine(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    path.write_bytes((ROOT / "tests/data/store-v1.db").read_bytes())
    database = open_to_read(path)
    host = HostRecord(database)
    assert (host.latest_detail(), host.around(job_begun(0.0), ["mem.used"]).times) == (None, [])
    database.close()
