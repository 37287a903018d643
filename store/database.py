"""Connections and transactions: the rules that every reader and writer of a store keeps.

Every `run` imports this file. What few calls need is elsewhere: creation.py, origin.py and repair.py.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import count

from jobtop.core.errors import (
    RowDamaged,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreReplaced,
    StoreTooNew,
    StoreUnavailable,
)
from jobtop.core.paths import hostname
from jobtop.core.state_files import make_state_dirs, open_lock, refuse_link
from jobtop.store.schema import VERSION, has_tables_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from typing import TypeVar

    from jobtop.core.paths import StateNames, StatePaths

    Name = str | Path
    Row = TypeVar("Row")
    Value = TypeVar("Value")
else:
    try:
        import _sqlite3 as sqlite3  # without the public module, which imports datetime: 1.5 ms
    except ImportError:  # it is private, and another Python may not have it
        import sqlite3

BUSY_SECONDS = 30.0
JOURNALS = ("-wal", "-shm")
JOURNAL_BYTES = 8 * 1024 * 1024
SMALL_JOURNAL_PAGES = 100
NETWORK_FILE_SYSTEMS = frozenset(
    "nfs nfs4 cifs smb3 smbfs lustre gpfs beegfs ceph fuse.sshfs fuse.glusterfs 9p afs pvfs2 orangefs fuse.ceph".split()
)

SERIALS = count(1)  # of connections: the version of one says nothing about another
BUSY, IOERR = 5, 10
WAL_BYTE, WAL_VERSION = 19, b"\x02"  # where the header of a database says that it has a WAL
MOST_FRAME = slice(16, 20)  # where the index of a WAL counts its pages (WalIndexHdr.mxFrame)
APPLICATION_ID = 0x6A6F6274  # "jobt"
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

    `reopen` opens it once more: a writer notices that its file was deleted or replaced.
    """

    def __init__(
        self,
        file: Name,
        connection: sqlite3.Connection,
        notice: str | None = None,
        version: int = VERSION,
        reopen: Callable[[Database], Database] | None = None,
        is_guarded: bool = False,
    ) -> None:
        self.file, self._connection, self.notice, self.version = os.fspath(file), connection, notice, version
        self._is_guarded = is_guarded
        self.serial = next(SERIALS)
        self._reopen = reopen
        self.files = files_of(self.file) if reopen is not None else (None, None)
        self.damaged: dict[str, None] = {}  # what is wrong with rows that could not be read
        connection.row_factory = sqlite3.Row
        connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        connection.execute("PRAGMA foreign_keys = ON")

    @property
    def path(self) -> Path:
        from pathlib import Path

        return Path(self.file)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One write transaction, begun IMMEDIATE: a deferred one fails instead of waiting. Inside one, part of it."""
        if self._connection.in_transaction:
            yield self._connection
            return
        if not self.is_in_place():
            self.renew()
            raise StoreReplaced(f"{self.file}: it was deleted or replaced while it was open; try again")
        with errors_named(self.file):
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
        with errors_named(self.file):
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
        with errors_named(self.file):
            yield self._connection

    def keep_journal_small(self) -> None:
        """Move the journal into the store often."""
        with self.alone() as connection:
            connection.execute(f"PRAGMA wal_autocheckpoint = {SMALL_JOURNAL_PAGES}")

    def sound(self, rows: Iterable[Row], decode: Callable[[Row], Value]) -> list[Value]:
        """The decoded rows; a damaged one is left out, and what is wrong with it is kept in `damaged`."""
        found = []
        for row in rows:
            try:
                found.append(decode(row))
            except RowDamaged as error:
                self.damaged[str(error)] = None
        return found

    def version_seen(self) -> tuple[object, ...]:
        """A value that changes with every commit of another connection."""
        with errors_named(self.file):
            return self.serial, self._connection.execute("PRAGMA data_version").fetchone()[0]

    def damage(self) -> str | None:
        """How many rows were left out because they cannot be read, as a sentence; None if all could be read."""
        if not self.damaged:
            return None
        rows, why = "1 row" if len(self.damaged) == 1 else f"{len(self.damaged)} rows", next(iter(self.damaged))
        return f"{rows} of {self.file} cannot be read ({why}); jobtop store check {self.file} names all"

    def check(self) -> int:
        """The version of what is in the file now; raises StoreTooNew and StoreForeign."""
        with errors_named(self.file):
            from jobtop.store.origin import check_ours

            return check_ours(self.file, self._connection)

    def has_tables_of(self, version: int) -> bool:
        """Whether the store is of at least this version; a store that was opened only to be read may be older."""
        with self.reading() as connection:
            return has_tables_of(connection, version)

    def is_in_place(self) -> bool:
        """Whether the path still leads to the files that are open; always true for a store that is only read."""
        return self._reopen is None or is_same(self.files, files_of(self.file))

    def renew(self) -> None:
        """Open the file that is there now, or a new one. What was known of the contents is no longer true.

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
        (file, _), now = self.files, files_of(self.file)
        if file is None or now[0] != file or (now[1] is not None and os.path.getsize(wal_of(self.file)) > 0):
            return
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()

    def wait_for_others(self) -> None:
        """Wait longer for other programs from now on."""
        with errors_named(self.file):
            self._connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")

    def close(self) -> None:
        self._connection.close()


def open_to_write(paths: StatePaths, network: bool | None = None, patience: float | None = None) -> Database:
    """The store of this host, created or migrated if necessary; a damaged one is renamed, never deleted."""
    names = paths.names
    try:
        make_state_dirs(names.root)
        refuse_link(names.store)
        if not os.path.exists(suspicion(names.store)) and not is_cut(names.store):
            return open_current(paths, network, patience)
    except OSError as error:
        raise StoreUnavailable(f"{names.root}: {os.strerror(error.errno or 0)}") from error
    except StoreDamaged:
        pass
    from jobtop.store.repair import open_repaired

    try:
        return open_repaired(paths, network)
    except OSError as error:
        raise StoreUnavailable(f"{names.root}: {os.strerror(error.errno or 0)}") from error


def open_to_read(path: Name, patience: float | None = None) -> Database:
    """Any store, read-only; where a reader can get no lock, as a file that does not change, with a notice."""
    file = os.fspath(path)
    if not os.path.exists(file):
        raise StoreUnavailable(f"{file}: there is no such store")
    if not os.path.isfile(file):
        kind = "a directory: name a store in it, HOST.db" if os.path.isdir(file) else "no file"
        raise StoreUnavailable(f"{file}: it is {kind}")
    if not os.access(file, os.R_OK):
        raise StoreUnavailable(f"{file}: it may not be read by this user")
    if is_cut(file):
        raise StoreDamaged(f"{file}: it was emptied while it was open{SETTING_ASIDE}")
    with errors_named(file):
        # In a directory or beside a file that cannot be written SQLite fails, or makes a WAL that no process can use.
        if os.access(file, os.W_OK) or os.path.exists(wal_of(file)) or not _has_wal(file):
            try:
                connection, version = _connect_checked(file, "mode=ro", patience)
                return Database(file, connection, version=version, is_guarded=True)
            except sqlite3.OperationalError as error:
                if error_code(error) == BUSY or _has_lost_wal(file):
                    raise
        notice = f"{file} can only be read, as it was last closed: it or its directory is not writable"
        connection, version = _connect_checked(file, "mode=ro&immutable=1", patience)
        return Database(file, connection, notice, version, is_guarded=True)


def open_current(paths: StatePaths, network: bool | None, patience: float | None = None) -> Database:
    """The store of this host at today's version; StoreDamaged for one that is damaged."""
    names, file = paths.names, paths.names.store
    with errors_named(file):
        if not os.path.exists(file):
            from jobtop.store.creation import create

            create(names)
        # Asked before SQLite opens it: that would make a journal with the modes of a file that cannot be written.
        if not os.access(file, os.W_OK):
            raise StoreUnavailable(f"{file}: {REMEDIES[8]}")
        connection = connect(file, "mode=rw", patience)
        try:
            if check_version(file, connection) < VERSION:
                from jobtop.store.creation import prepare

                with locked(names):
                    prepare(file, connection, network)
            choose_journal(file, connection, network)
            connection.execute(f"PRAGMA journal_size_limit = {JOURNAL_BYTES}")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA trusted_schema = OFF")
        except BaseException:
            connection.close()
            raise
        return Database(file, connection, reopen=lambda old: _opened_again(old, paths, network))


def _opened_again(old: Database, paths: StatePaths, network: bool | None) -> Database:
    from jobtop.store.repair import open_again

    return open_again(old, paths, network)


def connect(file: str, options: str, patience: float | None = None) -> sqlite3.Connection:
    uri = store_uri(file, options)
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS if patience is None else patience, isolation_level=None)


def _connect_checked(file: str, options: str, patience: float | None) -> tuple[sqlite3.Connection, int]:
    from jobtop.store.origin import check_ours, defend

    connection = connect(file, options, patience)
    try:
        defend(connection)
        return connection, check_ours(file, connection)
    except BaseException:
        connection.close()
        raise


def check_version(file: str, connection: sqlite3.Connection) -> int:
    """The version of the file; StoreTooNew for one that only a newer jobtop knows, StoreForeign for no store."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        from jobtop.store.origin import check_origin

        check_origin(file, connection, version)
        raise StoreTooNew(
            f"{file}: written by a newer jobtop (version {version}, this one knows {VERSION}); upgrade jobtop"
        )
    return version


def choose_journal(file: str, connection: sqlite3.Connection, network: bool | None) -> None:
    """Use a rollback journal where machines share the file, since a WAL needs memory that they share too.

    A store that was moved, or with a changed setting, keeps its journal until no other connection uses it.
    """
    shared = is_network(file) if network is None else network
    if (connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal") is not shared:
        return
    patience = connection.execute("PRAGMA busy_timeout").fetchone()[0]
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        connection.execute(f"PRAGMA journal_mode = {'DELETE' if shared else 'WAL'}")
    except sqlite3.OperationalError as error:
        if error_code(error) != BUSY:
            raise
    finally:
        connection.execute(f"PRAGMA busy_timeout = {patience}")


@contextmanager
def locked(names: StateNames) -> Iterator[None]:
    """Hold the lock for what only one process of the host may do at a time. The kernel releases it in any case."""
    fd = open_lock(names.lock)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _has_wal(file: str) -> bool:
    """Whether a reader of the store needs a WAL; a rollback journal needs nothing but a lock."""
    with open(file, "rb") as content:
        return content.read(WAL_BYTE + 1)[WAL_BYTE:] == WAL_VERSION


def is_network(path: Name, mountinfo: str | None = None) -> bool:
    """Whether a path is on a file system that several machines share."""
    place = os.path.realpath(path)
    if mountinfo is not None:
        return _is_shared(place, mountinfo)
    return _is_network_directory(place if os.path.isdir(place) else os.path.dirname(place))


@lru_cache(maxsize=64)
def _is_network_directory(directory: str) -> bool:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            return _is_shared(directory, file.read())
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


def files_of(path: Name) -> Files:
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


def wal_of(path: Name) -> str:
    return f"{path}-wal"


def is_cut(path: Name) -> bool:
    """Whether a store was emptied while it was open: a new one has its first page before it has a WAL."""
    try:
        return os.stat(path).st_size == 0 and any(os.path.exists(f"{path}{suffix}") for suffix in JOURNALS)
    except OSError:
        return False


def remove_journals(path: Name) -> None:
    """Remove the WAL of a deleted file, and its index: SQLite must not use them with another file."""
    for suffix in JOURNALS:
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{suffix}")


def file_times(path: Name) -> tuple[tuple[int, int] | None, ...]:
    """When a store and its journals were last written, and their sizes; None for a file that is not there."""
    return tuple(_written(f"{path}{suffix}") for suffix in ("", "-wal", "-journal"))


def _written(name: str) -> tuple[int, int] | None:
    try:
        status = os.stat(name)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def store_uri(path: Name, options: str) -> str:
    """The URI that makes SQLite open a file, for any name."""
    name = str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file:{name}?{options}"


@contextmanager
def errors_named(path: Name) -> Iterator[None]:
    """Turn errors of SQLite into errors that name the file and the remedy."""
    try:
        yield
    except sqlite3.Error as error:
        raise _named(path, error) from error


def _named(path: Name, error: sqlite3.Error) -> StoreError:
    code = error_code(error)
    if code in DAMAGED:
        if code == CORRUPT:  # any writer notices a file that is no database, and it may be no store
            _suspect(path)
        if code != CORRUPT:
            return StoreDamaged(f"{path}: it is damaged, or no store at all ({error})")
        return StoreDamaged(f"{path}: it is damaged ({error}){SETTING_ASIDE}")
    if code == IOERR and _has_lost_wal(path):
        return StoreBusy(f"{path}: its write-ahead log was removed while a program has it open; try again after that")
    kind = StoreBusy if code == BUSY else StoreUnavailable
    return kind(f"{path}: {REMEDIES.get(code, str(error))}")


def _has_lost_wal(path: Name) -> bool:
    """Whether pages of an open store are in a WAL that was removed: the index counts them, and the WAL is empty."""
    try:
        with open(f"{path}-shm", "rb") as index:
            pages = index.read(MOST_FRAME.stop)[MOST_FRAME]
        return any(pages) and os.path.getsize(wal_of(path)) == 0
    except OSError:
        return False


def _suspect(path: Name) -> None:
    """Mark a store of this host and user as damaged; in the directory of another user nothing is written."""
    with suppress(OSError):
        directory, name = os.path.split(path)
        if name == f"{hostname()}.db" and os.stat(directory or ".").st_uid == os.geteuid():
            os.close(os.open(suspicion(path), os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def suspicion(path: Name) -> str:
    """The file that marks a store as damaged: it is checked when it is next opened to be written."""
    return f"{path}.suspect"


def error_code(error: sqlite3.Error) -> int:
    # The low byte of an extended result code is the primary one.
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
