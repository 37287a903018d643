"""Sockets are counted for the job that had them first; what closed unseen is said, and is never a number."""

from collections.abc import Iterable

from diag_messages import diag_socket
from jobtop.core.measure.collectors.network.job_sockets import JobSockets, JobTraffic
from jobtop.core.measure.collectors.network.sock_diag import LISTEN

A, B = frozenset({"a"}), frozenset({"b"})


class Sockets(JobSockets):
    """Two jobs, with sockets whose owners are known by inode."""

    def __init__(self, owners: dict[int, frozenset[str]]) -> None:
        super().__init__()
        self.jobs = {"a": JobTraffic(), "b": JobTraffic()}
        self.owners = owners

    def find(self, inodes: Iterable[int]) -> dict[int, frozenset[str]]:
        return {inode: self.owners[inode] for inode in inodes if inode in self.owners}

    def bytes(self, key: str) -> tuple[float | int | None, float | int | None]:
        values = self.jobs[key].values()
        return values.get("net.rx_bytes"), values.get("net.tx_bytes")


def test_open_and_closed_sockets_add_up_and_a_job_without_any_is_absent() -> None:
    sockets = Sockets({5: A, 6: A})
    sockets.take_listed([diag_socket(1, 5, 10, 20), diag_socket(2, 6, 1, 2)], sockets.find)
    assert sockets.bytes("a") == (11, 22)
    sockets.take_closed([diag_socket(1, 0, 100, 200)], 0, None)
    sockets.take_listed([diag_socket(2, 6, 3, 4)], sockets.find)
    assert sockets.bytes("a") == (103, 204)
    assert sockets.bytes("b") == (None, None)
    assert sockets.jobs["a"].incomplete() == sockets.jobs["b"].incomplete() == []


def test_a_job_that_was_watched_later_counts_from_then_on() -> None:
    sockets = Sockets({5: A})
    sockets.take_listed([diag_socket(1, 5, 10, 20)], sockets.find)
    sockets.jobs["a"].begin()
    assert sockets.bytes("a") == (0, 0)
    sockets.take_closed([diag_socket(1, 0, 15, 26)], 0, None)
    assert sockets.bytes("a") == (5, 6)


def test_a_socket_counts_for_the_job_that_had_it_first() -> None:
    sockets = Sockets({5: A})
    sockets.take_listed([diag_socket(1, 5, 10, 20)], sockets.find)
    sockets.owners[5] = B
    sockets.take_listed([diag_socket(1, 5, 30, 40)], sockets.find)
    assert sockets.bytes("a") == (30, 40)
    assert sockets.bytes("b") == (None, None)


def test_a_socket_of_an_inner_job_counts_for_both() -> None:
    sockets = Sockets({5: A | B})
    sockets.take_listed([diag_socket(1, 5, 10, 20)], sockets.find)
    assert sockets.bytes("a") == sockets.bytes("b") == (10, 20)


def test_a_socket_that_is_accepted_later_is_counted_then() -> None:
    sockets = Sockets({5: A})
    sockets.take_listed([diag_socket(1, 0, 10, 20)], sockets.find)
    assert sockets.is_undecided
    sockets.take_listed([diag_socket(1, 5, 10, 20)], sockets.find)
    assert sockets.bytes("a") == (10, 20)
    assert not sockets.is_undecided


def test_a_search_that_is_put_off_leaves_sockets_undecided() -> None:
    sockets = Sockets({5: A})
    sockets.take_listed([diag_socket(1, 5, 10, 20)], None)
    assert sockets.is_undecided
    assert sockets.bytes("a") == (None, None)
    sockets.take_listed([diag_socket(1, 5, 10, 20)], sockets.find)
    assert sockets.bytes("a") == (10, 20)


def test_a_connection_that_closed_unseen_makes_totals_incomplete_if_it_was_large() -> None:
    sockets = Sockets({5: A})
    sockets.take_listed([diag_socket(1, 5, 1000, 0)], sockets.find)
    sockets.take_closed([diag_socket(7, 0, 1, 1)], 0, None)
    assert sockets.jobs["a"].incomplete() == []
    sockets.take_closed([diag_socket(8, 0, 4096, 500)], 0, None)
    [remark] = sockets.jobs["a"].incomplete()
    assert "2 TCP connections" in remark
    assert "4.0 KiB received" in remark
    assert sockets.bytes("a") == (1000, 0)
    assert sockets.jobs["b"].incomplete() == [], "nothing is known of it anyway"


def test_a_connection_of_other_processes_or_users_is_no_doubt() -> None:
    sockets = Sockets({5: A})
    listed = [diag_socket(1, 5, 1000, 0), diag_socket(2, 9, 1, 1)]
    sockets.take_listed(listed, sockets.find)
    assert sockets.is_undecided, "the process may have started just now"
    sockets.take_listed(listed, sockets.find)
    sockets.take_closed([diag_socket(2, 0, 9999, 9999)], 0, None)
    sockets.take_closed([diag_socket(3, 0, 9999, 9999, uid=1000)], 0, 1001)
    assert sockets.jobs["a"].incomplete() == []


def test_a_short_connection_to_the_port_of_a_job_is_the_job_s() -> None:
    sockets = Sockets({5: A})
    sockets.take_listed([diag_socket(1, 5, state=LISTEN, port=8080)], sockets.find)
    assert sockets.bytes("a") == (None, None), "it has listened, and nothing came"
    sockets.take_closed([diag_socket(2, 0, 10, 20, port=8080)], 0, None)
    assert sockets.bytes("a") == (10, 20)
    sockets.take_closed([diag_socket(1, 0, port=8080)], 0, None)
    sockets.take_closed([diag_socket(3, 0, 10, 20, port=8080)], 0, None)
    assert sockets.bytes("a") == (10, 20), "the port is free again"


def test_a_socket_whose_last_counts_never_come_keeps_those_it_had() -> None:
    sockets = Sockets({5: A})
    sockets.take_listed([diag_socket(1, 5, 10, 20)], sockets.find)
    sockets.take_listed([], sockets.find)
    assert sockets.awaits("a")
    assert not sockets.awaits("b")
    sockets.settle(2)
    assert sockets.awaits("a")
    sockets.settle(1)
    assert not sockets.awaits("a")
    assert sockets.bytes("a") == (10, 20)
    assert ["last bytes" in remark for remark in sockets.jobs["a"].incomplete()] == [True]


def test_lost_notices_and_udp_are_said() -> None:
    sockets = Sockets({5: A})
    sockets.take_listed([diag_socket(1, 5, 10, 20)], sockets.find)
    sockets.take_closed([], 1, None)
    sockets.note_udp([B])
    assert ["lost" in remark for remark in sockets.jobs["a"].incomplete()] == [True]
    assert ["UDP" in remark for remark in sockets.jobs["b"].incomplete()] == [True]
    assert sockets.bytes("b") == (None, None)


def test_a_forgotten_job_s_sockets_count_for_no_other() -> None:
    sockets = Sockets({5: A, 6: A | B})
    listed = [diag_socket(1, 5, 10, 20), diag_socket(2, 6, 30, 40)]
    sockets.take_listed(listed, sockets.find)
    sockets.forget("a")
    sockets.take_listed(listed, sockets.find)
    sockets.take_closed(listed, 0, None)
    assert sockets.bytes("b") == (30, 40)
    assert sockets.jobs["b"].incomplete() == []
