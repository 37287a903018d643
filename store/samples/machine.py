"""The host of a store and its devices over the time of several boots, by the clock on the wall."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from jobtop.core.measure.device import Device
from jobtop.core.metrics import DEVICE_SCOPES, Scope, columns
from jobtop.core.model import Sample
from jobtop.core.record import record, replace
from jobtop.store.database import Database
from jobtop.store.rows import is_number
from jobtop.store.samples import head
from jobtop.store.samples.head import DEVICES, HOSTS
from jobtop.store.samples.joined import Number, Series
from jobtop.store.samples.series import News, SeriesStore, samples_in
from jobtop.store.schema import has_tables_of

KIND_ORDER = {scope.value: place for place, scope in enumerate(DEVICE_SCOPES)}


@record
class BootPart:
    """The number of an owner in its store during one boot; `boot_time` is in seconds since the epoch."""

    seq: int
    boot_time: float


@record
class Owner:
    """The host, or one of its devices, which has the same name in every boot."""

    host: str
    device: Device | None
    parts: tuple[BootPart, ...]

    @property
    def scope(self) -> Scope | None:
        """Its row in the catalogue; None for a kind of device that a newer version of jobtop stored."""
        if self.device is None:
            return Scope.HOST
        return Scope(self.device.kind) if self.device.kind in KIND_ORDER else None

    @property
    def keys(self) -> tuple[str, ...]:
        return DEVICES.keys if self.scope is None else columns(self.scope)


class MachineRecord:
    """Reads the samples of the host of one store and of its devices."""

    def __init__(self, database: Database) -> None:
        self.database, self.host = database, database.path.stem
        self._hosts, self._devices = SeriesStore(database, HOSTS), SeriesStore(database, DEVICES)

    def owners(self) -> list[Owner]:
        """The host first, then its devices by kind and name; then other hosts, if their stores were merged into it."""
        found: dict[tuple[str, Device | None], list[BootPart]] = {}
        with self.database.reading() as connection:
            if not has_tables_of(connection, HOSTS.since_version):
                return []
            has_names = any(row["name"] == "name" for row in connection.execute("PRAGMA table_info(hosts)"))
            boots = f"SELECT seq AS boot_seq, boot_time, {'name' if has_names else 'NULL'} AS host FROM hosts"
            rows = connection.execute(f"SELECT boot_seq, boot_time, host, NULL, NULL FROM ({boots})").fetchall()
            if has_tables_of(connection, DEVICES.since_version):
                sql = f"SELECT seq, boot_time, host, kind, name FROM devices JOIN ({boots}) ON boot_seq = host_seq"
                rows += connection.execute(sql).fetchall()
        for seq, boot_time, host, kind, name in rows:
            if is_number(boot_time) and type(kind) is type(name):
                device = Device(kind, name) if isinstance(kind, str) else None
                owner = host if isinstance(host, str) else self.host, device
                found.setdefault(owner, []).append(BootPart(seq, boot_time))
        owners = (
            Owner(host, device, tuple(sorted(parts, key=lambda part: part.boot_time)))
            for (host, device), parts in found.items()
        )
        return sorted(owners, key=lambda owner: (owner.host != self.host, owner.host, device_order(owner.device)))

    def samples(self, owner: Owner, start: float, end: float | None = None) -> Iterator[tuple[BootPart, News]]:
        """The samples between two times of each boot, and the last one before them, from which rates are made."""
        store, keys = self._store(owner), owner.keys
        for part, (begin, stop) in _windows(owner, start, end):
            packed, rows = store.read(part.seq, keys, begin, stop)
            samples: list[Sample] = []
            damaged, cursor = 0, None
            for count, data in packed:
                block = samples_in(data, keys)
                damaged += count if block is None else 0
                samples += [sample for _, sample in block or ()]
                cursor = block[-1][0] if block else cursor
            samples += [sample for _, sample in rows]
            before = sum(sample.elapsed < begin for sample in samples)
            chosen = [sample for sample in samples[max(0, before - 1) :] if stop is None or sample.elapsed <= stop]
            yield part, News(chosen, rows[-1][0] if rows else cursor, damaged)

    def follow(self, owner: Owner, part: BootPart, cursor: int | None) -> News:
        """The samples of a boot after a cursor, each once."""
        store, keys = self._store(owner), owner.keys
        news = store.follow(part.seq, cursor)
        chosen = [store.layout.keys.index(key) for key in keys]
        samples = [replace(sample, values=tuple(sample.values[place] for place in chosen)) for sample in news.samples]
        return News(samples, news.cursor, news.damaged)

    def series(self, owner: Owner, keys: Sequence[str], start: float, end: float | None = None) -> Series:
        """Values between two times, by seconds since the epoch; absent values separate two boots."""
        times: list[float] = []
        columns_: dict[str, list[Number | None]] = {key: [] for key in keys}
        damaged, store = 0, self._store(owner)
        for part, (begin, stop) in _windows(owner, start, end):
            found = store.series(part.seq, keys, begin, stop)
            damaged += found.damaged
            if not found.times:
                continue
            if times:
                times.append(part.boot_time + found.times[0])
                for key in keys:
                    columns_[key].append(None)
            times += [part.boot_time + elapsed for elapsed in found.times]
            for key in keys:
                columns_[key] += found.values[key]
        return Series(times, columns_, damaged)

    def last_id(self, owner: Owner) -> int:
        """The cursor of a follower that wants only what is stored after this call."""
        with self.database.reading() as connection:
            return head.last_id(connection, self._store(owner).layout)

    def newest_at(self) -> float | None:
        """When the newest sample of the host was taken, in seconds since the epoch."""
        owner = next((owner for owner in self.owners() if owner.device is None), None)
        for part in reversed(owner.parts if owner is not None else ()):
            if newest := self._hosts.newest(part.seq, 1, keys=("load.1",)):
                return part.boot_time + newest[-1].elapsed
        return None

    def recorded_spans(self, owner: Owner) -> Iterator[tuple[float, float]]:
        """The times with samples of an owner, in seconds since the epoch; they may overlap."""
        layout = self._store(owner).layout
        statements = (
            f"SELECT first_elapsed, last_elapsed FROM {layout.blocks} WHERE {layout.owner} = ?",
            f"SELECT min(elapsed), max(elapsed) FROM {layout.head} WHERE {layout.owner} = ?",
        )
        with self.database.reading() as connection:
            for part in owner.parts:
                rows = [row for sql in statements for row in connection.execute(sql, (part.seq,))]
                yield from ((part.boot_time + a, part.boot_time + b) for a, b in rows if is_number(a) and is_number(b))

    def oldest_at(self, owner: Owner) -> float | None:
        """When the oldest sample of an owner that is left was taken, in seconds since the epoch."""
        layout = self._store(owner).layout
        with self.database.reading() as connection:
            for part in owner.parts:
                for table, column in ((layout.blocks, "first_elapsed"), (layout.head, "elapsed")):
                    sql = f"SELECT min({column}) FROM {table} WHERE {layout.owner} = ?"
                    if is_number(oldest := connection.execute(sql, (part.seq,)).fetchone()[0]):
                        return part.boot_time + float(oldest)
        return None

    def _store(self, owner: Owner) -> SeriesStore:
        return self._hosts if owner.device is None else self._devices


def _windows(owner: Owner, start: float, end: float | None) -> Iterator[tuple[BootPart, tuple[float, float | None]]]:
    """The boots of an owner that overlap a time, oldest first, each with that time in seconds since the boot."""
    for place, part in enumerate(owner.parts):
        ended = owner.parts[place + 1].boot_time if place + 1 < len(owner.parts) else float("inf")
        if ended > start and (end is None or part.boot_time <= end):
            yield part, (start - part.boot_time, None if end is None else end - part.boot_time)


def device_order(device: Device | None) -> tuple[int, str, list[tuple[int, str]]]:
    """The host first, then kinds in the order of the catalogue; of names, 2 comes before 10."""
    if device is None:
        return -1, "", []
    kind = device.kind
    words = re.findall(r"\d+|\D+", device.name)
    natural = [(int(word), "") if word.isdecimal() and len(word) < 18 else (-1, word) for word in words]
    return KIND_ORDER.get(kind, len(KIND_ORDER)), kind, natural
