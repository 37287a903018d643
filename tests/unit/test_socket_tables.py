"""Tables of sockets are read as the kernel prints them; torn lines are left out."""

import sys

import pytest

from jobtop.core.measure.collectors.network.socket_tables import (
    SocketRow,
    address_text,
    parse_inet_table,
    parse_unix_table,
)

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
TCP = (
    "   0: 0100007F:B10B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 5081 1 0000 100 0\n"
    "   1: 0100007F:8D9A 0200000A:01BB 01 00000000:00000000 00:00000000 00000000     0        0 5082 1 0000 20 4\n"
)
TCP6 = (
    "   0: 00000000000000000000000001000000:1F90 B80D0120000000000000000002000000:0016 08"
    " 00000000:00000000 00:00000000 00000000     0        0 5083 1 0000 100 0\n"
)
UDP = "  77: 00000000:0044 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 5084 2 0000 0\n"
UNIX = """Num       RefCount Protocol Flags    Type St Inode Path
0000: 00000002 00000000 00010000 0001 01 6001 /run/some where
0000: 00000003 00000000 00000000 0001 03 6002
0000: 00000002 00000000 00000000 0002 01 6003 @abstract
"""
pytestmark = pytest.mark.skipif(sys.byteorder != "little", reason="captured on a little-endian machine")


def test_tcp_sockets_have_addresses_states_and_inodes() -> None:
    assert parse_inet_table(HEAD + TCP + TCP6) == [
        SocketRow(5081, "127.0.0.1:45323", None, "listening"),
        SocketRow(5082, "127.0.0.1:36250", "10.0.0.2:443", "established"),
        SocketRow(5083, "[::1]:8080", "[2001:db8::2]:22", "peer closed"),
    ]
    assert parse_inet_table(HEAD + UDP, is_udp=True) == [SocketRow(5084, "0.0.0.0:68", None, "open")]


def test_unix_sockets_have_paths_with_spaces_or_a_type() -> None:
    assert parse_unix_table(UNIX) == [
        SocketRow(6001, "/run/some where", None, "listening"),
        SocketRow(6002, "(stream)", None, "connected"),
        SocketRow(6003, "@abstract", None, "open"),
    ]


@pytest.mark.parametrize("text", ["", HEAD, HEAD + TCP[:60], HEAD + "a b c d e f g h i j\n", HEAD + "0: 01:2 3:4 01\n"])
def test_torn_tables_have_no_rows(text: str) -> None:
    assert parse_inet_table(text) == []
    assert parse_unix_table(text) == []


def test_an_address_of_ipv6_is_in_brackets() -> None:
    assert address_text(bytes(16), 80) == "[::]:80"
    assert address_text(bytes([10, 1, 2, 3]), 443) == "10.1.2.3:443"
