"""What is done on the machine of uml.py: jobs in a pure cgroup v2 tree. Prints one JSON object; the tests judge it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

CGROUPS = Path("/sys/fs/cgroup")
NO_AGENT = 65534
LIMIT = "48M"
ENFORCED = ("--memory", "32M", "--cpus", "0.5", "--enforce")
ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
HOG = "held = []\nwhile True: held.append(bytearray(1048576)); held[-1][::4096] = bytes(256)"
BURN_UNWAITED = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
held = bytearray(10 * 1048576)
held[::4096] = bytes(len(held[::4096]))
read, write = os.pipe()
if os.fork() == 0:
    while time.process_time() < 0.3: pass
    os._exit(0)
os.close(write)
os.read(read, 1)
"""


class Guest:
    """jobtop as one user of the machine."""

    def __init__(self, python: str, home: str, prefix: tuple[str, ...] = ()) -> None:
        self.python, self.prefix = python, prefix
        self.env = os.environ | {"HOME": home, "JOBTOP_HOME": f"{home}/state"}

    def command(self, *args: str, place: Path = CGROUPS) -> list[str]:
        return ["sh", "-c", ENTER, str(place), *self.prefix, self.python, "-m", "jobtop", *args]

    def call(self, *args: str, place: Path = CGROUPS) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*args, place=place), env=self.env, cwd="/tmp", capture_output=True, text=True, timeout=60
        )

    def run(self, *command: str, options: tuple[str, ...] = (), place: Path = CGROUPS) -> dict[str, Any]:
        """The record of a job, with what `run` returned and the cgroups it left."""
        record = Path(self.env["HOME"], "record.json")
        finished = self.call("run", "--quiet", "--record", str(record), *options, "--", *command, place=place)
        job = json.loads(record.read_text()) if record.exists() else {"stderr": finished.stderr}
        record.unlink(missing_ok=True)
        return job | {"returncode": finished.returncode, "left": own_cgroups()}

    def findings(self, place: Path = CGROUPS) -> dict[str, dict[str, Any]]:
        """What the doctor says, by name."""
        printed = self.call("doctor", "--json", place=place).stdout
        return {finding["name"]: finding for finding in json.loads(printed)}


def own_cgroups() -> list[str]:
    return [str(path) for path in sorted(CGROUPS.rglob("jobtop-*"))]


def make(name: str, limit: str | None = None) -> Path:
    """A cgroup that gives the memory controller to those below it, and one below it to live in."""
    place = CGROUPS / name / "shell"
    place.mkdir(parents=True)
    if limit is not None:
        (place.parent / "memory.max").write_text(limit)
    (place.parent / "cgroup.subtree_control").write_text("+memory +cpu")
    return place


def take_the_remedy(guest: Guest) -> dict[str, Any]:
    """In a cgroup namespace, as in a container, all live in its root: do what the doctor says and ask again."""
    container = CGROUPS / "container"
    container.mkdir()
    script = f"umount {CGROUPS} && mount -t cgroup2 cgroup2 {CGROUPS} && exec '{sys.executable}' '{__file__}' container"
    command = ["sh", "-c", ENTER, str(container), "unshare", "--cgroup", "--mount", "sh", "-c", script]
    printed = subprocess.run(command, env=guest.env, cwd="/tmp", capture_output=True, text=True, timeout=60)
    try:
        answer: dict[str, Any] = json.loads(printed.stdout)
    except ValueError:
        return {"stderr": printed.stderr, "stdout": printed.stdout}
    return answer


def inside_container(guest: Guest) -> dict[str, Any]:
    before = guest.findings()
    remedy = subprocess.run(
        ["sh", "-c", str(before["cgroup memory"]["remedy"])], capture_output=True, text=True, timeout=20
    )
    after = guest.findings(place=CGROUPS / "shell")
    return {"before": before["cgroup memory"], "remedy": remedy.stderr, "after": after["cgroup memory"]}


def delegated(guest: Guest) -> dict[str, Any]:
    """Jobs of a user to whom a part of the tree was given: one that is small, and one that has to be held."""
    place = make("delegated")
    for path in (place, place.parent):
        for file in (path, path / "cgroup.procs", path / "cgroup.subtree_control"):
            os.chown(file, NO_AGENT, NO_AGENT)
    hog = f"'{guest.python}' -S -c '{HOG}'; echo survived"
    enforced = guest.run("sh", "-c", hog, options=ENFORCED, place=place)
    return {"small": guest.run("true", place=place), "enforced": enforced}


def main() -> None:
    root = Guest(sys.executable, "/tmp/root-home")
    os.makedirs("/tmp/root-home", exist_ok=True)
    if sys.argv[1:] == ["container"]:
        print(json.dumps(inside_container(root)))
        return
    answer: dict[str, Any] = {"without_memory": root.findings()["cgroup memory"]}
    subprocess.run(["sh", "-c", answer["without_memory"]["remedy"]], check=True, timeout=20)
    (CGROUPS / "cgroup.subtree_control").write_text("+cpu")
    limited = make("limited", limit=LIMIT)
    answer["unwaited"] = root.run(sys.executable, "-S", "-c", BURN_UNWAITED)
    answer["hog"] = root.run(sys.executable, "-S", "-c", HOG, place=limited)
    answer["container"] = take_the_remedy(root)
    if len(sys.argv) > 1:
        home = "/tmp/nobody-home"
        os.makedirs(home)
        os.chown(home, NO_AGENT, NO_AGENT)
        prefix = ("setpriv", f"--reuid={NO_AGENT}", f"--regid={NO_AGENT}", "--clear-groups")
        answer["delegated"] = delegated(Guest(sys.argv[1], home, prefix))
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
