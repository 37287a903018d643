"""The loads: programs that use a known amount of resources, and report it by their own counters.

Run as a script, `python -I -S loads.py REPORT NAME ARGUMENT…`. Nothing of jobtop is imported here, so that loads are
independent of what they check. Each process appends one line of JSON to REPORT just before it exits. Only cheap
modules are imported at the start: what Python uses before the first point of a load is on no curve.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import NoReturn

CHUNK_BYTES = 1024 * 1024
PROBE_SECONDS, MOST_SLOWNESS = 0.02, 8.0  # CPU time that tells how busy the machine is; pauses grow by this at most
SAMPLED_SHARE = 0.4
SLOWNESS_STEPS = 4  # how often a long load looks how busy the machine is
SHELL_LOOP = "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
JOB_CGROUP = "jobtop-"  # how the name of a job's own cgroup begins
CROWD_CHILD_SECONDS = 0.005
POINT_SECONDS = 0.001
SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
NO_PSS = "this system does not report what processes share (/proc/PID/smaps_rollup)"
BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def read_values(path: str) -> dict[str, int]:
    """Read the `Key: number` lines of a file of /proc; empty if it cannot be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            rows = [line.replace(":", " ").split() for line in file]
    except OSError:
        return {}
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def memory_high_water() -> int:
    """Return the largest resident memory of this process so far, in bytes."""
    kibibytes = read_values("/proc/self/status").get("VmHWM")
    if kibibytes is not None:
        return kibibytes * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS


def memory_together(pids: Sequence[int]) -> int | None:
    """Return the current memory of these processes, shared pages counted once; None if the kernel does not show it."""
    shares = [read_values(f"/proc/{pid}/smaps_rollup").get("Pss") for pid in pids]
    return None if None in shares else sum(filter(None, shares)) * 1024


def cpu_used() -> float:
    """Return the CPU seconds of this process and its reaped children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def write_report(report: str, skip: str | None = None, **more: object) -> None:
    """Append what this process and its reaped children have used; the CPU time is read last."""
    import json  # takes as long as the start of Python

    storage = read_values("/proc/self/io")
    line: dict[str, object] = more | {
        "skip": skip,
        "memory_bytes": memory_high_water(),
        "read_bytes": storage.get("read_bytes"),
        "written_bytes": storage.get("write_bytes"),
    }
    fd = os.open(report, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    text = json.dumps(line).removesuffix("}").encode()
    os.write(fd, text + b', "moment": %.6f, "cpu_seconds": %.9f}\n' % (time.time(), cpu_used()))


def finish(report: str, skip: str | None = None, **more: object) -> NoReturn:
    """Report what was used and exit without Python's clean-up, because its cost would not be in the report."""
    write_report(report, skip, **more)
    os._exit(0)


class CpuCurve:
    """Records the CPU time of this process: pairs of seconds since the epoch and CPU seconds used."""

    def __init__(self) -> None:
        self._epoch = time.time() - time.clock_gettime(BOOTTIME)  # computed once: the wall clock may be set meanwhile
        self.points: list[tuple[float, float]] = []
        self.add_point()

    def add_point(self) -> None:
        self.points.append((round(self._epoch + time.clock_gettime(BOOTTIME), 6), round(cpu_used(), 6)))

    def spin(self, seconds: float) -> None:
        """Compute for that much CPU time, with points so close that pauses are visible."""
        end = time.process_time() + seconds
        while (now := time.process_time()) < end:
            while time.process_time() < now + POINT_SECONDS:
                for _ in range(1000):
                    pass
            self.add_point()

    def touch(self, size: int) -> list[bytearray]:
        """Return written memory in pieces of a MiB, with a point after each: getting pages takes CPU time."""
        pieces = []
        for _ in range(size // CHUNK_BYTES):
            pieces.append(written_memory(CHUNK_BYTES))
            self.add_point()
        return pieces


def spin(seconds: float) -> None:
    """Compute until this process has used that much CPU time since it was forked."""
    while time.process_time() < seconds:
        for _ in range(1000):
            pass


def written_memory(size: int) -> bytearray:
    """Return memory of which every page was written, so that it is resident."""
    return bytearray(b"\1") * size


def spawn(work: Callable[[], object]) -> int:
    """Fork a child that does the work and exits; return its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return pid


def wait_for_children() -> None:
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return


def one_process(report: str, seconds: float) -> None:
    spin(seconds)
    finish(report)


def many_children(report: str, count: int, seconds: float) -> None:
    """Run one child after the other, each too short to be sampled."""
    for _ in range(count):
        os.waitpid(spawn(lambda: spin(seconds)), 0)
    finish(report)


def nested_shells(report: str, seconds: float) -> None:
    """Run three nested shells, each busy itself, and a process in the innermost."""
    from shlex import join, quote

    inner = join([sys.executable, "-I", "-S", __file__, os.devnull, "one-process", str(seconds)])
    for _ in range(3):
        inner = f"sh -c {quote(f'{SHELL_LOOP}; {inner}; :')}"
    os.waitpid(os.posix_spawnp("sh", ["sh", "-c", f"{inner}; :"], os.environ), 0)
    finish(report)


def two_threads(report: str, seconds: float) -> None:
    """Compute in two threads at the same time: checksums of large blocks release Python's lock."""
    import _thread
    import zlib

    block = bytes(CHUNK_BYTES)
    running = [_thread.allocate_lock() for _ in range(2)]

    def work(number: int) -> None:
        while time.thread_time() < seconds:
            zlib.crc32(block)
        running[number].release()

    for number, lock in enumerate(running):
        lock.acquire()
        _thread.start_new_thread(work, (number,))
    for lock in running:
        lock.acquire()
    finish(report)


def daemon(report: str, size: int, seconds: float) -> None:
    """Fork twice and leave the session, so that the working process has lost its parent."""

    def work() -> None:
        memory = written_memory(size)
        spin(seconds)
        del memory  # freeing it during exit would use CPU time after the report
        finish(report)

    def detach() -> None:
        os.setsid()
        spawn(work)

    os.waitpid(spawn(detach), 0)
    finish(report)


def orphans(report: str, count: int, seconds: float) -> None:
    """Leave children working while their parent kills itself."""
    reader, writer = os.pipe()

    def work() -> None:
        spin(seconds / 4)
        os.write(writer, b".")
        spin(seconds)
        finish(report)

    for _ in range(count):
        spawn(work)
    for _ in range(count):
        os.read(reader, 1)
    write_report(report)
    os.kill(os.getpid(), signal.SIGKILL)


def sigchld_ignored(report: str, count: int, seconds: float) -> None:
    """Run children under a parent that ignores SIGCHLD, so that the kernel discards their CPU time."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    def work() -> None:
        spin(seconds)
        finish(report)

    for _ in range(count):
        spawn(work)
    wait_for_children()
    finish(report)


def spike(report: str, size: int, seconds: float) -> None:
    """Use much memory for a short time."""
    memory = written_memory(size)
    time.sleep(seconds)
    del memory
    finish(report)


def storage(report: str, size: int) -> None:
    """Write a file to the disk and read it back, not from the cache."""
    if not hasattr(os, "posix_fadvise") or not read_values("/proc/self/io"):
        finish(report, "this system cannot drop a file from its cache, or does not count what is read from a disk")
    block = os.urandom(CHUNK_BYTES)
    fd = os.open("storage", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    for _ in range(size // CHUNK_BYTES):
        os.write(fd, block)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    for number in range(size // CHUNK_BYTES):
        os.pread(fd, CHUNK_BYTES, number * CHUNK_BYTES)
    os.unlink("storage")
    totals = read_values("/proc/self/io")
    if min(totals["read_bytes"], totals["write_bytes"]) < size:
        finish(report, f"the kernel does not count I/O to the file system of {os.getcwd()}, or keeps it cached")
    finish(report)


def slowness() -> float:
    """How many times longer work takes than the CPU time it needs, because other processes run: from 1 to a limit."""
    began, end = time.monotonic(), time.process_time() + PROBE_SECONDS
    while time.process_time() < end:
        pass
    return min(max(1.0, (time.monotonic() - began) / PROBE_SECONDS), MOST_SLOWNESS)


def stay_sampled(seconds: float) -> None:
    """Sleep until samples were taken: 40 % of the time is enough on a quiet machine, a busy one may need longer."""
    for _ in range(SLOWNESS_STEPS):
        time.sleep(max(1.0, SAMPLED_SHARE * slowness()) * seconds / SLOWNESS_STEPS)


def file_twice(report: str, size: int, seconds: float) -> None:
    """Read a file twice, each time in a few steps over a time; at the end keep it open for as long as a step.

    On a busy machine jobtop comes to read positions later: the pauses are as much longer as work takes longer there.
    """
    steps = SLOWNESS_STEPS
    with open("twice", "wb") as file:
        file.truncate(size)
    for _ in range(2):
        with open("twice", "rb", buffering=0) as file:
            for _ in range(steps):
                left = size // steps
                while left > 0:
                    left -= len(file.read(min(left, CHUNK_BYTES)))
                time.sleep(slowness() * seconds / steps)
    os.unlink("twice")
    finish(report)


def network(report: str, size: int, seconds: float) -> None:
    """Send bytes over TCP from a process to its child, evenly over a time, and exit at once.

    On a busy machine jobtop comes to list connections later: the time is as much longer as work takes longer there.
    """
    import socket

    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG).close()
    except (OSError, AttributeError) as error:
        finish(report, f"this system does not tell what its TCP connections carry (sock_diag: {error})")
    server = socket.create_server(("127.0.0.1", 0))

    def receive() -> None:
        served, _ = server.accept()
        received = 0
        while part := served.recv(CHUNK_BYTES):
            received += len(part)
        served.close()
        write_report(report, network_bytes=received)

    child = spawn(receive)
    client = socket.create_connection(server.getsockname())
    block = bytes(CHUNK_BYTES // 16)
    blocks, due, step = size // len(block), time.monotonic(), 0.0
    for number in range(blocks):
        if number % (blocks // SLOWNESS_STEPS) == 0:
            step = slowness() * seconds / blocks
        client.sendall(block)
        due += step
        time.sleep(max(0.0, due - time.monotonic()))
    client.close()
    os.waitpid(child, 0)
    finish(report)


def crowd(report: str, count: int, seconds: float) -> None:
    """Run many processes at the same time that each do a little work."""
    reader, writer = os.pipe()
    skip = None

    def work() -> None:
        os.close(writer)
        os.read(reader, 1)
        spin(CROWD_CHILD_SECONDS)

    for number in range(count):
        try:
            spawn(work)
        except OSError as error:
            skip = f"only {number} processes can be started here: {error.strerror}"
            break
    else:
        time.sleep(seconds)
    os.close(writer)
    wait_for_children()
    finish(report, skip)


def shared(report: str, size: int, count: int, seconds: float) -> None:
    """Fork children that share much memory with their parent and never write to it."""
    memory = written_memory(size)
    reader, writer = os.pipe()

    def stay() -> None:
        os.close(writer)
        os.read(reader, 1)

    pids = [spawn(stay) for _ in range(count)]
    stay_sampled(seconds)
    together = memory_together([os.getpid(), *pids])
    os.close(writer)
    wait_for_children()
    del memory
    finish(report, NO_PSS if together is None else None, together_bytes=together)


def copy_on_write(report: str, size: int, count: int, seconds: float) -> None:
    """Fork children that share much memory with their parent for a while, then write to all of it."""
    memory = written_memory(size)
    reader, writer = os.pipe()
    release_read, release_write = os.pipe()

    def write() -> None:
        os.close(release_write)
        time.sleep(seconds / 2)
        memory[::PAGE_BYTES] = b"\2" * len(memory[::PAGE_BYTES])
        os.write(writer, b".")
        os.read(release_read, 1)

    pids = [spawn(write) for _ in range(count)]
    for _ in range(count):
        os.read(reader, 1)
    stay_sampled(seconds)
    together = memory_together([os.getpid(), *pids])
    os.close(release_write)
    wait_for_children()
    memory.clear()
    finish(report, NO_PSS if together is None else None, together_bytes=together)


def leaves_cgroup(report: str, size: int, seconds: float) -> None:
    """Move to a parent cgroup first, as container runtimes do, then use CPU and memory."""
    curve = CpuCurve()
    if not leave_cgroups():
        finish(report, "the job has no cgroup of its own that it may leave (that needs root, or one that is delegated)")
    memory = curve.touch(size)
    curve.spin(seconds)
    time.sleep(seconds)
    curve.add_point()
    together = memory_together([os.getpid()])
    curve.add_point()
    del memory
    finish(report, NO_PSS if together is None else None, together_bytes=together, curve=curve.points)


def leave_cgroups() -> bool:
    """Move to the nearest possible parent of the job's own cgroup in every hierarchy; return whether that worked."""
    own = [(mount, path) for mount, path in own_cgroups() if os.path.basename(path).startswith(JOB_CGROUP)]
    return bool(own) and all(any(enter_cgroup(mount + place) for place in parent_cgroups(path)) for mount, path in own)


def parent_cgroups(path: str) -> Iterator[str]:
    """Yield the parents of a cgroup, from the nearest to the root."""
    while path:
        path = path.rpartition("/")[0]
        yield path


def own_cgroups() -> list[tuple[str, str]]:
    """Return the mount point of each cgroup hierarchy, and the path of this process in it."""
    with open("/proc/self/cgroup") as file:
        places = {names: path for _, names, path in (line.rstrip("\n").split(":", 2) for line in file)}
    found = []
    with open("/proc/self/mountinfo") as file:
        for before, _, after in (line.partition(" - ") for line in file):
            kind, options = after.split()[0], set(after.split()[2].split(","))
            root, mount = before.split()[3:5]
            for names, path in places.items():
                is_here = kind == "cgroup2" if not names else kind == "cgroup" and set(names.split(",")) <= options
                if is_here and path.startswith(root.rstrip("/")):
                    found.append((mount, path.removeprefix(root.rstrip("/"))))
    return found


def enter_cgroup(directory: str) -> bool:
    """Move this process to a cgroup; return whether that worked."""
    try:
        with open(f"{directory}/cgroup.procs", "w") as file:
            file.write("0")
    except OSError:
        return False
    return True


def background(report: str, seconds: float) -> None:
    """Exit at once, and leave a child that works."""

    def work() -> None:
        spin(seconds)
        finish(report)

    spawn(work)
    finish(report)


def beside_daemon(report: str, own_size: int, size: int, seconds: float) -> None:
    """Use memory in a process and in its daemon at the same time."""
    reader, writer = os.pipe()
    release_read, release_write = os.pipe()

    def stay() -> None:
        os.close(release_write)
        memory = written_memory(size)
        os.write(writer, f"{os.getpid()}\n".encode())
        os.read(release_read, 1)
        del memory

    def detach() -> None:
        os.setsid()
        spawn(stay)

    os.waitpid(spawn(detach), 0)
    memory = written_memory(own_size)
    daemon = int(os.read(reader, 64))
    stay_sampled(seconds)
    together = memory_together([os.getpid(), daemon])
    del memory
    finish(report, NO_PSS if together is None else None, together_bytes=together)


def gpu_memory(report: str, size: int, seconds: float) -> None:
    """Hold memory of an NVIDIA GPU for a time, through the library of its driver."""
    import ctypes

    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        finish(report, f"no GPU can be used here: {error}")
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    steps: tuple[tuple[str, tuple[object, ...]], ...] = (
        ("cuInit", (0,)),
        ("cuDeviceGet", (ctypes.byref(device), 0)),
        ("cuDevicePrimaryCtxRetain", (ctypes.byref(context), device)),
        ("cuCtxSetCurrent", (context,)),
        ("cuMemAlloc_v2", (ctypes.byref(memory), ctypes.c_size_t(size))),
        ("cuMemsetD8_v2", (memory, ctypes.c_ubyte(1), ctypes.c_size_t(size))),
        ("cuCtxSynchronize", ()),
    )
    for function, arguments in steps:
        code = getattr(cuda, function)(*arguments)
        if code:
            finish(report, f"no GPU can be used here: {function} failed with code {code}")
    time.sleep(seconds)
    finish(report)


def wave(report: str, seconds: float, times: int) -> None:
    """Use one core for a while, then nothing for as long, repeatedly."""
    curve = CpuCurve()
    for _ in range(times):
        curve.spin(seconds)
        time.sleep(seconds)
        curve.add_point()
    finish(report, curve=curve.points)


def storm(report: str, rate: int, seconds: float) -> None:
    """Start `rate` processes per second, each of about a millisecond."""
    curve, begin = CpuCurve(), time.monotonic()
    for number in range(1, round(rate * seconds) + 1):
        os.waitpid(os.posix_spawnp("true", ["true"], os.environ), 0)
        curve.add_point()
        time.sleep(max(0.0, begin + number / rate - time.monotonic()))
    curve.add_point()
    finish(report, curve=curve.points)


LOADS: dict[str, Callable[..., None]] = {
    "one-process": one_process,
    "many-children": many_children,
    "nested-shells": nested_shells,
    "two-threads": two_threads,
    "daemon": daemon,
    "orphans": orphans,
    "sigchld-ignored": sigchld_ignored,
    "spike": spike,
    "storage": storage,
    "file-twice": file_twice,
    "network": network,
    "crowd": crowd,
    "shared": shared,
    "copy-on-write": copy_on_write,
    "leaves-cgroup": leaves_cgroup,
    "background": background,
    "beside-daemon": beside_daemon,
    "gpu-memory": gpu_memory,
    "wave": wave,
    "storm": storm,
}


def main(report: str, name: str, *numbers: str) -> None:
    LOADS[name](report, *(float(number) if "." in number else int(number) for number in numbers))


if __name__ == "__main__":
    main(*sys.argv[1:])
