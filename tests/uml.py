"""A machine with a pure version 2 cgroup tree only: user-mode Linux on the files of this machine.

The root file system is read-only and /tmp is fresh, but for the directories that are shared, which have the same
names on both sides. There is one CPU, a clock of 10 ms and no network. This file is also the machine's init, until it
makes room for systemd if that is asked for.
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
SYSTEMD, DBUS_DAEMON = "/lib/systemd/systemd", "/usr/bin/dbus-daemon"
NO_AGENT = 65534
# A system with a message bus, the manager of one user, and a command.
UNITS = {
    "system/guest.target": "[Unit]\nDefaultDependencies=no\nWants=guest.service\n",
    "system/guest.service": """
[Unit]
DefaultDependencies=no
Wants=dbus.socket user@{user}.service
After=dbus.socket user@{user}.service
[Service]
ExecStart='{python}' -I '{file}' '{scratch}' then
""",
    "system/dbus.socket": "[Unit]\nDefaultDependencies=no\n[Socket]\nListenStream=/run/dbus/system_bus_socket\n",
    "system/dbus.service": """
[Unit]
DefaultDependencies=no
[Service]
ExecStart={dbus} --system --address=systemd: --nofork --nopidfile
""",
    "system/user@.service": """
[Unit]
DefaultDependencies=no
[Service]
Type=notify
User=%i
Slice=user-%i.slice
Delegate=pids memory cpu
Environment=XDG_RUNTIME_DIR=/run/user/%i HOME=/run/user/%i
ExecStart={systemd} --user --unit=guest.target
""",
    "user/guest.target": "[Unit]\nDefaultDependencies=no\n",
}


def boot(
    kernel: Path,
    scratch: Path,
    command: Sequence[str],
    env: Mapping[str, str],
    shared: Sequence[Path],
    deadline: float,
    then: Sequence[str] = (),
) -> str:
    """Run a command as root in the machine, `then` one under systemd; what they printed. `scratch` is shared too."""
    scratch = scratch.resolve()
    order = {
        "command": list(command),
        "then": list(then),
        "env": dict(env),
        "shared": [str(path) for path in (*shared, scratch)],
    }
    (scratch / "order.json").write_text(json.dumps(order))
    init = scratch / "init"
    init.write_text(f"#!/bin/sh\nexec '{sys.executable}' -I '{Path(__file__).resolve()}' '{scratch}'\n")
    init.chmod(0o755)
    machine = [str(kernel.resolve()), "mem=512M", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}", "quiet"]
    booted = subprocess.run(
        ["timeout", "--kill-after=5", str(deadline), *machine, "con=null", "con0=null,fd:1", "ssl=null"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=deadline + 10,  # asked to end before, it ends all of its processes
        env={"TMPDIR": str(scratch), "HOME": str(scratch), "PATH": os.environ["PATH"]},
    )
    printed = scratch / "printed"
    if not printed.exists():
        raise OSError(f"the machine did not come up: {booted.stdout.decode(errors='replace')[-2000:]}")
    return printed.read_text()


def main(scratch: str) -> None:
    """In the machine: mount what a program expects, run the command, switch off or let systemd go on."""
    order = json.loads(Path(scratch, "order.json").read_text())
    try:
        for kind, target in MOUNTS:
            mount(kind, target)
        for path in order["shared"]:
            mount("hostfs", path, path)
        run(scratch, order["command"], order["env"])
        if order["then"]:
            become_systemd(scratch)
    except Exception:  # noqa: BLE001 - init must not end: the kernel would panic
        traceback.print_exc()
    switch_off()


def mount(kind: str, target: str, options: str = "") -> None:
    os.makedirs(target, exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(kind.encode(), target.encode(), kind.encode(), 0, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}")


def run(scratch: str, command: Sequence[str], env: Mapping[str, str]) -> None:
    with open(f"{scratch}/printed", "a") as output:
        subprocess.run(command, env=env, cwd="/tmp", stdin=subprocess.DEVNULL, stdout=output, stderr=output)


def become_systemd(scratch: str) -> None:
    """Without its generators, which look for what a machine of files does not have."""
    for name in ("system-generators", "user-generators", "user-environment-generators"):
        if os.path.isdir(f"/usr/lib/systemd/{name}"):
            mount("tmpfs", f"/usr/lib/systemd/{name}")
    words = {
        "user": NO_AGENT,
        "python": sys.executable,
        "file": __file__,
        "scratch": scratch,
        "systemd": SYSTEMD,
        "dbus": DBUS_DAEMON,
    }
    for name, text in UNITS.items():
        unit = Path("/run/systemd", name)
        unit.parent.mkdir(parents=True, exist_ok=True)
        unit.write_text(text.format(**words))
    os.makedirs(f"/run/user/{NO_AGENT}")
    os.chown(f"/run/user/{NO_AGENT}", NO_AGENT, NO_AGENT)
    os.execv(SYSTEMD, [SYSTEMD, "--system", "--unit=guest.target", "--log-target=console", "--show-status=no"])


def switch_off() -> None:
    os.sync()
    ctypes.CDLL(None).reboot(RB_POWER_OFF)


if __name__ == "__main__":
    if sys.argv[2:] == ["then"]:
        order = json.loads(Path(sys.argv[1], "order.json").read_text())
        run(sys.argv[1], order["then"], order["env"])
        switch_off()
    main(sys.argv[1])
