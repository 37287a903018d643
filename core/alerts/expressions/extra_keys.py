"""Keys that only alert rules know: numbers that are no series, given to the evaluator by the engine. Pure.

`elapsed` comes with each sample of a job. The others are read about once a minute: those of a job go to
`Evaluator.see_extra`, those of the host are added to the values of the host.
"""

from __future__ import annotations

from jobtop.core.metrics import Fold, Kind, Metric, Scope, Unit

ELAPSED = "elapsed"

EXTRA_KEYS: tuple[Metric, ...] = (
    Metric(ELAPSED, "time since the job started", Unit.SECONDS, Kind.GAUGE, (Scope.JOB, Scope.CONTAINER), Fold.OWN),
    Metric(
        "cwd.disk_used", "space used on the disk of the job's directory", Unit.BYTES, Kind.GAUGE, (Scope.JOB,), Fold.OWN
    ),
    Metric("cwd.disk_total", "size of the disk of the job's directory", Unit.BYTES, Kind.GAUGE, (Scope.JOB,), Fold.OWN),
    Metric("output.bytes", "output that the job has written", Unit.BYTES, Kind.GAUGE, (Scope.JOB,), Fold.OWN),
    Metric("cpu.count", "cores of the host", Unit.COUNT, Kind.GAUGE, (Scope.HOST,), Fold.NONE),
    Metric("store.used", "size of the history, output included", Unit.BYTES, Kind.GAUGE, (Scope.HOST,), Fold.NONE),
    Metric(
        "store.limit",
        "the largest size of the history (store.max_size)",
        Unit.BYTES,
        Kind.GAUGE,
        (Scope.HOST,),
        Fold.NONE,
    ),
    Metric(
        "store.disk_used", "space used on the disk of the history", Unit.BYTES, Kind.GAUGE, (Scope.HOST,), Fold.NONE
    ),
    Metric("store.disk_total", "size of the disk of the history", Unit.BYTES, Kind.GAUGE, (Scope.HOST,), Fold.NONE),
)
BY_EXTRA_KEY = {metric.key: metric for metric in EXTRA_KEYS}
# The keys of a job that are not in its samples: rules on them are evaluated when `see_extra` gives them.
SLOW_JOB_KEYS = frozenset(metric.key for metric in EXTRA_KEYS if Scope.JOB in metric.scopes and metric.key != ELAPSED)
