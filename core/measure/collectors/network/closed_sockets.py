"""Listens for TCP sockets that close: the kernel tells their last counts to all listeners (sock_diag, DESTROY groups).

The notices name a socket by its cookie; its inode is gone by then.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import threading

from jobtop.core.measure.collectors.network.sock_diag import DiagProblem, DiagSocket, open_netlink, sockets_in

SOL_NETLINK, NETLINK_ADD_MEMBERSHIP = 270, 1
TCP_DESTROY_GROUPS = (1, 3)  # SKNLGRP_INET_TCP_DESTROY, SKNLGRP_INET6_TCP_DESTROY
SO_RCVBUFFORCE = 33
BUFFER_BYTES = 4 * 1024 * 1024
NOTICE_BYTES = 8192
BATCH_SECONDS = 0.05  # between two readings on a busy host: many notices are read at once


class ClosedSockets:
    """A thread that reads the notices as they come; `take` returns them. Opening it may raise DiagProblem."""

    def __init__(self) -> None:
        self._netlink = open_netlink()
        try:
            self._join()
            self._asked, self._ask = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            self._netlink.close()
            raise DiagProblem(f"closed sockets are not announced: {os.strerror(error.errno or 0)}") from error
        self._closed: list[DiagSocket] = []
        self._lost = 0
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jobtop-closed-sockets", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # no more threads may be started
            self._release()
            raise DiagProblem(f"closed sockets cannot be watched: {error}") from error

    def take(self) -> tuple[list[DiagSocket], int]:
        """The sockets that closed since the last call, and how often notices were lost."""
        with self._lock:
            self._drain()
            closed, self._closed = self._closed, []
            lost, self._lost = self._lost, 0
        return closed, lost

    def close(self) -> None:
        """End the thread."""
        self._stopped.set()
        os.write(self._ask, b"x")
        self._thread.join()
        self._release()

    def _join(self) -> None:
        for option in (SO_RCVBUFFORCE, socket.SO_RCVBUF):
            with contextlib.suppress(OSError):  # EPERM: only root may exceed the limit
                self._netlink.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
                break
        self._netlink.bind((0, 0))
        for group in TCP_DESTROY_GROUPS:
            self._netlink.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group)
        self._netlink.setblocking(False)

    def _run(self) -> None:
        poll = select.poll()  # select() knows no descriptor above 1023, and a sampler may have thousands
        poll.register(self._netlink, select.POLLIN)
        poll.register(self._asked, select.POLLIN)
        while not self._stopped.is_set():
            poll.poll()
            with self._lock:
                self._drain()
            self._stopped.wait(BATCH_SECONDS)

    def _drain(self) -> None:
        while True:
            try:
                self._closed += sockets_in(self._netlink.recv(NOTICE_BYTES))[0]
            except BlockingIOError:
                return
            except DiagProblem:
                self._lost += 1
            except OSError as error:
                self._lost += 1  # ENOBUFS: more came than the buffer holds
                if error.errno != errno.ENOBUFS:
                    self._stopped.set()
                    return

    def _release(self) -> None:
        self._netlink.close()
        os.close(self._asked)
        os.close(self._ask)
