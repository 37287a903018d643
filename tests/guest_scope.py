"""What is done on the machine of uml.py once systemd runs it: jobs of a user who may make no cgroup. Prints JSON."""

import json
import os
import sys
import time
from pathlib import Path

from guest_v2 import CGROUPS, NO_AGENT, Guest, own_cgroups

RUNTIME = f"/run/user/{NO_AGENT}"
USER_SLICE = CGROUPS / f"user.slice/user-{NO_AGENT}.slice"
LIMITS = ("--memory", "32M", "--cpus", "0.9", "--enforce")
SEEN = "/tmp/seen"
# Where it runs and what holds it there; then it takes all the memory that it gets.
LOOK_AND_HOG = f"""
import json, os
place = "/sys/fs/cgroup" + open("/proc/self/cgroup").read().strip().partition("::")[2]
above = open(f"/proc/{{os.getppid()}}/cgroup").read().strip().partition("::")[2]
held = [open(f"{{place}}/{{name}}").read().strip() for name in ("cpu.max", "memory.swap.max", "../pids.max")]
with open("{SEEN}", "w") as file: json.dump([place, above, *held], file)
held = []
while True: held.append(bytearray(1048576)); held[-1][::4096] = bytes(256)
"""


def main() -> None:
    home = f"{RUNTIME}/home"
    os.makedirs(home)
    os.chown(home, NO_AGENT, NO_AGENT)
    os.environ |= {"XDG_RUNTIME_DIR": RUNTIME}
    guest = Guest(sys.argv[1], home, ("setpriv", f"--reuid={NO_AGENT}", f"--regid={NO_AGENT}", "--clear-groups", "env"))
    session = USER_SLICE / "session-1.scope"  # as logind makes them: root's
    session.mkdir()
    terminal = USER_SLICE / f"user@{NO_AGENT}.service/terminal.scope"  # as a desktop makes them: the user's
    terminal.mkdir()
    (terminal / "pids.max").write_text("345")
    for path in (terminal, terminal / "cgroup.procs", terminal / "cgroup.subtree_control"):
        os.chown(path, NO_AGENT, NO_AGENT)
    hog = guest.run(guest.python, "-S", "-c", LOOK_AND_HOG, options=LIMITS, place=session)
    answer = {
        "session": hog | {"seen": json.loads(Path(SEEN).read_text())},
        "terminal": guest.findings(terminal)["limits"],
    }
    deadline = time.monotonic() + 10
    while own_cgroups() and time.monotonic() < deadline:  # systemd removes a scope when it gets to it
        time.sleep(0.01)
    print(json.dumps(answer | {"left": own_cgroups()}))


if __name__ == "__main__":
    main()
