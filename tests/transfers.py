"""Programs that move a known number of bytes over the network, for jobs of tests."""

MIB = 1024 * 1024
# Whether the recorder of this job listens for closed sockets, which it does once it has seen a connection of the job.
SEEN = """if True:
    import os, socket, sys, threading, time

    def parent(pid):
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1]

    def is_seen():
        rows = [row.split() for row in open("/proc/net/netlink")]
        recorder = parent(os.getppid())
        return any(row[1] == "4" and row[2] == recorder and int(row[3], 16) for row in rows[1:])

    def wait_until_seen():
        deadline = time.monotonic() + 20
        while not is_seen() and time.monotonic() < deadline:
            time.sleep(0.005)
"""
SENDING = (
    SEEN
    + """
    size, rate, address = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    server = socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    client = socket.create_connection(server.getsockname()[:2])
    served, _ = server.accept()

    def receive():
        while served.recv(1 << 18):
            pass
        served.close()

    receiver = threading.Thread(target=receive)
    receiver.start()
    wait_until_seen()
    began, sent, block = time.monotonic(), 0, bytes(65536)
    while sent < size:
        part = block[: size - sent]
        client.sendall(part)
        sent += len(part)
        time.sleep(max(0.0, began + sent / rate - time.monotonic()))
    client.close()
    receiver.join()
"""
)
SHORT = """if True:
    import socket, time
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        served, _ = server.accept()
        client.sendall(bytes(1000))
        time.sleep(0.05)
"""


def sending(size: int, bytes_per_second: float, address: str = "127.0.0.1") -> tuple[str, ...]:
    """The arguments of a Python that sends so many bytes to itself once it is seen, and ends at once."""
    return "-c", SENDING, str(size), str(bytes_per_second), address
