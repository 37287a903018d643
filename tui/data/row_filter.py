"""The filter of the dashboard: which of the listed jobs match. Each job is tested once, until it changes."""

from __future__ import annotations

import time
from collections.abc import Sequence

from jobtop.core.analysis.cost import Prices
from jobtop.core.model import Job
from jobtop.core.query.filter import parse
from jobtop.tui.data.view import JobRow

FILTER_SECONDS = 5.0  # after which relative times such as `since:1h` are evaluated again


class RowFilter:
    """A filter line that is applied to rows; an empty one matches every row."""

    def __init__(self, text: str, prices: Prices | None = None) -> None:
        """Raises FilterError if the text is not valid."""
        self.text, self._prices = text, prices
        self._filter = parse(text, time.time(), prices, in_memory=True)
        self._known: dict[str, tuple[Job, bool]] = {}

    def matching(self, rows: Sequence[JobRow]) -> list[JobRow]:
        """The rows with matching jobs, in their order."""
        if abs(time.time() - self._filter.now) > FILTER_SECONDS:
            self._filter, self._known = parse(self.text, time.time(), self._prices, in_memory=True), {}
        known, self._known = self._known, {}
        for row in rows:
            before = known.get(row.key)
            is_known = before is not None and before[0] is row.job
            self._known[row.key] = (
                before if before is not None and is_known else (row.job, self._filter.matches(row.job))
            )
        return [row for row in rows if self._known[row.key][1]]
