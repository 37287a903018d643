"""Fixtures: a clean home, a jobtop to call in it, the same as an unprivileged user, and the real components."""

import gc
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from endpoints import MailServer, WebEndpoint, mail_server, web_endpoint
from machines import Machine
from order import in_turns

import unprivileged as unprivileged_user
from engines import CannotRunError, RealEngine, shared_engine
from jobtop.core.doctor.checks import MachineFiles
from jobtop.core.paths import StatePaths
from jobtop.lifecycle.queue import Queue
from jobtop.store.database import Database, open_to_write
from jobtop.store.jobs import Jobs
from records import HERE
from support import ALONE, ROOT, Jobtop, clean_environment, require


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Several workers begin with the slow modules."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items[:] = in_turns(items)


def pytest_collection_finish() -> None:
    """Tests stay until the end: the garbage collector need not look at them again."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def default_signals() -> None:
    """Under nohup or in the background of a script some are ignored, and every job of a test would inherit that."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@pytest.fixture(autouse=True, scope="session")
def jobs_are_alone() -> None:
    """Those too that a test starts in its own process: their agents leave with them."""
    os.environ |= ALONE


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """$JOBTOP_HOME, empty and not yet made, in an environment without settings."""
    environment = clean_environment(tmp_path)
    for key in os.environ.keys() - environment.keys() - {"PYTEST_CURRENT_TEST"}:
        monkeypatch.delenv(key)
    monkeypatch.setenv("HOME", environment["HOME"])
    monkeypatch.setenv("JOBTOP_HOME", environment["JOBTOP_HOME"])
    return Path(environment["JOBTOP_HOME"])


@pytest.fixture
def paths(home: Path) -> StatePaths:
    """The files of this host in $JOBTOP_HOME; none exists yet."""
    return StatePaths(home, HERE)


@pytest.fixture
def database(paths: StatePaths) -> Iterator[Database]:
    """The store of this host in $JOBTOP_HOME, empty."""
    with closing(open_to_write(paths)) as database:
        yield database


@pytest.fixture
def jobs(database: Database) -> Jobs:
    """The jobs of that store."""
    return Jobs(database)


@pytest.fixture
def queue(jobs: Jobs, paths: StatePaths) -> Queue:
    """The queue of that store."""
    return Queue(jobs, paths)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine without configuration files, to load configuration on."""
    return Machine(tmp_path)


@pytest.fixture
def machine_files(tmp_path: Path) -> MachineFiles:
    """A machine with its files below a directory, and a user without privileges on it."""
    return MachineFiles(str(tmp_path / "machine"), 1000, "ada", "linux", (1000, 27))


@pytest.fixture
def jobtop(tmp_path: Path) -> Jobtop:
    """jobtop as whoever runs the tests, with a home of its own: `jobtop("run", "--", "true").returncode`."""
    return Jobtop(sys.executable, tmp_path, clean_environment(tmp_path))


@pytest.fixture(scope="session")
def unprivileged_installation() -> Iterator[unprivileged_user.Installation]:
    """The copy behind `unprivileged`, made once."""
    with unprivileged_user.installation() as installation:
        yield installation


@pytest.fixture
def unprivileged(unprivileged_installation: unprivileged_user.Installation) -> Jobtop:
    """jobtop as a user without privileges, with a home of its own; called like the fixture `jobtop`."""
    return unprivileged_installation.new_home()


@pytest.fixture(scope="session")
def root() -> None:
    """For tests that need root."""
    if os.geteuid() != 0:
        require("root", "the tests do not run as root")


@pytest.fixture(scope="session")
def uml_kernel() -> Path:
    """A user-mode Linux kernel, which gives a machine with a pure cgroup v2 tree."""
    unpacked = ROOT / "build/uml/usr/bin/linux.uml"
    found = str(unpacked) if unpacked.exists() else shutil.which("linux.uml")
    if found is None:
        require("uml", "linux.uml is neither in build/uml nor installed (Debian: user-mode-linux)")
    return Path(found)


@pytest.fixture(scope="session")
def engine_session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that all workers of this session share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def docker_engine(engine_session: Path) -> Iterator[RealEngine]:
    """A real Docker engine with the image `engines.IMAGE`: `jobtop("containers", env=docker_engine.env)`."""
    yield from use_engine("docker", engine_session)


@pytest.fixture(scope="session")
def podman_engine(engine_session: Path) -> Iterator[RealEngine]:
    """The same of Podman."""
    yield from use_engine("podman", engine_session)


def use_engine(kind: str, session: Path) -> Iterator[RealEngine]:
    with ExitStack() as stack:
        try:
            engine = stack.enter_context(shared_engine(kind, session))
        except CannotRunError as error:
            require(kind, str(error))
        yield engine


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of tests are reached directly."""
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def web(no_proxy: None) -> Iterator[WebEndpoint]:
    """A real HTTP server that accepts messages."""
    with web_endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def mail() -> Iterator[MailServer]:
    """A real SMTP server that accepts mails."""
    with mail_server() as server:
        yield server
