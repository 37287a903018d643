"""Connections and transactions: the rules every reader and writer of the file keeps."""

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import count
from pathlib import Path

from jobtop.core.errors import (
    RowDamaged,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreForeign,
    StoreReplaced,
    StoreTooNew,
    StoreUnavailable,
)
from jobtop.core.paths import StatePaths, hostname
from jobtop.core.state_files import make_state_dirs, open_lock, refuse_link
from jobtop.store.schema import MIGRATIONS, TABLES, VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    Row = TypeVar("Row")
    Value = TypeVar("Value")

BUSY_SECONDS = 30.0
JOURNALS = ("-wal", "-shm")
JOURNAL_BYTES = 8 * 1024 * 1024
SMALL_JOURNAL_PAGES = 100
NETWORK_FILE_SYSTEMS = frozenset(
    "nfs nfs4 cifs smb3 smbfs lustre gpfs beegfs ceph fuse.sshfs fuse.glusterfs 9p afs pvfs2 orangefs fuse.ceph".split()
)

SERIALS = count(1)  # of connections: what one says of commits does not tell anything of another
BUSY, IOERR = 5, 10
WAL_BYTE, WAL_VERSION = 19, b"\x02"  # where the header of a database says what its readers have to know
MOST_FRAME = slice(16, 20)  # where the index of a WAL counts its pages (WalIndexHdr.mxFrame)
APPLICATION_ID = 0x6A6F6274  # "jobt"
MOST_VALUE_BYTES, MOST_SQL_BYTES = 64 * 1024 * 1024, 1024 * 1024
STEPS_BETWEEN_LOOKS, MOST_LOOKS = 1_000_000, 2000  # a table of 100,000 jobs is read in some 20 million steps
CORRUPT = 11
SETTING_ASIDE = "; the next call on its host checks it and sets it aside if so"
DAMAGED = (CORRUPT, 26)  # SQLite's primary result codes CORRUPT and NOTADB
# BUSY, INTERRUPT, READONLY, IOERR, FULL, CANTOPEN
REMEDIES = {
    BUSY: "another program holds it; try again",
    9: "it takes too long to read: is it damaged, or made to be slow?",
    8: "it is read-only; make it writable or set JOBTOP_HOME to a directory that is",
    10: "it cannot be read or written: the disk is full or failing",
    13: "the disk is full; make room and try again",
    14: "it cannot be opened; check the permissions of its directory or set JOBTOP_HOME",
}


class Database:
    """One open store, of a version when it was opened. Autocommit, explicit transactions, foreign keys on.

    `reopen` opens it once more: one that is written notices that its file was deleted or replaced.
    """

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        notice: str | None = None,
        version: int = VERSION,
        reopen: "Callable[[Database], Database] | None" = None,
        is_guarded: bool = False,
    ) -> None:
        self.path, self._connection, self.notice, self.version = path, connection, notice, version
        self._is_guarded = is_guarded
        self.serial = next(SERIALS)
        self._reopen = reopen
        self.files = files_of(path) if reopen is not None else (None, None)
        self.damaged: dict[str, None] = {}  # what is wrong with rows that could not be read
        connection.row_factory = sqlite3.Row
        connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        connection.execute("PRAGMA foreign_keys = ON")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One write transaction, begun IMMEDIATE: a deferred one fails instead of waiting. Inside one, part of it."""
        if self._connection.in_transaction:
            yield self._connection
            return
        if not self.is_in_place():
            self.renew()
            raise StoreReplaced(f"{self.path}: it was deleted or replaced while it was open; try again")
        with errors_named(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:  # a COMMIT that fails leaves the transaction open
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One short read transaction: everything in it is of one moment. Fetch whole, do not linger.

        Inside of a write transaction, part of that.
        """
        if self._connection.in_transaction:
            yield self._connection
            return
        with errors_named(self.path):
            if self._is_guarded:
                looks = count(1)
                self._connection.set_progress_handler(lambda: next(looks) > MOST_LOOKS, STEPS_BETWEEN_LOOKS)
            self._connection.execute("BEGIN")
            try:
                yield self._connection
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("COMMIT")

    @contextmanager
    def alone(self) -> Iterator[sqlite3.Connection]:
        """The connection outside of any transaction, for what cannot be done in one."""
        with errors_named(self.path):
            yield self._connection

    def keep_journal_small(self) -> None:
        """Move the journal into the store often."""
        with self.alone() as connection:
            connection.execute(f"PRAGMA wal_autocheckpoint = {SMALL_JOURNAL_PAGES}")

    def sound(self, rows: "Iterable[Row]", decode: "Callable[[Row], Value]") -> "list[Value]":
        """What rows stand for; one that is damaged is left out, and what is wrong with it is kept in `damaged`."""
        found = []
        for row in rows:
            try:
                found.append(decode(row))
            except RowDamaged as error:
                self.damaged[str(error)] = None
        return found

    def version_seen(self) -> tuple[object, ...]:
        """What changes with every commit of somebody else: nothing has happened while it is the same."""
        with errors_named(self.path):
            return self.serial, self._connection.execute("PRAGMA data_version").fetchone()[0]

    def damage(self) -> str | None:
        """How many rows were left out because they cannot be read, in words; None if all could."""
        if not self.damaged:
            return None
        rows, why = "1 row" if len(self.damaged) == 1 else f"{len(self.damaged)} rows", next(iter(self.damaged))
        return f"{rows} of {self.path} cannot be read ({why}); jobtop store check {self.path} names all"

    def check(self) -> int:
        """The version of what is in the file now; raises StoreTooNew and StoreForeign."""
        with errors_named(self.path):
            return _check_ours(self.path, self._connection)

    def is_in_place(self) -> bool:
        """Whether the path still leads to the files that are open; nothing but a file that is written is looked at."""
        return self._reopen is None or is_same(self.files, files_of(self.path))

    def renew(self) -> None:
        """Open the file that is there now, or a new one. What was known of the contents does not hold any more.

        The old connection is closed last: as the only one it would copy its WAL into the file.
        """
        assert self._reopen is not None
        fresh = self._reopen(self)
        before, self._connection = self._connection, fresh._connection
        self.files, self.notice, self.serial = fresh.files, fresh.notice, fresh.serial
        before.close()

    @property
    def patience_seconds(self) -> float:
        """How long to wait for other programs."""
        return float(self._connection.execute("PRAGMA busy_timeout").fetchone()[0]) / 1000

    def save_wal(self) -> None:
        """Copy what is only in our WAL into the file, if that WAL was removed and no other was written since."""
        (file, _), now = self.files, files_of(self.path)
        if file is None or now[0] != file or (now[1] is not None and os.path.getsize(wal_of(self.path)) > 0):
            return
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()

    def wait_for_others(self) -> None:
        """From now on there is time to wait for other programs."""
        with errors_named(self.path):
            self._connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")

    def close(self) -> None:
        self._connection.close()


def open_to_write(paths: StatePaths, network: bool | None = None, patience: float | None = None) -> Database:
    """The store of this host, made or migrated if need be; a damaged one is set aside, never thrown away."""
    try:
        make_state_dirs(paths.root)
        refuse_link(paths.store)
        if os.path.exists(_suspicion(paths.store)) or is_cut(paths.store):
            return open_repaired(paths, network)
        return _open_current(paths, network, patience)
    except OSError as error:
        raise StoreUnavailable(f"{paths.root}: {os.strerror(error.errno or 0)}") from error
    except StoreDamaged:
        return open_repaired(paths, network)


def open_repaired(paths: StatePaths, network: bool | None = None) -> Database:
    """The store after damage was met: if it fails its check it is set aside, a new one is begun, and that is said."""
    aside = repair(paths)
    database = _open_current(paths, network)
    if aside is not None:
        database.notice = f"{paths.store} was damaged: it is kept as {aside.name}, and a new history was begun"
    return database


def _open_again(old: Database, paths: StatePaths, network: bool | None) -> Database:
    """The store that takes the place of an open one, without what is left of that."""
    try:
        make_state_dirs(paths.root)
        with _lock(paths):
            file, wal = files_of(paths.store)
            old.save_wal()
            if file != old.files[0] and file is not None and wal is not None and wal == old.files[1]:
                remove_journals(paths.store)  # they are of the old file: SQLite would put its pages into the new one
            elif file == old.files[0] and not is_cut(paths.store):
                fresh = _open_current(paths, network, old.patience_seconds)
                with fresh.alone() as connection:
                    connection.execute(f"PRAGMA user_version = {VERSION}")  # from now on the new WAL is the true one
                return fresh
    except OSError as error:
        raise StoreUnavailable(f"{paths.root}: {os.strerror(error.errno or 0)}") from error
    return open_to_write(paths, network, old.patience_seconds)


def open_to_read(path: Path, patience: float | None = None) -> Database:
    """Any store, read-only; where not even a reader's lock can be had, as an unchanging file, saying so."""
    if not path.exists():
        raise StoreUnavailable(f"{path}: there is no such store")
    if not path.is_file():
        kind = "a directory: name a store in it, HOST.db" if path.is_dir() else "no file"
        raise StoreUnavailable(f"{path}: it is {kind}")
    if not os.access(path, os.R_OK):
        raise StoreUnavailable(f"{path}: it may not be read by this user")
    if is_cut(path):
        raise StoreDamaged(f"{path}: it was emptied while it was open{SETTING_ASIDE}")
    with errors_named(path):
        # In a directory or beside a file that cannot be written SQLite fails, or makes a WAL nobody can use later.
        if os.access(path, os.W_OK) or os.path.exists(f"{path}-wal") or not _has_wal(path):
            try:
                connection, version = _connect_checked(path, "mode=ro", patience)
                return Database(path, connection, version=version, is_guarded=True)
            except sqlite3.OperationalError as error:
                if _code(error) == BUSY or _has_lost_wal(path):
                    raise
        notice = f"{path} can only be read, as it was last closed: it or its directory is not writable"
        connection, version = _connect_checked(path, "mode=ro&immutable=1", patience)
        return Database(path, connection, notice, version, is_guarded=True)


def _has_wal(path: Path) -> bool:
    """Whether who reads the store needs a WAL; a rollback journal takes nothing but a lock."""
    with open(path, "rb") as file:
        return file.read(WAL_BYTE + 1)[WAL_BYTE:] == WAL_VERSION


def is_network(path: Path, mountinfo: str | None = None) -> bool:
    """Whether a path is on a file system that several machines share."""
    place = os.path.realpath(path)
    if mountinfo is not None:
        return _is_shared(place, mountinfo)
    return _is_network_directory(place if os.path.isdir(place) else os.path.dirname(place))


@lru_cache(maxsize=64)
def _is_network_directory(directory: str) -> bool:
    try:
        return _is_shared(directory, Path("/proc/self/mountinfo").read_text())
    except OSError:
        return False


def _is_shared(place: str, mountinfo: str) -> bool:
    """By the innermost mount; of two at one place the later hides the other."""
    best, kind, below = "", "", f"{place.rstrip('/')}/"
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        mount = before.split(" ", 5)[4].replace("\\040", " ")
        if len(mount) >= len(best) and below.startswith(f"{mount.rstrip('/')}/"):
            best, kind = mount, after.split(" ", 1)[0]
    return kind in NETWORK_FILE_SYSTEMS


Files = tuple[tuple[int, int] | None, int | None]


def files_of(path: Path) -> Files:
    """Which file a store is, and which its WAL is; None for one that is not there, or is empty."""
    try:
        found = os.stat(path)
    except OSError:
        return None, None
    try:
        wal = os.stat(wal_of(path)).st_ino
    except OSError:
        wal = None
    return ((found.st_dev, found.st_ino) if found.st_size else None), wal


def is_same(opened: Files, there: Files) -> bool:
    """Whether these are the files that were opened; a store with a rollback journal has no WAL, and may get one."""
    return opened[0] == there[0] and (opened[1] is None or opened[1] == there[1])


def wal_of(path: Path) -> str:
    return f"{path}-wal"


def is_cut(path: Path) -> bool:
    """Whether a store was emptied while it was open: a new one has its first page before it has a WAL."""
    try:
        return os.stat(path).st_size == 0 and any(os.path.exists(f"{path}{suffix}") for suffix in JOURNALS)
    except OSError:
        return False


def remove_journals(path: Path) -> None:
    """Remove the WAL of a file that is gone, and its index: they must not be taken for those of another file."""
    for suffix in JOURNALS:
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{suffix}")


def file_times(path: Path) -> tuple[tuple[int, int] | None, ...]:
    """When a store and its journals were written, and how long they are: what can be asked of a file elsewhere."""
    return tuple(_written(f"{path}{suffix}") for suffix in ("", "-wal", "-journal"))


def _written(name: str) -> tuple[int, int] | None:
    try:
        status = os.stat(name)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def store_uri(path: Path, options: str) -> str:
    """A file as SQLite is told to open it, whatever its name."""
    name = str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file:{name}?{options}"


@contextmanager
def errors_named(path: Path) -> Iterator[None]:
    """Turn what sqlite says into what a person can act on."""
    try:
        yield
    except sqlite3.Error as error:
        raise _named(path, error) from error


def _named(path: Path, error: sqlite3.Error) -> StoreError:
    code = _code(error)
    if code in DAMAGED:
        if code == CORRUPT:  # what is no database at all every writer notices, and may be no store
            _suspect(path)
        if code != CORRUPT:
            return StoreDamaged(f"{path}: it is damaged, or no store at all ({error})")
        return StoreDamaged(f"{path}: it is damaged ({error}){SETTING_ASIDE}")
    if code == IOERR and _has_lost_wal(path):
        return StoreBusy(f"{path}: its write-ahead log was removed while a program has it open; try again after that")
    kind = StoreBusy if code == BUSY else StoreUnavailable
    return kind(f"{path}: {REMEDIES.get(code, str(error))}")


def _has_lost_wal(path: Path) -> bool:
    """Whether pages of an open store are in a WAL that was removed: the index counts them, and the WAL is empty."""
    try:
        with open(f"{path}-shm", "rb") as index:
            pages = index.read(MOST_FRAME.stop)[MOST_FRAME]
        return any(pages) and os.path.getsize(wal_of(path)) == 0
    except OSError:
        return False


def _suspect(path: Path) -> None:
    """Mark a store of this host and user as damaged; in the directory of another user nothing is written."""
    with suppress(OSError):
        if path.stem == hostname() and os.stat(path.parent).st_uid == os.geteuid():
            os.close(os.open(_suspicion(path), os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def _suspicion(path: Path) -> str:
    """The mark that somebody met damage: whoever opens the store to write looks closely."""
    return f"{path}.suspect"


def _code(error: sqlite3.Error) -> int:
    # The low byte of an extended result code is the primary one.
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def _open_current(paths: StatePaths, network: bool | None, patience: float | None = None) -> Database:
    with errors_named(paths.store):
        if not paths.store.exists():
            _create(paths)
        # Asked before SQLite opens it: that would make a journal with the modes of a file that cannot be written.
        if not os.access(paths.store, os.W_OK):
            raise StoreUnavailable(f"{paths.store}: {REMEDIES[8]}")
        connection = _connect(paths.store, "mode=rw", patience)
        try:
            if _check_version(paths.store, connection) < VERSION:
                with _lock(paths):
                    _prepare(paths.store, connection, network)
            _choose_journal(paths.store, connection, network)
            connection.execute(f"PRAGMA journal_size_limit = {JOURNAL_BYTES}")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA trusted_schema = OFF")
        except BaseException:
            connection.close()
            raise
        return Database(paths.store, connection, reopen=lambda old: _open_again(old, paths, network))


def _create(paths: StatePaths) -> None:
    """An empty file, without the journals of one that was deleted."""
    with _lock(paths):
        if not paths.store.exists():
            remove_journals(paths.store)
            _make_empty(paths.store)


def _make_empty(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))


def _connect(path: Path, options: str, patience: float | None = None) -> sqlite3.Connection:
    uri = store_uri(path, options)
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS if patience is None else patience, isolation_level=None)


def _connect_checked(path: Path, options: str, patience: float | None) -> tuple[sqlite3.Connection, int]:
    connection = _connect(path, options, patience)
    try:
        _defend(connection)
        return connection, _check_ours(path, connection)
    except BaseException:
        connection.close()
        raise


def _defend(connection: sqlite3.Connection) -> None:
    """Let a file from elsewhere do as little as SQLite knows to prevent: no functions in its schema, bounded values."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_VALUE_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, MOST_SQL_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1)


def _check_ours(path: Path, connection: sqlite3.Connection) -> int:
    version = _check_version(path, connection)
    if _is_foreign(connection, version):
        raise StoreForeign(f"{path}: it is somebody else's database, no store of jobtop")
    if (wrong := _pretender(connection)) is not None:
        raise StoreForeign(f"{path}: {wrong}, which jobtop never makes; it is not read")
    return version


def _pretender(connection: sqlite3.Connection) -> str | None:
    """What has the name of one of our tables and is none: a view or a virtual table runs code that the file brings."""
    marks = ", ".join("?" * len(TABLES))
    rows = connection.execute(f"SELECT type, name, sql FROM sqlite_master WHERE lower(name) IN ({marks})", TABLES)
    for kind, name, sql in rows.fetchall():
        if kind != "table":
            return f"{name} is a {kind}"
        if str(sql).split()[:2] != ["CREATE", "TABLE"]:
            return f"{name} is a virtual table"
        hidden = connection.execute("SELECT count(*) FROM pragma_table_xinfo(?) WHERE hidden <> 0", (name,))
        if hidden.fetchone()[0]:
            return f"{name} has generated columns"
    return None


def _check_version(path: Path, connection: sqlite3.Connection) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        _check_origin(path, connection, version)
        raise StoreTooNew(
            f"{path}: written by a newer jobtop (version {version}, this one knows {VERSION}); upgrade jobtop"
        )
    return version


def _check_origin(path: Path, connection: sqlite3.Connection, version: int) -> None:
    if _is_foreign(connection, version):
        raise StoreForeign(f"{path}: it is somebody else's database; move it away or set JOBTOP_HOME")


def _prepare(path: Path, connection: sqlite3.Connection, network: bool | None) -> None:
    """Bring the file to today's version, step by step, all or nothing."""
    from jobtop.store.samples.head import add_columns

    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    _check_origin(path, connection, version)
    if version == 0:
        connection.execute("PRAGMA synchronous = OFF")  # 15 waits for the disk, and nothing in the file to lose yet
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    _choose_journal(path, connection, network)
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        for step in MIGRATIONS[version:]:
            for statement in filter(str.strip, step.split(";")):
                connection.execute(statement)
        add_columns(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _choose_journal(path: Path, connection: sqlite3.Connection, network: bool | None) -> None:
    """A rollback journal where machines share the file, for a WAL needs memory that they share too.

    A store that was moved, or whose setting changed, keeps what it has until somebody is alone with it.
    """
    shared = is_network(path) if network is None else network
    if (connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal") is not shared:
        return
    patience = connection.execute("PRAGMA busy_timeout").fetchone()[0]
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        connection.execute(f"PRAGMA journal_mode = {'DELETE' if shared else 'WAL'}")
    except sqlite3.OperationalError as error:
        if _code(error) != BUSY:
            raise
    finally:
        connection.execute(f"PRAGMA busy_timeout = {patience}")


def _is_foreign(connection: sqlite3.Connection, version: int) -> bool:
    """Whether the file is a database that never was ours: not empty, and without our mark or our tables."""
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if version == 0:
        return bool(tables)
    mark = connection.execute("PRAGMA application_id").fetchone()[0]
    return mark not in (0, APPLICATION_ID) or "log_marks" not in tables


@contextmanager
def _lock(paths: StatePaths) -> Iterator[None]:
    """What only one process of the writing host may do at a time. Released by the kernel, whatever happens to us."""
    fd = open_lock(paths.lock)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def repair(paths: StatePaths) -> Path | None:
    """Set aside a store that fails its check a second time, under the lock; its new name, None if it was sound."""
    with _lock(paths):
        with suppress(OSError):
            os.unlink(_suspicion(paths.store))
        if _is_sound(paths.store):
            return None
        stamp, number = time.strftime("%Y%m%dT%H%M%S"), 0
        aside = paths.store.with_name(f"{paths.store.name}.damaged-{stamp}")
        while aside.exists():
            number += 1
            aside = aside.with_name(f"{paths.store.name}.damaged-{stamp}-{number}")
        for suffix in ("", *JOURNALS):
            source = paths.store.with_name(paths.store.name + suffix)
            if source.exists():
                source.rename(aside.with_name(aside.name + suffix))
        _make_empty(paths.store)  # at once: others are about to open it
        return aside


def _is_sound(path: Path) -> bool:
    """Whether the file is whole, or at least not known to be damaged."""
    if not path.exists():
        return True
    if is_cut(path):
        return False
    try:
        connection = _connect(path, "mode=rw")
        try:
            return str(connection.execute("PRAGMA quick_check(1)").fetchone()[0]) == "ok"
        finally:
            connection.close()
    except sqlite3.Error as error:
        return _code(error) not in DAMAGED
