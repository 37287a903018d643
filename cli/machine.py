"""The host and the devices that `metrics --host` and `plot --host` name, and their stored samples."""

import time
from collections.abc import Sequence
from datetime import datetime

from jobtop.cli.app import App
from jobtop.core.clock import local
from jobtop.core.errors import UsageError, did_you_mean
from jobtop.core.metrics import DEVICE_SCOPES, Scope
from jobtop.core.record import record
from jobtop.core.units import format_duration, printable
from jobtop.store.database import Database
from jobtop.store.samples.machine import MachineRecord, Owner

ALL = "all"
DEFAULT_SECONDS = 3600.0
MOST_NAMED = 12  # devices of a kind in a message
NAME_LIKENESS = 0.75  # of a device that was meant; short names are alike by chance
HOST_IS_SAMPLED = "the host is sampled while jobtop runs or monitors a job, after its first five seconds"
IN_WORDS = {Scope.GPU: "GPU", Scope.NUMA: "NUMA node", Scope.PACKAGE: "package with a counter of energy"}


@record
class Chosen:
    """An owner of samples, and the store it is in."""

    machine: MachineRecord
    owner: Owner


def databases(app: App) -> list[Database]:
    """Open the stores that are named, or this host's."""
    return [jobs.database for jobs in app.fleet.stores]


def choose(app: App, words: Sequence[str]) -> list[Chosen]:
    """Return the host of each store, or the devices that the words name: disk, disk:sda, sda, all."""
    found = [Chosen(machine, owner) for machine in map(MachineRecord, databases(app)) for owner in machine.owners()]
    if not words:
        return [chosen for chosen in found if chosen.owner.device is None]
    devices = [chosen for chosen in found if chosen.owner.device is not None]
    named = [chosen for word in words for chosen in _named(word, devices)]
    return [chosen for chosen in devices if chosen in named]


def _named(word: str, devices: Sequence[Chosen]) -> list[Chosen]:
    def matches(chosen: Chosen, kind: str, name: str) -> bool:
        device = chosen.owner.device
        return device is not None and kind in ("", device.kind) and name in ("", device.name)

    if word == ALL:
        return list(devices)
    kind, colon, name = word.partition(":")
    if word in DEVICE_SCOPES:
        found = [chosen for chosen in devices if matches(chosen, word, "")]
    elif colon and kind in DEVICE_SCOPES and name:
        found = [chosen for chosen in devices if matches(chosen, kind, name)]
    else:
        found = [chosen for chosen in devices if matches(chosen, "", word)] if word else []
        kinds = sorted({chosen.owner.device.kind for chosen in found if chosen.owner.device is not None})
        if len(kinds) > 1:
            meant = " or ".join(f"{kind}:{word}" for kind in kinds)
            raise UsageError(f'--device: "{printable(word)}" is several devices: {meant}?')
    if not found and word in DEVICE_SCOPES and devices:
        kind_words = IN_WORDS.get(Scope(word), word)
        raise UsageError(f"--device: this machine has no {kind_words} that is sampled; {_listed(devices)}")
    if not found:
        meant = did_you_mean(word, (*DEVICE_SCOPES, *(_name(chosen) for chosen in devices), ALL), NAME_LIKENESS)
        raise UsageError(f'--device: no device "{printable(word)}" was sampled{meant}; {_listed(devices)}')
    return found


def _name(chosen: Chosen) -> str:
    return "" if chosen.owner.device is None else printable(chosen.owner.device.name)


def _listed(devices: Sequence[Chosen]) -> str:
    """Return which devices there are, by kind."""
    by_kind: dict[str, dict[str, None]] = {}
    for chosen in devices:
        if chosen.owner.device is not None:
            by_kind.setdefault(chosen.owner.device.kind, {})[printable(chosen.owner.device.name)] = None
    if not by_kind:
        return f"there are none yet: {HOST_IS_SAMPLED}"
    texts = []
    for kind, names in by_kind.items():
        more = len(names) - MOST_NAMED
        shown = ", ".join(list(names)[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        texts.append(f"{kind} {shown}")
    return f"there are: {'; '.join(texts)}"


def scopes_of(chosen: Sequence[Chosen]) -> list[Scope]:
    """Return the kinds of what was chosen, each once."""
    return list(dict.fromkeys(item.owner.scope for item in chosen if item.owner.scope is not None))


def start_of(app: App, since: float | datetime | None) -> float:
    """Return where the time begins, in seconds since the epoch; warn if samples that old are deleted."""
    now = time.time()
    start = since.timestamp() if isinstance(since, datetime) else now - (DEFAULT_SECONDS if since is None else since)
    kept_days = app.config.number("store.rollup_days")
    if kept_days and start < now - kept_days * 86400:
        app.warn(f"samples of the host are deleted after {kept_days:g} days (store.rollup_days)")
    return start


def warn_if_empty(app: App, chosen: Sequence[Chosen], start: float) -> None:
    """Warn that there are no samples: the time is in the future, or when the last one was taken and how to get more."""
    if start > time.time():
        app.warn(f"no samples: --since {local(start)} is in the future")
        return
    newest = [at for machine in {item.machine for item in chosen} if (at := machine.newest_at()) is not None]
    last = f"the last one is of {local(max(newest))}" if newest else "there is none at all"
    ago = format_duration(max(0.0, time.time() - start))
    app.warn(f"no samples in the last {ago}: {last}; {HOST_IS_SAMPLED} (--since 1d shows more)")
