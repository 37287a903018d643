"""SQL functions for the energy and the cost of a job, which depend on prices and so are in no column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jobtop.core.analysis.cost import COST_COLUMNS, Prices, Used, cost_of_use
from jobtop.store.rows import are_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

JOB_ENERGY, JOB_COST = "job_energy(seq)", "job_cost(seq)"


@contextmanager
def cost_functions(connection: sqlite3.Connection, stored: frozenset[str], prices: Prices | None) -> Iterator[None]:
    """Register both functions until the context ends; joules and money of every job are computed once."""
    joules, money = _costs(connection, stored, prices or Prices())
    functions = {"job_energy": joules.get, "job_cost": money.get}
    for name, function in functions.items():
        connection.create_function(name, 1, function, deterministic=True)
    try:
        yield
    finally:
        for name in functions:
            connection.create_function(name, 1, None)


def _costs(
    connection: sqlite3.Connection, stored: frozenset[str], prices: Prices
) -> tuple[dict[int, float | None], dict[int, float | None]]:
    """The energy and the cost of jobs by their numbers; a damaged row has neither."""
    columns = ", ".join(name if name in stored else "NULL" for name in COST_COLUMNS)
    cursor = connection.cursor()
    cursor.row_factory = None
    joules, money = {}, {}
    for seq, *values in cursor.execute(f"SELECT seq, {columns} FROM jobs"):
        if are_numbers(values):
            cost = cost_of_use(Used(*values), prices)
            joules[seq], money[seq] = cost.joules, cost.money
    return joules, money
