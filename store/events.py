"""What happened to a machine or to one of its devices, in and out of the table of events. Events of jobs: jobs.py."""

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

ALWAYS = -float("inf")


class MachineEvents:
    """The events of the boots and devices of one store."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def add(self, events: Iterable[tuple[Device | None, Event]]) -> None:
        """Keep what happened to this machine, where the device is None, or to a device of it."""
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

    def of_host(self, since: float = ALWAYS, boot: str | None = None) -> list[Event]:
        """What happened since a moment to the machines of a store, or to one in one boot; in order of time."""
        if boot is None:
            return self._events("host_seq IS NOT NULL AND at >= ?", (since,))
        return self._events("host_seq = (SELECT seq FROM hosts WHERE boot = ?) AND at >= ?", (boot, since))

    def of_device(self, device: StoredDevice, since: float = ALWAYS) -> list[Event]:
        """What happened since a moment to a device; in order of time."""
        return self._events("device_seq = ? AND at >= ?", (device.seq, since))

    def _events(self, condition: str, values: tuple[object, ...]) -> list[Event]:
        with self.database.reading() as connection:
            if not has_tables_of(connection, DEVICES.since_version):
                return []
            sql = f"SELECT at, kind, detail FROM events WHERE {condition} ORDER BY at, id"
            rows = connection.execute(sql, values).fetchall()
        return [Event(*values) for values in self.database.sound(rows, event_from_row)]
