"""Read and write the events of hosts and their devices. Events of jobs are in jobs.py."""

from __future__ import annotations

import json
from collections.abc import Iterable

from jobtop.core.measure.device import Device
from jobtop.store.database import Database
from jobtop.store.jobs import Event
from jobtop.store.rows import event_from_row
from jobtop.store.samples.devices import DeviceRecord, StoredDevice
from jobtop.store.samples.head import DEVICES
from jobtop.store.samples.hosts import this_boot
from jobtop.store.schema import has_tables_of

BEFORE_ALL = -float("inf")


class MachineEvents:
    """The events of the hosts and devices of one store."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def add(self, events: Iterable[tuple[Device | None, Event]]) -> None:
        """Add events of this host, where the device is None, or of one of its devices."""
        devices = DeviceRecord(self.database)
        with self.database.writing() as connection:
            for device, item in events:
                if device is None:
                    column, owner = "host_seq", this_boot(self.database)
                else:
                    column, owner = "device_seq", devices.number(connection, device)
                connection.execute(
                    f"INSERT INTO events ({column}, at, kind, detail) VALUES (?, ?, ?, ?)",
                    (owner, item.at, item.kind, json.dumps(item.detail)),
                )

    def of_host(self, since: float = BEFORE_ALL, boot: str | None = None) -> list[Event]:
        """The events since a moment of all hosts of a store, or of one boot of a host, in order of time."""
        if boot is None:
            return self._events("host_seq IS NOT NULL AND at >= ?", (since,))
        return self._events("host_seq = (SELECT seq FROM hosts WHERE boot = ?) AND at >= ?", (boot, since))

    def of_device(self, device: StoredDevice, since: float = BEFORE_ALL) -> list[Event]:
        """The events of a device since a moment, in order of time."""
        return self._events("device_seq = ? AND at >= ?", (device.seq, since))

    def _events(self, condition: str, values: tuple[object, ...]) -> list[Event]:
        with self.database.reading() as connection:
            if not has_tables_of(connection, DEVICES.since_version):
                return []
            sql = f"SELECT at, kind, detail FROM events WHERE {condition} ORDER BY at, id"
            rows = connection.execute(sql, values).fetchall()
        return [Event(*values) for values in self.database.decode_rows(rows, event_from_row)]
