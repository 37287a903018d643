"""A machine whose only cgroup tree is a pure version 2 one: user-mode Linux on the files of this machine.

The root file system is read-only and /tmp is fresh, but for the directories that are shared, which have the same
names on both sides. There is one CPU, a clock of 10 ms and no network. This file is also the machine's init.
"""

import ctypes
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

RB_POWER_OFF = 0x4321FEDC
MOUNTS = (
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("cgroup2", "/sys/fs/cgroup"),
    ("tmpfs", "/dev/shm"),
    ("tmpfs", "/run"),
    ("tmpfs", "/tmp"),
)


def boot(
    kernel: Path, scratch: Path, command: Sequence[str], env: Mapping[str, str], shared: Sequence[Path], deadline: float
) -> str:
    """Run a command as root in the machine; what it printed. `scratch` is shared too."""
    scratch = scratch.resolve()
    order = {"command": list(command), "env": dict(env), "shared": [str(path) for path in (*shared, scratch)]}
    (scratch / "order.json").write_text(json.dumps(order))
    init = scratch / "init"
    init.write_text(f"#!/bin/sh\nexec '{sys.executable}' -I '{Path(__file__).resolve()}' '{scratch}'\n")
    init.chmod(0o755)
    machine = [str(kernel.resolve()), "mem=512M", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}", "quiet"]
    booted = subprocess.run(
        [*machine, "con=null", "con0=null,fd:1", "ssl=null"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=deadline,
        env={"TMPDIR": str(scratch), "HOME": str(scratch), "PATH": os.environ["PATH"]},
    )
    printed = scratch / "printed"
    if not printed.exists():
        raise OSError(f"the machine did not come up: {booted.stdout.decode(errors='replace')[-2000:]}")
    return printed.read_text()


def main(scratch: str) -> None:
    """In the machine: mount what a program expects, run the command, switch off."""
    order = json.loads(Path(scratch, "order.json").read_text())
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(kind: str, target: str, options: str = "") -> None:
        os.makedirs(target, exist_ok=True)
        if libc.mount(kind.encode(), target.encode(), kind.encode(), 0, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), f"mount {target}")

    try:
        for kind, target in MOUNTS:
            mount(kind, target)
        for path in order["shared"]:
            mount("hostfs", path, path)
        with open(f"{scratch}/printed", "w") as output:
            null = subprocess.DEVNULL
            subprocess.run(order["command"], env=order["env"], cwd="/tmp", stdin=null, stdout=output, stderr=output)
    except Exception:  # noqa: BLE001 - init must not end: the kernel would panic
        traceback.print_exc()
    os.sync()
    libc.reboot(RB_POWER_OFF)


if __name__ == "__main__":
    main(sys.argv[1])
