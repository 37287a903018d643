"""The loads: processes built to cost a known amount, which say by their own counters what it was.

Run as a script, `python -I -S loads.py REPORT NAME ARGUMENT…`, and independent of what they judge: nothing of jobtop
is imported here. A process appends one line of JSON to REPORT as the last thing it does.
"""

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import NoReturn

CHUNK_BYTES = 1024 * 1024
SHELL_LOOP = "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"
CROWD_CHILD_SECONDS = 0.005


def read_values(path: str) -> dict[str, int]:
    """The `Key: number` lines of a file of /proc; nothing where there is no such file."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            rows = [line.replace(":", " ").split() for line in file]
    except OSError:
        return {}
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def memory_high_water() -> int:
    """The most memory this process ever had resident, in bytes."""
    kibibytes = read_values("/proc/self/status").get("VmHWM")
    if kibibytes is not None:
        return kibibytes * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS


def say(report: str, skip: str | None = None) -> None:
    """Append what this process and the children it waited for have used; the CPU time is read last."""
    storage = read_values("/proc/self/io")
    line: dict[str, object] = {
        "skip": skip,
        "memory_bytes": memory_high_water(),
        "read_bytes": storage.get("read_bytes"),
        "written_bytes": storage.get("write_bytes"),
    }
    fd = os.open(report, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    line["cpu_seconds"] = time.process_time() + children.ru_utime + children.ru_stime
    os.write(fd, f"{json.dumps(line)}\n".encode())


def finish(report: str, skip: str | None = None) -> NoReturn:
    """Say what was used and end without the clean-up of Python, which nobody could account for."""
    say(report, skip)
    os._exit(0)


def spin(seconds: float) -> None:
    """Compute until this process has used that much CPU time since its fork."""
    while time.process_time() < seconds:
        for _ in range(1000):
            pass


def touched(size: int) -> bytearray:
    """Memory that is really there: every page is written."""
    return bytearray(b"\1") * size


def spawn(work: Callable[[], object]) -> int:
    """Fork a child that does the work and ends; its pid."""
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
    """One child after the other, each gone before anybody could have sampled it."""
    for _ in range(count):
        os.waitpid(spawn(lambda: spin(seconds)), 0)
    finish(report)


def nested_shells(report: str, seconds: float) -> None:
    """Three shells in each other, each busy itself, and a process in the innermost."""
    from shlex import join, quote

    inner = join([sys.executable, "-I", "-S", __file__, os.devnull, "one-process", str(seconds)])
    for _ in range(3):
        inner = f"sh -c {quote(f'{SHELL_LOOP}; {inner}; :')}"
    os.waitpid(os.posix_spawnp("sh", ["sh", "-c", f"{inner}; :"], os.environ), 0)
    finish(report)


def two_threads(report: str, seconds: float) -> None:
    """Two threads that compute at the same time: checksums of large blocks are made without Python's lock."""
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
    """Fork twice and leave the session: what works on is nobody's child any more."""

    def work() -> None:
        memory = touched(size)
        spin(seconds)
        del memory  # at its exit, giving it back would cost time the process cannot read any more
        finish(report)

    def detach() -> None:
        os.setsid()
        spawn(work)

    os.waitpid(spawn(detach), 0)
    finish(report)


def orphans(report: str, count: int, seconds: float) -> None:
    """Children at work while their parent kills itself."""
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
    say(report)
    os.kill(os.getpid(), signal.SIGKILL)


def sigchld_ignored(report: str, count: int, seconds: float) -> None:
    """Children whose times the kernel throws away, for their parent said it does not care."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    def work() -> None:
        spin(seconds)
        finish(report)

    for _ in range(count):
        spawn(work)
    wait_for_children()
    finish(report)


def spike(report: str, size: int, seconds: float) -> None:
    """Much memory for a moment."""
    memory = touched(size)
    time.sleep(seconds)
    del memory
    finish(report)


def storage(report: str, size: int) -> None:
    """A file written to the disk and read back from it, not from the cache."""
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
    counted = read_values("/proc/self/io")
    if min(counted["read_bytes"], counted["write_bytes"]) < size:
        finish(report, f"the file system of {os.getcwd()} is none that the kernel counts, or keeps its cache")
    finish(report)


def crowd(report: str, count: int, seconds: float) -> None:
    """Many processes that are all there for a while, do a little, and go."""
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
    "crowd": crowd,
}


def main(report: str, name: str, *numbers: str) -> None:
    LOADS[name](report, *(float(number) if "." in number else int(number) for number in numbers))


if __name__ == "__main__":
    main(*sys.argv[1:])
