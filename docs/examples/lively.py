"""A small job of about three seconds: memory, worker processes, a file that reaches the disk, some output."""

import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

MIB = 1 << 20
WORKERS = 4
WORK_SECONDS = 0.5


def work(number: int) -> int:
    """Spend WORK_SECONDS of CPU time and print which process did."""
    rounds = 0
    while time.process_time() < WORK_SECONDS:
        rounds += sum(range(1000)) > 0
    return number


def write_checkpoint(size: int) -> None:
    """Write a temporary file through to the disk; below the working directory, since /tmp may be memory."""
    with tempfile.TemporaryFile(dir=".") as file:
        for _ in range(size // MIB):
            file.write(os.urandom(MIB))
        file.flush()
        os.fsync(file.fileno())


def main() -> None:
    """Compute in worker processes first, so that they do not share the memory allocated afterwards."""
    print(f"computing in {WORKERS} processes", flush=True)
    with ProcessPoolExecutor(WORKERS) as pool:
        for done, future in enumerate(as_completed([pool.submit(work, number) for number in range(WORKERS)]), start=1):
            print(f"  {done}/{WORKERS}: worker {future.result()} is done", flush=True)
    print("loading 200 MiB", flush=True)
    model = bytearray(os.urandom(MIB)) * 200
    for epoch in range(1, 4):
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            model[:: 4096 * epoch] = bytes(len(range(0, len(model), 4096 * epoch)))
        print(f"  epoch {epoch}/3", flush=True)
    print("writing a checkpoint of 16 MiB", flush=True)
    write_checkpoint(16 * MIB)
    print("done", flush=True)


if __name__ == "__main__":
    main()
