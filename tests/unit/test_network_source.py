"""A machine that does not tell about sockets costs the numbers of the network, and nothing else."""

import errno
import itertools

import pytest

from diag_messages import diag_socket
from jobtop.core.measure.collectors.activity import Activity
from jobtop.core.measure.collectors.network import tcp_traffic
from jobtop.core.measure.collectors.network.job_processes import SocketOwners
from jobtop.core.measure.collectors.network.sock_diag import TCP, DiagProblem, DiagSocket, problem_of
from jobtop.core.measure.collectors.network.source import TCP_LABEL, NetworkSource
from jobtop.core.measure.collectors.network.tcp_traffic import TcpTraffic
from jobtop.core.measure.collectors.pid_owners import PidOwners
from jobtop.core.measure.source_runs import FastRun
from jobtop.core.measure.sources import Options
from jobtop.core.measure.target import Target
from jobtop.core.model import Identity, Status, Usage
from jobtop.core.record import replace
from jobtop.core.text.connection_text import totals_text
from jobtop.core.text.usage_text import network_text
from records import made_job

NOBODY = {"job": Target(Identity("", 1 << 30, None), 0.0)}


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EPERM, errno.EPROTONOSUPPORT, errno.EMFILE])
def test_without_sock_diag_there_are_no_bytes_and_no_error(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> list[DiagSocket]:
        raise problem_of(number)

    monkeypatch.setattr(tcp_traffic, "list_sockets", refuse)
    source = NetworkSource(Options())
    assert source.available() is None
    readings = source.collect(NOBODY)
    assert (readings.jobs, readings.remarks) == ({}, {})
    last = source.conclude("job", NOBODY)
    assert last is not None
    assert last.jobs == {}
    label = last.remarks["job"].sources["network"]
    assert label.startswith("not measured: ")
    assert str(problem_of(number)) in label
    source.forget("job")
    source.close()


def test_a_job_without_connections_says_that_it_was_looked_for_them() -> None:
    source = NetworkSource(Options())
    assert source.available() is None
    source.collect(NOBODY)
    last = source.conclude("job", NOBODY)
    source.close()
    assert last is not None
    assert (last.jobs, last.remarks["job"].sources) == ({}, {"network": TCP_LABEL})


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (TCP_LABEL, "no connection was seen (tcp"),
        ("not measured: sock_diag: no", "not measured: sock_diag"),
        (None, "not known"),
    ],
)
def test_absent_totals_say_whether_they_were_measured(source: str | None, words: str) -> None:
    job = made_job(usage=Usage(samples=3), sources={} if source is None else {"network": source})
    assert str(network_text(job, with_source=True)).startswith(words)
    assert network_text(job) is None
    assert words in totals_text(job)
    assert network_text(replace(job, status=Status.RUNNING), with_source=True) is None


def test_a_list_that_fails_later_is_a_problem_of_this_source_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    source = NetworkSource(Options())
    assert source.available() is None
    run = FastRun(source)  # calls it as the thread would

    def fail(*_: object) -> list[DiagSocket]:
        raise DiagProblem("sock_diag: no answer")

    monkeypatch.setattr(tcp_traffic, "list_sockets", fail)
    assert run.poll(NOBODY) is None
    assert "no answer" in str(run.problem)
    run.close()


def test_without_notices_of_closed_sockets_a_job_says_what_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise DiagProblem("closed sockets are not announced")

    listed = [diag_socket(1, 5, 10, 20)]
    monkeypatch.setattr(tcp_traffic, "ClosedSockets", refuse)
    monkeypatch.setattr(tcp_traffic, "list_sockets", lambda protocol, *_: listed if protocol == TCP else [])
    monkeypatch.setattr(SocketOwners, "find", lambda *_: {5: frozenset({"job"})})
    traffic = TcpTraffic(PidOwners())
    traffic.read(NOBODY)
    assert any("not announced" in remark for remark in traffic.incomplete("job"))
    traffic.close()


def test_a_notice_that_comes_after_the_last_open_connection_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a connection that nobody saw open: no other is open, and none was opened since the last reading."""
    seen, unseen = diag_socket(1, 5, 10, 20), diag_socket(2, 6, 3000, 4000)
    listed, notices = [seen], [[], [seen], [unseen]]

    class Notices:
        def take(self) -> tuple[list[DiagSocket], int]:
            return (notices.pop(0) if notices else []), 0

        def close(self) -> None:
            notices.clear()

    monkeypatch.setattr(tcp_traffic, "ClosedSockets", Notices)
    monkeypatch.setattr(tcp_traffic, "list_sockets", lambda protocol, *_: listed if protocol == TCP else [])
    monkeypatch.setattr(SocketOwners, "find", lambda *_: {5: frozenset({"job"})})
    monkeypatch.setattr(TcpTraffic, "_opened", lambda _: "7 connections")
    traffic = TcpTraffic(PidOwners())
    traffic.read(NOBODY)
    listed.clear()
    traffic.read(NOBODY, is_last=True)
    assert not traffic.may_be_more
    traffic.read(NOBODY, is_last=True)
    assert any("3.9 KiB sent are missing" in remark for remark in traffic.incomplete("job"))
    traffic.close()


def test_a_job_that_ends_again_and_again_leaves_nothing_behind() -> None:
    source = NetworkSource(Options())
    assert source.available() is None
    for number in range(3):
        key = f"job {number}"
        source.collect({key: NOBODY["job"]})
        source.forget(key)
    assert source.collect({}).jobs == {}
    source.close()
    assert source.collect(NOBODY).jobs == {}


def test_sockets_are_not_listed_while_no_owner_can_be_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    lists: list[int] = []

    def listed(protocol: int, *_: object) -> list[DiagSocket]:
        lists.append(protocol)
        return [diag_socket(len(lists), 5, 10, 20)] if protocol == TCP else []

    monkeypatch.setattr(tcp_traffic, "list_sockets", listed)
    searched: list[object] = []

    def find(*asked: object) -> dict[int, frozenset[str]]:
        searched.append(asked)
        return {}

    monkeypatch.setattr(SocketOwners, "find", find)
    opened = itertools.count()  # by other processes
    monkeypatch.setattr(TcpTraffic, "_opened", lambda _: str(next(opened)))
    traffic = TcpTraffic(PidOwners())
    traffic.has_many = True
    traffic.read(NOBODY)
    assert TCP in lists[1:]
    lists.clear()
    traffic._credit_seconds = -1.0
    traffic.read(NOBODY)
    assert lists == []
    assert traffic.may_be_more
    traffic.read(NOBODY, is_last=True)
    assert TCP in lists
    lists.clear()
    traffic._credit_seconds = 1e-9  # less than a list costs
    searched.clear()
    traffic.read(NOBODY)
    assert TCP in lists
    assert searched
    traffic.close()


@pytest.mark.parametrize(("processes", "seconds"), [(3, 0.5), (1000, 1.0)])
def test_jobs_with_many_processes_are_read_less_often(
    processes: int, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Activity, "processes", processes)
    source = NetworkSource(Options())
    assert source.available() is None
    source.collect(NOBODY)
    source.close()
    assert source.interval_seconds == seconds
