"""Real engines of containers: Docker or Podman in namespaces of their own, with one tiny image, shared by test workers.

An engine runs in a mount and a network namespace that a keeper process holds: no mount, bridge or rule of it is seen
outside, and all of them go with its processes. Users of an engine hold a shared lock on a file in its directory. The
last user stops it; an engine without users was left by a crash, and the next session stops it.
"""

import fcntl
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:  # most tests have no use for it
    from docker import APIClient

IMAGE = "box:1"
REPOSITORY = "docker.io/library/box"  # in full: Podman looks for it nowhere else
# The image holds busybox only: the Python of the host, /usr/bin/python3, comes by these.
PYTHON_BINDS = ["/usr:/usr:ro", "/lib:/lib:ro", "/lib64:/lib64:ro"]
PREFIX = "jobtop-engine-"
NEW_SECONDS = 60.0  # a directory without users that is younger is about to be used
PODMAN_CONF = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
netns = "none"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
"""
# A tmpfs on /run hides the engines, the containerd and the sockets of the host, and takes what ours would leave there.
KEEPER = """
mount -t tmpfs tmpfs /run && mkdir /run/lock && ip link set lo up || exit
echo $$
exec tail -f "$0" >/dev/null
"""
DAEMON = 'echo $$ >"$0"; exec "$@"'
SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class CannotRunError(Exception):
    """Why there is no real engine here."""


@dataclass(frozen=True)
class RealEngine:
    """An engine that runs: `engine.env` leads jobtop to it, `engine.api()` is a connection for the test itself."""

    kind: str  # docker or podman
    directory: Path
    keeper: int

    @property
    def url(self) -> str:
        return f"unix://{self.directory}/{self.kind}.sock"

    @property
    def env(self) -> dict[str, str]:
        """The variable that leads jobtop, and the command line of the engine, to it and to no other engine."""
        return {"DOCKER_HOST" if self.kind == "docker" else "CONTAINER_HOST": self.url}

    @property
    def cgroup_parent(self) -> str:
        """The name of the cgroup that holds the containers of Docker that no other parent was asked for."""
        return cgroup_parent_of(self.directory)

    def api(self) -> "APIClient":
        """A new connection; the caller closes it."""
        from docker import APIClient

        return APIClient(self.url, version="auto", timeout=30)

    def create(
        self,
        *command: str,
        name: str | None = None,
        image: str = IMAGE,
        host: dict[str, Any] | None = None,
        **options: Any,
    ) -> str:
        """A container of the image, without a network unless `host` says otherwise; its id."""
        with closing(self.api()) as api:
            config = api.create_host_config(**({"network_mode": "none"} | (host or {})))
            name = name or f"test-{uuid.uuid4().hex[:12]}"
            return str(api.create_container(image, list(command), name=name, host_config=config, **options)["Id"])

    @contextmanager
    def container(self, *command: str, **options: Any) -> Iterator[str]:
        """The id of a container that was started; it is removed in the end, whatever became of it."""
        container = self.create(*command, **options)
        try:
            with closing(self.api()) as api:
                api.start(container)
            yield container
        finally:
            self.remove(container)

    def inspect(self, reference: str) -> dict[str, Any]:
        with closing(self.api()) as api:
            return dict(api.inspect_container(reference))

    def remove(self, reference: str) -> None:
        from docker.errors import NotFound

        with closing(self.api()) as api, suppress(NotFound):
            api.remove_container(reference, v=True, force=True)

    def names(self) -> set[str]:
        """The names of all containers, of stopped ones too."""
        with closing(self.api()) as api:
            return {name.removeprefix("/") for row in api.containers(all=True) for name in row["Names"]}


@contextmanager
def shared_engine(kind: str, session: Path) -> Iterator[RealEngine]:
    """The engine of a test session: the first that asks starts it, the last one stops it."""
    place = session / f"{kind}.json"
    with locked(session / f"{kind}.lock"):
        stop_stale()
        found = read_json(place)
        if problem := found.get("problem"):
            raise CannotRunError(problem)
        if found and (Path(found["directory"]) / "users").exists():
            engine = RealEngine(kind, Path(found["directory"]), found["keeper"])
            user = hold(engine.directory)
        else:
            try:
                engine, user = start(kind)
            except CannotRunError as error:
                place.write_text(json.dumps({"problem": str(error)}))
                raise
            place.write_text(json.dumps({"directory": str(engine.directory), "keeper": engine.keeper}))
    try:
        yield engine
    finally:
        with locked(session / f"{kind}.lock"):
            user.close()
            if is_unused(engine.directory, patience_seconds=0.2):
                stop(engine)
                place.unlink()


@contextmanager
def own_engine(kind: str, *flags: str) -> Iterator[RealEngine]:
    """An engine for one test, which may restart or kill it."""
    engine, user = start(kind, *flags)
    with user:
        try:
            yield engine
        finally:
            stop(engine)


def start(kind: str, *flags: str) -> tuple[RealEngine, IO[str]]:
    """A new engine that answers and has the image, and the lock that says it is used."""
    check_possible(kind)
    directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir="/tmp"))  # short: the path of a socket has at most 107 bytes
    user = hold(directory)
    keeper = start_keeper(directory)
    engine = RealEngine(kind, directory, keeper)
    try:
        start_daemon(engine, *flags)
        import_image(engine)
    except CannotRunError:
        user.close()
        stop(engine)
        raise
    return engine, user


def check_possible(kind: str) -> None:
    needed = {"docker": ("dockerd", "containerd", "runc", "iptables"), "podman": ("podman", "conmon", "runc")}[kind]
    if os.geteuid() != 0:
        raise CannotRunError("the tests do not run as root")
    for command in (*needed, "busybox", "unshare", "nsenter", "ip"):
        if shutil.which(command, path=SEARCH) is None:
            raise CannotRunError(f"{command} is not installed")


def start_keeper(directory: Path) -> int:
    """The pid of a process that holds new namespaces, with the loopback device up and an empty /run."""
    command = ["setsid", "--fork", "unshare", "--net", "--mount", "sh", "-c", KEEPER, f"{directory}/keeper.log"]
    with open(directory / "keeper.log", "w") as log:
        said = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, cwd="/", env=plain_environment()
        ).stdout
    if not said.strip():
        problem = (directory / "keeper.log").read_text().strip()
        shutil.rmtree(directory, ignore_errors=True)
        raise CannotRunError(f"no namespaces can be made: {problem}")
    return int(said)


def plain_environment() -> dict[str, str]:
    return {"PATH": SEARCH, "HOME": "/nonexistent", "LANG": "C.UTF-8"}


def start_daemon(engine: RealEngine, *flags: str) -> None:
    """Start the engine itself in the namespaces of the keeper, and wait until it answers."""
    directory = engine.directory
    if engine.kind == "docker":
        (directory / "none.json").write_text("{}")
        command = [
            "dockerd", f"--host={engine.url}", f"--data-root={directory}/data", f"--exec-root={directory}/exec",
            f"--pidfile={directory}/docker.pid", f"--config-file={directory}/none.json",
            "--exec-opt=native.cgroupdriver=cgroupfs", f"--cgroup-parent=/{engine.cgroup_parent}", *flags,
        ]  # fmt: skip
    else:
        (directory / "containers.conf").write_text(PODMAN_CONF)
        command = [
            "podman", f"--root={directory}/root", f"--runroot={directory}/run", f"--tmpdir={directory}/tmp", *flags,
            "system", "service", "--time=0", engine.url,
        ]  # fmt: skip
    inside = ["nsenter", f"--target={engine.keeper}", "--net", "--mount", "sh", "-c", DAEMON, f"{directory}/daemon.pid"]
    env = plain_environment() | {"CONTAINERS_CONF": f"{directory}/containers.conf"}
    (directory / "daemon.pid").unlink(missing_ok=True)
    with open(directory / "daemon.log", "a") as log:
        whole = ["setsid", "--fork", *inside, *command]
        subprocess.run(whole, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env=env, check=True)
    end = time.monotonic() + 30
    while not answers(engine):
        pid = daemon_pid(directory)
        if (pid and not is_running(pid)) or time.monotonic() > end:
            lines = (directory / "daemon.log").read_text(errors="replace").splitlines()
            raise CannotRunError(f"{engine.kind} does not start: {(lines or ['it says nothing'])[-1][:300]}")
        time.sleep(0.05)


def answers(engine: RealEngine) -> bool:
    """Asked by hand: a connection of the docker package that fails leaves its socket open."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        try:
            connection.connect(engine.url.removeprefix("unix://"))
            connection.sendall(b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n")
            return b" 200 " in connection.recv(64)
        except OSError:
            return False


def stop_daemon(engine: RealEngine, number: int = signal.SIGTERM, deadline_seconds: float = 30.0) -> None:
    """End the engine itself and wait; what becomes of its containers is its own affair."""
    pid = daemon_pid(engine.directory)
    assert pid is not None
    end_processes({pid}, number, deadline_seconds)


def import_image(engine: RealEngine) -> None:
    """Make the image, from busybox alone; no registry is needed."""
    changes = ["ENV PATH=/bin:/usr/bin", 'CMD ["/bin/sh"]']
    with closing(engine.api()) as api:
        parameters = {"fromSrc": "-", "repo": REPOSITORY, "tag": "1", "changes": changes}
        raw: Any = api
        url = raw._url("/images/create")
        answer = raw._post(url, data=box_archive(), params=parameters, headers={"Content-Type": "application/x-tar"})
        if answer.status_code >= 300 or '"error' in answer.text:
            raise CannotRunError(f"{engine.kind} cannot import an image: {answer.text[:300]}")
        # Podman 4.3 does not name what it imports.
        api.tag(json.loads(answer.text.splitlines()[-1])["status"].removeprefix("sha256:"), REPOSITORY, "1")


def box_archive() -> bytes:
    """A root directory with busybox and mount points for PYTHON_BINDS, as a tar file."""
    busybox = shutil.which("busybox", path=SEARCH)
    assert busybox is not None
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        for name in ("bin", "dev", "etc", "lib", "lib64", "proc", "sys", "tmp", "usr"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            archive.addfile(entry)
        program = Path(busybox).read_bytes()
        add_file(archive, "bin/busybox", program, 0o755)
        add_file(archive, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\n", 0o644)
        for applet in applets:
            if applet != "busybox":
                entry = tarfile.TarInfo(f"bin/{applet}")
                entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
                archive.addfile(entry)
    return held.getvalue()


def add_file(archive: tarfile.TarFile, name: str, data: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))


def stop(engine: RealEngine) -> None:
    """Remove the containers, end every process of the engine, remove its cgroups and its directory."""
    if answers(engine):
        with suppress(OSError), closing(engine.api()) as api:  # what requests raises is an OSError
            remove_all(api)
    stop_remains(engine.directory)


def remove_all(api: "APIClient") -> None:
    from docker.errors import APIError

    for row in api.containers(all=True):
        with suppress(APIError):
            api.remove_container(row["Id"], v=True, force=True)


def stop_remains(directory: Path) -> None:
    """End what belongs to an engine in this directory, also if the engine itself was killed."""
    for _ in range(10):
        if not (remaining := processes_of(directory)):
            break
        end_processes(remaining, signal.SIGKILL, 5.0)
    remove_cgroups(cgroup_parent_of(directory))
    if (directory / "containers.conf").exists():
        remove_cgroups("libpod_parent")  # of Podman; another one's that is in use stays
    shutil.rmtree(directory, ignore_errors=True)


def cgroup_parent_of(directory: Path) -> str:
    return directory.name.replace(PREFIX, "jobtop-test-")


def daemon_pid(directory: Path) -> int | None:
    try:
        return int((directory / "daemon.pid").read_text())
    except (OSError, ValueError):
        return None


def processes_of(directory: Path) -> set[int]:
    """The processes in the namespaces of an engine and their children, the containers.

    One that names the directory of the engine in its command line and is not in the namespace of this process shows
    which namespaces these are: the keeper, the engine, or what supervises a container.
    """
    own = os.readlink("/proc/self/ns/mnt")
    children: dict[int, list[int]] = {}
    spaces: dict[int, str] = {}
    named = set()
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        with suppress(OSError, IndexError):
            state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
            if state in "ZX":
                continue
            children.setdefault(int(parent), []).append(pid)
            spaces[pid] = os.readlink(f"/proc/{pid}/ns/mnt")
            if spaces[pid] != own and os.fsencode(directory) in Path(f"/proc/{pid}/cmdline").read_bytes():
                named.add(pid)
    theirs = {spaces[pid] for pid in named}
    found: set[int] = set()
    pending = [pid for pid, space in spaces.items() if space in theirs]
    while pending:
        pid = pending.pop()
        if pid not in found:
            found.add(pid)
            pending += children.get(pid, [])
    return found


def end_processes(pids: set[int], number: int, deadline_seconds: float) -> None:
    """Send a signal and wait until all have ended, or the deadline has passed."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    end = time.monotonic() + deadline_seconds
    while any(is_running(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def remove_cgroups(name: str) -> None:
    """Remove a cgroup and those in it from every hierarchy, after their processes; one in use stays."""
    for top in (Path("/sys/fs/cgroup") / name, *Path("/sys/fs/cgroup").glob(f"*/{name}")):
        for directory, _, _ in os.walk(top, topdown=False):
            with suppress(OSError):
                os.rmdir(directory)


def stop_stale() -> None:
    """Stop the engines that sessions left which were killed."""
    for directory in Path("/tmp").glob(f"{PREFIX}*"):
        with suppress(OSError):
            found = directory.stat()
            is_new = time.time() - found.st_mtime < NEW_SECONDS
            is_left = is_unused(directory) if (directory / "users").exists() else not is_new
            if found.st_uid == os.geteuid() and is_left:
                stop_remains(directory)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def hold(directory: Path) -> IO[str]:
    """Say that this process uses an engine; closing the file takes it back, and so does the end of the process."""
    users = directory / "users"
    if users.exists():
        file = open(users, "a")  # noqa: SIM115 - the caller closes it
        fcntl.flock(file, fcntl.LOCK_SH)
    else:  # no other process may see it before it is locked
        file = open(directory / "users.new", "a")  # noqa: SIM115
        fcntl.flock(file, fcntl.LOCK_SH)
        os.rename(directory / "users.new", users)
    return file


def is_unused(directory: Path, patience_seconds: float = 0.0) -> bool:
    """Whether no process uses an engine; with patience, since another may just ask the same question."""
    end = time.monotonic() + patience_seconds
    with open(directory / "users", "a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if time.monotonic() >= end:
                    return False
                time.sleep(0.01)


def read_json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except OSError:
        return {}
