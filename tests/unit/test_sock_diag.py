"""Messages of sock_diag are parsed as the kernel writes them; a torn one is a problem with words, never a number."""

import errno
import socket
import struct
import subprocess
import sys

import pytest

from diag_messages import INFO_BYTES, answer, captured, diag_socket
from jobtop.core.measure.collectors.network import sock_diag
from jobtop.core.measure.collectors.network.sock_diag import (
    LISTEN,
    NLMSG_ERROR,
    NLMSG_OVERRUN,
    TCP,
    Counts,
    DiagProblem,
    DiagSocket,
    list_sockets,
    sockets_in,
)
from support import ROOT

LOOPBACK6 = bytes(15) + b"\x01"


def test_a_captured_list_has_every_socket_with_addresses_and_counts() -> None:
    sockets, is_last = sockets_in(captured("dump"))
    listening, client, server = sockets
    assert not is_last
    assert (listening.state, listening.addresses) == (LISTEN, (LOOPBACK6, bytes(16)))
    assert client.ports == tuple(reversed(server.ports))
    assert client.addresses == (LOOPBACK6, LOOPBACK6)
    assert (client.counts, server.counts) == (Counts(10, 1000, 3, 4), Counts(1000, 10, 4, 2))
    assert client.inode != server.inode != 0
    assert client.cookie != server.cookie
    assert client.round_trip_seconds is not None
    assert 0 < client.round_trip_seconds < 0.1
    assert client.retransmitted == 0
    assert sockets_in(captured("done")) == ([], True)


def test_a_captured_notice_of_a_closed_socket_has_its_last_counts_and_no_inode() -> None:
    closed = DiagSocket(captured("closed"))
    assert (closed.inode, closed.uid) == (0, 0)
    assert closed.counts == Counts(11, 1000, 4, 6)  # a FIN counts as a byte received


def test_an_answer_that_is_torn_anywhere_is_a_problem_or_has_only_true_numbers() -> None:
    data = captured("dump")
    true = [(one.cookie, one.inode, one.counts) for one in sockets_in(data)[0]]
    whole = 0
    for length in range(1, len(data)):
        try:
            found, is_last = sockets_in(data[:length])
        except DiagProblem:
            continue
        whole += 1
        assert not is_last, "the reader asks for the rest"
        assert [(one.cookie, one.inode, one.counts) for one in found] == true[: len(found)]
    assert whole == len(true) - 1, "only between two messages"
    with pytest.raises(DiagProblem, match="torn"):
        sockets_in(data[:-1])


def test_a_socket_of_which_a_part_is_missing_has_no_counts_and_no_wrong_ones() -> None:
    (client,) = [one for one in sockets_in(captured("dump"))[0] if one.counts == Counts(10, 1000, 3, 4)]
    for length in range(72, len(client.message)):
        torn = DiagSocket(client.message[:length])
        assert torn.counts in (None, client.counts)
        assert torn.retransmitted in (None, client.retransmitted)
        assert torn.round_trip_seconds in (None, client.round_trip_seconds)


def test_a_message_of_no_length_or_of_too_few_bytes_is_a_problem() -> None:
    with pytest.raises(DiagProblem, match="torn"):
        sockets_in(bytes(32))
    with pytest.raises(DiagProblem, match="too few bytes"):
        sockets_in(answer(bytes(71)))


def test_an_error_of_the_kernel_has_a_remedy_if_there_is_one() -> None:
    with pytest.raises(DiagProblem, match="tcp_diag") as missing:
        sockets_in(answer(struct.pack("=i", -errno.ENOENT) + bytes(16), kind=NLMSG_ERROR))
    assert missing.value.remedy == "as root: modprobe tcp_diag"
    with pytest.raises(DiagProblem, match="not permitted") as forbidden:
        sockets_in(answer(struct.pack("=i", -errno.EPERM) + bytes(16), kind=NLMSG_ERROR))
    assert forbidden.value.remedy is None
    with pytest.raises(DiagProblem, match="lost"):
        sockets_in(answer(b"", kind=NLMSG_OVERRUN))


@pytest.mark.parametrize(("info_bytes", "sent"), [(INFO_BYTES, 500), (216, 500), (215, 501), (144, 501)])
def test_older_kernels_tell_what_was_acknowledged(info_bytes: int, sent: int) -> None:
    assert diag_socket(1, received=9, sent=500, info_bytes=info_bytes).counts == Counts(9, sent, 4, 3)


def test_counts_that_the_kernel_does_not_tell_are_absent() -> None:
    assert diag_socket(1, received=9, info_bytes=143).counts is None
    whole = diag_socket(1, received=9).message
    assert DiagSocket(whole[:72]).counts is None
    assert DiagSocket(whole[:200]).counts is None
    assert DiagSocket(whole[:72] + bytes(8)).counts is None


def test_the_sockets_of_this_machine_are_listed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        ports = client.getsockname()[1], server.getsockname()[1]
        [ours] = [one for one in list_sockets(TCP) if one.ports == ports]
        assert ours.addresses == (b"\x7f\0\0\1", b"\x7f\0\0\1")
        assert ours.counts is not None


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_one_list_has_the_sockets_of_both_families(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> list[DiagSocket]:
        raise DiagProblem("an older kernel")

    with (
        socket.create_server(("127.0.0.1", 0)) as old,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as new,
        socket.create_connection(old.getsockname()) as client,
    ):
        ports = {one.getsockname()[1] for one in (old, new, client)}
        at_once = [one for one in list_sockets(TCP) if one.ports[0] in ports]
        monkeypatch.setattr(sock_diag, "_list_tcp", refuse)
        one_by_one = [one for one in list_sockets(TCP) if one.ports[0] in ports]
        assert {one.family for one in at_once} == {socket.AF_INET, socket.AF_INET6}
        assert sorted((one.cookie, one.family, one.state, one.inode, one.counts is None) for one in at_once) == sorted(
            (one.cookie, one.family, one.state, one.inode, one.counts is None) for one in one_by_one
        )


@pytest.mark.parametrize("error", [errno.EPROTONOSUPPORT, errno.EPERM, errno.EMFILE])
def test_a_machine_without_netlink_says_why(error: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> socket.socket:
        raise OSError(error, "")

    monkeypatch.setattr(socket, "socket", refuse)
    with pytest.raises(DiagProblem, match="sock_diag"):
        list_sockets(TCP)


def test_notices_of_closed_sockets_come_and_the_thread_ends() -> None:
    code = """if True:
        import os, resource, socket, threading
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 2048), most))
        kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(min(most, 2048) - 200)]  # as a large sampler has
        from jobtop.core.measure.collectors.network.closed_sockets import ClosedSockets
        closed = ClosedSockets()
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
            port = one.getsockname()[1]
            with server.accept()[0] as other:
                one.sendall(b"x" * 5000)
                assert other.recv(5000, socket.MSG_WAITALL)
        from support import wait_for
        found = wait_for(lambda: [one for one in closed.take()[0] if one.ports[0] == port])
        closed.close()
        assert threading.active_count() == 1
        print(found[0].counts.sent)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT / "tests", check=True)
    assert done.stdout == "5000\n"
