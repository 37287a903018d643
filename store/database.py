"""Connections and transactions: the rules that every reader and writer of a store keeps.

Every `run` imports this file. What few calls need is elsewhere: creation.py, origin.py and repair.py.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
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
from jobtop.core.state_files import make_state_dirs, open_lock, refuse_link
from jobtop.store.files import (
    files_of,
    has_lost_wal,
    has_wal,
    is_cut,
    is_network,
    is_same,
    mark_suspect,
    suspicion,
    wal_of,
)
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
JOURNAL_BYTES = 8 * 1024 * 1024
JOURNAL_PAGES, SMALL_JOURNAL_PAGES = 500, 100  # in the WAL, before a commit copies them: 3 ms for 500
SERIALS = count(1)  # of connections: the version of one says nothing about another
BUSY, IOERR = 5, 10
APPLICATION_ID = 0x6A6F6274  # "jobt"
STEPS_BETWEEN_LOOKS, MOST_LOOKS = 1_000_000, 2000  # a table of 100,000 jobs is read in some 20 million steps
CORRUPT = 11
SETTING_ASIDE = "; the next call on its host checks it and renames it if so"
DAMAGED = (CORRUPT, 26)  # SQLite's primary result codes CORRUPT and NOTADB
TOO_BIG = 18  # a value above the limit of this connection
# BUSY, NOMEM, INTERRUPT, READONLY, IOERR, FULL, CANTOPEN, PROTOCOL
REMEDIES = {
    BUSY: "another program has locked it; try again",
    7: "there is not enough memory to read it; end other programs",
    9: "it takes too long to read: is it damaged, or made to be slow?",
    8: "it is read-only; make it writable or set JOBTOP_HOME to a directory that is",
    10: "it cannot be read or written: the disk is full or failing",
    13: "the disk is full; make room and try again",
    14: "it cannot be opened; check the permissions of its directory or set JOBTOP_HOME",
    15: "locks do not work in its directory; set JOBTOP_HOME to a directory on a local disk",
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
        """One write transaction, or a part of the one that is open.

        It begins IMMEDIATE: a deferred one fails instead of waiting.
        """
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
        """One read transaction, or a part of the one that is open: every read in it sees the same state.

        Keep it short, and fetch all rows in it: an open read transaction keeps the WAL from being emptied.
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
        """The connection outside of any transaction, for statements that cannot run in one."""
        with errors_named(self.file):
            yield self._connection

    def keep_journal_small(self) -> None:
        """Copy the WAL into the store often, so that it stays small."""
        with self.alone() as connection:
            connection.execute(f"PRAGMA wal_autocheckpoint = {SMALL_JOURNAL_PAGES}")

    def decode_rows(self, rows: Iterable[Row], decode: Callable[[Row], Value]) -> list[Value]:
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
        raise StoreUnavailable(f"{file}: this user may not read it")
    if is_cut(file):
        raise StoreDamaged(f"{file}: it was emptied while it was open{SETTING_ASIDE}")
    with errors_named(file):
        # In a directory or beside a file that cannot be written SQLite fails, or makes a WAL that no process can use.
        if os.access(file, os.W_OK) or os.path.exists(wal_of(file)) or not has_wal(file):
            try:
                connection, version = _connect_checked(file, "mode=ro", patience)
                return Database(file, connection, version=version, is_guarded=True)
            except sqlite3.OperationalError as error:
                if error_code(error) == BUSY or has_lost_wal(file):
                    raise
        notice = f"{file} is read as it was last closed, because it or its directory is not writable"
        connection, version = _connect_checked(file, "mode=ro&immutable=1", patience)
        return Database(file, connection, notice, version, is_guarded=True)


def open_current(paths: StatePaths, network: bool | None, patience: float | None = None) -> Database:
    """The store of this host at today's version; StoreDamaged for one that is damaged.

    Another process may rename a damaged store just now: then there is no file for a moment.
    """
    before = _inode(paths.names.store)
    try:
        return open_once(paths, network, patience)
    except StoreUnavailable:
        if not _is_replaced(paths.names, before):
            raise
    return open_once(paths, network, patience)


def _inode(file: str) -> int | None:
    try:
        return os.stat(file).st_ino
    except OSError:
        return None


def _is_replaced(names: StateNames, before: int | None) -> bool:
    """Whether there is another file now; waits until a process that renames it has made the new one."""
    try:
        with locked(names):
            return _inode(names.store) != before
    except OSError:  # it cannot be locked, so it cannot be repaired
        return False


def open_once(paths: StatePaths, network: bool | None, patience: float | None = None) -> Database:
    """The same without a second try, for a caller that may hold the lock of the store."""
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
            connection.execute(f"PRAGMA wal_autocheckpoint = {JOURNAL_PAGES}")
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
            mark_suspect(path)
        if code != CORRUPT:
            return StoreDamaged(f"{path}: it is damaged, or not a store ({error})")
        return StoreDamaged(f"{path}: it is damaged ({error}){SETTING_ASIDE}")
    if code == IOERR and has_lost_wal(path):
        return StoreBusy(f"{path}: its write-ahead log was removed while a program has it open; try again after that")
    kind = StoreBusy if code == BUSY else StoreUnavailable
    if code in REMEDIES:
        return kind(f"{path}: {REMEDIES[code]}")
    why = "a value in it is too large to be read" if code == TOO_BIG else f"it cannot be used (SQLite: {error})"
    return StoreUnavailable(f"{path}: {why}; jobtop store check {path} names what is wrong")


def error_code(error: sqlite3.Error) -> int:
    # The low byte of an extended result code is the primary one.
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
