"""The columns that `jobtop history` can list: a cell of the table and a value of the record for each."""

import json
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from jobtop.cli.app import App
from jobtop.cli.text.stale import status_text
from jobtop.cli.text.tables import TableColumn, flattened
from jobtop.core.analysis.cost import NO_COST, cost_of
from jobtop.core.clock import local
from jobtop.core.errors import UsageError, did_you_mean
from jobtop.core.job_id import NO_ID
from jobtop.core.model import Job, Status
from jobtop.core.query.conditions import as_text, tag_text
from jobtop.core.record import record
from jobtop.core.text.cost_text import co2_text, energy_text, money_text
from jobtop.core.text.usage_text import GLYPHS, memory_peak
from jobtop.core.units import ABSENT, format_bytes, format_duration, format_percent, printable
from jobtop.store.alerts.alert_rows import AlertCounts, AlertStore
from jobtop.store.jobs import Jobs

NO_JOB = Job(NO_ID, "", (), "", "", "", Status.UNKNOWN)
DEFAULT_COLUMNS = ("id", "name", "status", "started", "time", "cpu", "mem", "exit")
PAIRS = {"param": "params", "tag": "tags"}  # columns such as param.lr, and the key of the record
NO_RECORD = NO_JOB.to_json() | {"cost": NO_COST.to_json()}
USED_COLUMNS = ("cpu", "mem", "energy", "co2", "cost")  # that samples tell while a job runs
MOST_SAMPLED = 50  # running jobs with samples to read; the head has no index by job
ALIASES = {"memory": "mem", "duration": "time"}  # the names of sort keys


@record
class HistoryColumn:
    """One column: its name in `--columns`, its key in the record, its title, and the text of its cell."""

    name: str
    key: str
    column: TableColumn
    text: Callable[[App, Jobs, Job], str]

    def value(self, row: Mapping[str, Any]) -> Any:
        """Return the value for CSV, of a record as JSON."""
        base, dot, pair_key = self.name.partition(".")
        if dot and base in PAIRS:
            value = row[PAIRS[base]].get(pair_key)
            return value if value is None or isinstance(value, str | int | float) else json.dumps(value)
        return dict(flattened(row)).get(self.key)


def parse_columns(text: str) -> list[HistoryColumn]:
    """Return the columns that a user named, separated by commas; UsageError lists all."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError(f"--columns: no column is named; {columns_text()}")
    return list(map(_column, names))


def columns_text() -> str:
    """Return the names that `--columns` takes."""
    return f"there are {', '.join(COLUMNS)}, param.KEY, tag.KEY, and every column of --format csv"


def default_columns(with_host: bool) -> list[HistoryColumn]:
    names = [*DEFAULT_COLUMNS[:2], *(["host"] if with_host else []), *DEFAULT_COLUMNS[2:]]
    return [COLUMNS[name] for name in names]


def table_of(columns: Sequence[HistoryColumn], app: App, found: Sequence[tuple[Jobs, Job]]) -> list[list[str]]:
    """Return the cells of the table, a row per job; a running job shows what it used so far."""
    if any(column.name in USED_COLUMNS for column in columns):
        found = with_usage_so_far_of(found)
    return [[column.text(app, store, job) for column in columns] for store, job in found]


def with_usage_so_far_of(found: Sequence[tuple[Jobs, Job]]) -> list[tuple[Jobs, Job]]:
    """Return the jobs, the first running ones with what their samples say."""
    from jobtop.store.samples.curves import Curves
    from jobtop.store.samples.so_far import with_usage_so_far

    running = {(store, job.id) for store, job in [pair for pair in found if not pair[1].status.ended][:MOST_SAMPLED]}
    return [
        (store, with_usage_so_far(Curves(store.database), job) if (store, job.id) in running else job)
        for store, job in found
    ]


def _column(name: str) -> HistoryColumn:
    base, _, pair_key = name.partition(".")
    if base in PAIRS and pair_key:
        return HistoryColumn(name, PAIRS[base], TableColumn(name), partial(_pair_text, PAIRS[base], pair_key))
    if (known := COLUMNS.get(ALIASES.get(name, name))) is not None:
        return known
    if name in dict(flattened(NO_RECORD)):
        return HistoryColumn(name, name, TableColumn(name), partial(_value_text, name))
    hint = did_you_mean(name, COLUMNS)
    raise UsageError(f'--columns: unknown column "{printable(name)}"{hint}; {columns_text()}')


def _pair_text(field: str, pair_key: str, _app: App, _store: Jobs, job: Job) -> str:
    pairs: Mapping[str, Any] = getattr(job, field)
    return as_text(pairs[pair_key]) if pair_key in pairs else ABSENT


def _value_text(key: str, app: App, _store: Jobs, job: Job) -> str:
    shape = job.to_json() | ({"cost": cost_of(job, app.prices).to_json()} if key.startswith("cost.") else {})
    value = dict(flattened(shape)).get(key)
    return ABSENT if value is None else as_text(value)


def _status_cell(app: App, store: Jobs, job: Job) -> str:
    has_more = "" if job.settled or "left_running" not in job.flags else " …"
    return f"{GLYPHS[job.status]} {status_text(app, store, job)}{has_more}"


def _time(_app: App, _store: Jobs, job: Job) -> str:
    running = time.time() - job.start_time if job.start_time and not job.status.ended else None
    return format_duration(job.duration_seconds if running is None else running)


def _exit(_app: App, _store: Jobs, job: Job) -> str:
    if job.signal is not None:
        from jobtop.core.run.outcome import signal_name

        return signal_name(job.signal)
    return ABSENT if job.exit_code is None else str(job.exit_code)


def _signal(_app: App, _store: Jobs, job: Job) -> str:
    return ABSENT if job.signal is None else _exit(_app, _store, job)


def _energy(app: App, _store: Jobs, job: Job) -> str:
    cost = cost_of(job, app.prices)
    return energy_text(cost.joules, cost.is_estimate).partition(" (")[0]


def _co2(app: App, _store: Jobs, job: Job) -> str:
    cost = cost_of(job, app.prices)
    return co2_text(cost.co2_grams, cost.is_estimate).removesuffix(" CO₂")


def _cost(app: App, _store: Jobs, job: Job) -> str:
    cost = cost_of(job, app.prices)
    return money_text(cost.money, cost.currency, cost.is_money_estimate)


def alert_counts(store: Jobs, job: Job) -> AlertCounts | None:
    """Return how many alerts of a job have fired; None if none has."""
    return None if job.seq is None else AlertStore(store.database).counts_by_job([job.seq]).get(job.seq)


def _alerts(_app: App, store: Jobs, job: Job) -> str:
    from jobtop.cli.text.alert_lines import GLYPHS

    counts = alert_counts(store, job)
    return ABSENT if counts is None else f"{GLYPHS[counts.severity]}{counts.fired}"


def _pairs(pairs: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={as_text(value)}" for key, value in pairs.items())


def _of_job(text: Callable[[Job], str | None]) -> Callable[[App, Jobs, Job], str]:
    return lambda _app, _store, job: text(job) or ABSENT


def _columns() -> dict[str, HistoryColumn]:
    texts: dict[str, tuple[str, int, Callable[[Job], str | None]]] = {
        # name: the key of the record, the widest cell (0: a number), the text
        "id": ("id", 40, lambda job: job.id[:8]),
        "seq": ("seq", 0, lambda job: None if job.seq is None else str(job.seq)),
        "external_id": ("external_id", 40, lambda job: job.external_id),
        "name": ("name", 32, lambda job: job.name),
        "tool": ("tool", 24, lambda job: job.tool),
        "script": ("script", 40, lambda job: job.script),
        "command": ("command", 80, lambda job: shlex.join(job.command)),
        "params": ("params", 60, lambda job: _pairs(job.params)),
        "tags": ("tags", 60, lambda job: " ".join(map(tag_text, job.tags, job.tags.values()))),
        "note": ("note", 60, lambda job: job.note),
        "host": ("host", 24, lambda job: job.host),
        "user": ("user", 24, lambda job: job.user),
        "cwd": ("cwd", 60, lambda job: job.cwd),
        "reason": ("reason", 80, lambda job: job.reason),
        "flags": ("flags", 60, lambda job: " ".join(job.flags)),
        "submitted": ("submitted_at", 40, lambda job: local(job.submitted_at)),
        "started": ("start_time", 40, lambda job: local(job.start_time)),
        "ended": ("end_time", 40, lambda job: local(job.end_time)),
        "cpu": ("resource_usage.cpu_total_seconds", 0, lambda job: format_duration(job.usage.cpu_total_seconds)),
        "efficiency": ("resource_usage.cpu_efficiency", 0, lambda job: format_percent(job.usage.cpu_efficiency)),
        "mem": ("resource_usage.memory_peak_bytes", 0, memory_peak),
        "read": ("resource_usage.io_read_bytes", 0, lambda job: format_bytes(job.usage.io_read_bytes)),
        "write": ("resource_usage.io_write_bytes", 0, lambda job: format_bytes(job.usage.io_write_bytes)),
        "received": ("resource_usage.net_rx_bytes", 0, lambda job: format_bytes(job.usage.net_rx_bytes)),
        "sent": ("resource_usage.net_tx_bytes", 0, lambda job: format_bytes(job.usage.net_tx_bytes)),
        "limited": ("limited_by", 12, lambda job: job.limited_by),
        "pinned": ("pinned", 40, lambda job: "yes" if job.pinned else "no"),
        "kept": ("kept", 40, lambda job: str(job.kept)),
    }
    titles = {"mem": "MEMORY"}
    columns = {
        name: HistoryColumn(
            name, key, TableColumn(titles.get(name, name.upper()), right=not widest, widest=widest or 40), _of_job(text)
        )
        for name, (key, widest, text) in texts.items()
    }
    columns |= {
        "status": HistoryColumn("status", "status", TableColumn("STATUS", widest=60), _status_cell),
        "time": HistoryColumn("time", "duration_seconds", TableColumn("TIME", right=True), _time),
        "exit": HistoryColumn("exit", "exit_code", TableColumn("EXIT", right=True), _exit),
        "signal": HistoryColumn("signal", "signal", TableColumn("SIGNAL"), _signal),
        "alerts": HistoryColumn("alerts", "alerts", TableColumn("ALERTS", right=True), _alerts),
        "energy": HistoryColumn("energy", "cost.energy_joules", TableColumn("ENERGY", right=True), _energy),
        "co2": HistoryColumn("co2", "cost.co2_grams", TableColumn("CO2", right=True), _co2),
        "cost": HistoryColumn("cost", "cost.money", TableColumn("COST", right=True), _cost),
    }
    return {name: columns[name] for name in (*DEFAULT_COLUMNS, *columns)}


COLUMNS = _columns()
