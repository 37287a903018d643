"""The paths of jobtop's files; only `make_private_dir` creates anything.

`run` reads only names, which are text: importing pathlib would cost it 3 ms.
"""

import os
from collections.abc import Mapping

from jobtop.core.errors import StoreUnavailable
from jobtop.core.job_id import JobId
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

PROJECT_CONFIG = "jobtop.toml"


@record
class StateNames:
    """The names of one host's files in a state directory, which several hosts may share."""

    root: str
    host: str

    @property
    def store(self) -> str:
        """The history file of this host."""
        return self._below(f"{self.host}.db")

    @property
    def lock(self) -> str:
        """Locked by the process that creates, migrates or repairs the store."""
        return self._below(f"{self.host}.lock")

    @property
    def agent(self) -> str:
        """Locked by the agent of this host for as long as it runs."""
        return self._below(f"{self.host}.agent")

    @property
    def jobs(self) -> str:
        """One directory for each job, written by its shim."""
        return self._below("jobs")

    @property
    def specs(self) -> str:
        """The exact commands and environments that are needed to run jobs again."""
        return self._below("specs")

    @property
    def unrecorded(self) -> str:
        """The records of jobs that ran while the store could not be written."""
        return self._below("unrecorded")

    @property
    def log(self) -> str:
        """jobtop's own log."""
        return self._below("jobtop.log")

    def job(self, job_id: JobId) -> str:
        """The directory of one job: what its shim wrote, its output, the marks in its output."""
        return f"{self.jobs}/{job_id}"

    def spec(self, job_id: JobId) -> str:
        """The file that is needed to run one job again."""
        return f"{self.specs}/{job_id}.json"

    def late_record(self, job_id: JobId) -> str:
        """The record of one job that ran while the store could not be written."""
        return f"{self.unrecorded}/{job_id}.json"

    def _below(self, name: str) -> str:
        return os.path.join(self.root, name)


class StatePaths:
    """The same files as paths; `names` has them as text."""

    __slots__ = ("names",)

    def __init__(self, root: "str | Path", host: str) -> None:
        self.names = StateNames(os.fspath(root), host)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StatePaths) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"StatePaths({self.names.root!r}, {self.host!r})"

    @property
    def host(self) -> str:
        return self.names.host

    @property
    def root(self) -> "Path":
        return _path(self.names.root)

    @property
    def store(self) -> "Path":
        return _path(self.names.store)

    @property
    def lock(self) -> "Path":
        return _path(self.names.lock)

    @property
    def agent(self) -> "Path":
        return _path(self.names.agent)

    @property
    def jobs(self) -> "Path":
        return _path(self.names.jobs)

    @property
    def specs(self) -> "Path":
        return _path(self.names.specs)

    @property
    def unrecorded(self) -> "Path":
        return _path(self.names.unrecorded)

    @property
    def log(self) -> "Path":
        return _path(self.names.log)

    def job(self, job_id: JobId) -> "Path":
        return _path(self.names.job(job_id))

    def spec(self, job_id: JobId) -> "Path":
        return _path(self.names.spec(job_id))

    def late_record(self, job_id: JobId) -> "Path":
        return _path(self.names.late_record(job_id))


def state_dir(environ: Mapping[str, str]) -> str:
    """`$JOBTOP_HOME`, else `$XDG_STATE_HOME/jobtop`, else `~/.local/state/jobtop`; always absolute."""
    if chosen := environ.get("JOBTOP_HOME"):
        return absolute_path(chosen, "", environ)
    directory = _xdg_dir(environ, "XDG_STATE_HOME", ".local/state")
    if directory is None:
        raise StoreUnavailable("no home directory is known: set JOBTOP_HOME to where jobtop may keep its history")
    return os.path.join(directory, "jobtop")


def config_files(environ: Mapping[str, str], cwd: str, root: str = "/") -> tuple[str, ...]:
    """Return the paths of the configuration files, strongest first; `root` is where `etc` is."""
    user = _xdg_dir(environ, "XDG_CONFIG_HOME", ".config")
    users = () if user is None else (os.path.join(user, "jobtop/config.toml"),)
    return (os.path.join(cwd, PROJECT_CONFIG), *users, os.path.join(root, "etc/jobtop/config.toml"))


def absolute_path(path: str, base: str, environ: Mapping[str, str]) -> str:
    """Return the path that a user wrote: `~` is the home in `environ`, a relative path is below `base`."""
    home = _home(environ) if path == "~" or path.startswith("~/") else None
    return os.path.abspath(os.path.join(base, path if home is None else f"{home}{path[1:]}"))


def hostname(nodename: str | None = None) -> str:
    """Return the name of this host, safe as a file name."""
    name = os.uname().nodename if nodename is None else nodename
    return name.replace("/", "_").lstrip(".") or "localhost"


def make_private_dir(path: "str | Path") -> None:
    """Make `path` a directory; it and what is missing above it are created for this user only (0700)."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent and parent != path:
        make_private_dir(parent)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):  # another process may have made it just now
            raise


def _path(name: str) -> "Path":
    from pathlib import Path

    return Path(name)


def _xdg_dir(environ: Mapping[str, str], variable: str, below_home: str) -> str | None:
    # The XDG base directory specification: a relative path is invalid and must be ignored.
    chosen = environ.get(variable, "")
    if os.path.isabs(chosen):
        return chosen
    home = _home(environ)
    return None if home is None else os.path.join(home, below_home)


def _home(environ: Mapping[str, str]) -> str | None:
    if os.path.isabs(environ.get("HOME", "")):
        return environ["HOME"]
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return None
