"""The history grouped by name: its table, columns and sort order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jobtop.core.query.conditions import has_wildcards
from jobtop.core.query.filter import quoted
from jobtop.core.units import ABSENT, format_duration
from jobtop.store.listing import TREND_RUNS, Group
from jobtop.tui.data.history_rows import number
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Align, Cell, Sparkline, Words, bounded, short_bytes
from jobtop.tui.widgets.columns import Column, Sort, sorted_by
from jobtop.tui.widgets.table import Table

NEWEST = Sort("newest", descending=True)


class GroupsTable(Table[Group]):
    """The table of groups; groups cannot be compared, so they cannot be marked."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "mark"


def group_columns() -> tuple[Column[Group], ...]:
    """The columns of groups; dropped in the order MEM P50, LIVE, the trend, MEM P95, FAILED, TIME P95."""
    right = Align.RIGHT
    return (
        Column("name", "NAME", lambda group: Words(group.name), 14, flex=1, most=48),
        Column("runs", "RUNS", lambda group: Words(str(group.summary.jobs)), 6, align=right),
        Column("live", "LIVE", live, 4, align=right, priority=5),
        Column("failed", "FAILED", failed, 6, align=right, priority=2),
        Column("success", "SUCCESS", success, 7, align=right),
        Column("p50", "TIME P50", lambda group: seconds(group.summary.duration.p50), 8, align=right),
        Column("p95", "TIME P95", lambda group: seconds(group.summary.duration.p95), 8, align=right, priority=1),
        Column("mem50", "MEM P50", lambda group: size(group, group.summary.memory.p50), 7, align=right, priority=6),
        Column("mem95", "MEM P95", lambda group: size(group, group.summary.memory.p95), 7, align=right, priority=3),
        Column("trend", f"LAST {TREND_RUNS} TIMES", trend, TREND_RUNS, priority=4, sortable=False),
    )


def seconds(value: float | None) -> Cell:
    return number(format_duration(value))


def size(group: Group, value: float | None) -> Cell:
    return number(bounded(short_bytes(value), group.summary.memory.is_bound(value)))


def live(group: Group) -> Cell:
    count = group.summary.running
    return Words(str(count), Tone.GREEN) if count else Words("")


def failed(group: Group) -> Cell:
    count = group.summary.failed
    return Words(str(count), Tone.VERMILION if count else Tone.GREY)


def success(group: Group) -> Cell:
    """The success rate of the jobs that succeeded or failed, rounded down: only a full rate shows 100 %."""
    share = group.summary.success_rate
    if share is None:
        return number(ABSENT)
    return Words(f"{min(int(100 * share), 100)}%", Tone.TEXT if share == 1 else Tone.YELLOW)


def trend(group: Group) -> Cell:
    return Sparkline(group.trend, max(group.trend, default=0.0) or 1.0)


SORTS: dict[str, Callable[[Group], str | float | None]] = {
    "name": lambda group: group.name.casefold(),
    "runs": lambda group: group.summary.jobs,
    "live": lambda group: group.summary.running,
    "failed": lambda group: group.summary.failed,
    "success": lambda group: group.summary.success_rate,
    "p50": lambda group: group.summary.duration.p50,
    "p95": lambda group: group.summary.duration.p95,
    "mem50": lambda group: group.summary.memory.p50,
    "mem95": lambda group: group.summary.memory.p95,
}


def sorted_groups(groups: Sequence[Group], sort: Sort) -> Sequence[Group]:
    """The groups sorted by a column, with missing values last; unsorted, the name that ran last is first."""
    value = SORTS.get(sort.key)
    return groups if value is None else sorted_by(groups, value, sort.descending)


def name_word(name: str) -> str:
    """The filter word that matches a name; `?` stands for characters that cannot be typed."""
    if name.isprintable():
        return f"name{'=' if has_wildcards(name) else ':'}{quoted(name)}"
    return "name:" + quoted("".join(letter if letter.isprintable() else "?" for letter in name))
