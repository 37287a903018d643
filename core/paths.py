"""Where jobtop keeps things; nothing here creates anything unless asked by name."""

import os
from collections.abc import Mapping
from pathlib import Path

from jobtop.core.errors import StoreUnavailable
from jobtop.core.job_id import JobId
from jobtop.core.record import record

PROJECT_CONFIG = "jobtop.toml"


@record
class StatePaths:
    """The files of one host below one state directory, which many hosts may share."""

    root: Path
    host: str

    @property
    def store(self) -> Path:
        """The history of this host."""
        return self.root / f"{self.host}.db"

    @property
    def lock(self) -> Path:
        """What the writing host holds while it repairs its store."""
        return self.root / f"{self.host}.lock"

    @property
    def agent(self) -> Path:
        """What the agent of this host holds while it lives."""
        return self.root / f"{self.host}.agent"

    @property
    def jobs(self) -> Path:
        """What shims leave: a directory per job."""
        return self.root / "jobs"

    @property
    def specs(self) -> Path:
        """The exact commands and environments needed to run jobs again."""
        return self.root / "specs"

    @property
    def unrecorded(self) -> Path:
        """Records of jobs that ran while the store could not be written."""
        return self.root / "unrecorded"

    @property
    def log(self) -> Path:
        """jobtop's own log."""
        return self.root / "jobtop.log"

    def job(self, job_id: JobId) -> Path:
        """The directory of one job: evidence, output, marks."""
        return self.jobs / job_id

    def spec(self, job_id: JobId) -> Path:
        """The file that can run one job again."""
        return self.specs / f"{job_id}.json"

    def late_record(self, job_id: JobId) -> Path:
        """The record of one job that ran while the store could not be written."""
        return self.unrecorded / f"{job_id}.json"


def state_dir(environ: Mapping[str, str]) -> Path:
    """`$JOBTOP_HOME`, else `$XDG_STATE_HOME/jobtop`, else `~/.local/state/jobtop`; always absolute."""
    if chosen := environ.get("JOBTOP_HOME"):
        return absolute_path(chosen, Path(), environ)
    directory = _xdg_dir(environ, "XDG_STATE_HOME", ".local/state")
    if directory is None:
        raise StoreUnavailable("no home directory is known: set JOBTOP_HOME to where jobtop may keep its history")
    return directory / "jobtop"


def config_files(environ: Mapping[str, str], cwd: Path, root: Path = Path("/")) -> tuple[Path, ...]:
    """The configuration files that may exist, the strongest first; `root` is where `etc` is."""
    user = _xdg_dir(environ, "XDG_CONFIG_HOME", ".config")
    users = () if user is None else (user / "jobtop" / "config.toml",)
    return (cwd / PROJECT_CONFIG, *users, root / "etc" / "jobtop" / "config.toml")


def absolute_path(path: str, base: Path, environ: Mapping[str, str]) -> Path:
    """The path a user wrote: `~` is the home of `environ`, anything relative is below `base`."""
    home = _home(environ) if path == "~" or path.startswith("~/") else None
    return Path(os.path.abspath(base / (path if home is None else f"{home}{path[1:]}")))


def hostname(nodename: str | None = None) -> str:
    """The name of this host, safe as a file name."""
    name = os.uname().nodename if nodename is None else nodename
    return name.replace("/", "_").lstrip(".") or "localhost"


def make_private_dir(path: Path) -> Path:
    """`path` as a directory; it and what is missing above it are created for this user only (0700)."""
    for directory in reversed((path, *path.parents)):
        if not directory.is_dir():
            directory.mkdir(mode=0o700, exist_ok=True)
    return path


def _xdg_dir(environ: Mapping[str, str], variable: str, below_home: str) -> Path | None:
    # The XDG base directory specification: a relative path is invalid and must be ignored.
    chosen = Path(environ.get(variable, ""))
    if chosen.is_absolute():
        return chosen
    home = _home(environ)
    return None if home is None else home / below_home


def _home(environ: Mapping[str, str]) -> Path | None:
    if os.path.isabs(environ.get("HOME", "")):
        return Path(environ["HOME"])
    import pwd

    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return None
