"""Which keys this machine can supply, found out by reading its files once: rules on other keys are inactive."""

from __future__ import annotations

import os

from jobtop.core.alerts.expressions.extra_keys import EXTRA_KEYS
from jobtop.core.metrics import Scope, columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def supplied_here(
    without: Collection[str] = (), proc: str = "/proc", sys: str = "/sys", environ: Mapping[str, str] = os.environ
) -> dict[Scope, set[str]]:
    """Return the keys of jobs, the host and GPUs that this machine supplies; other devices are not judged.

    `without` has what the user has switched off (`monitor.without`). A key of a job that some jobs have and others do
    not, such as a limit, counts as supplied.
    """
    has_gpu = has_gpus(without, proc, sys, environ)
    of_jobs = {key for key in columns(Scope.JOB) if has_gpu or key.partition(".")[0] != "gpu"}
    return {
        Scope.JOB: of_jobs | _extra(Scope.JOB),
        Scope.HOST: set() if "host" in without else _host_keys(proc, sys) | _extra(Scope.HOST),
        Scope.GPU: set(columns(Scope.GPU)) if has_gpu else set(),
    }


def has_gpus(without: Collection[str], proc: str, sys: str, environ: Mapping[str, str]) -> bool:
    """Return whether this machine has a GPU that jobtop reads, as far as files tell: no driver is asked."""
    from jobtop.core.measure.collectors.gpu.drm_cards import find_cards
    from jobtop.core.measure.collectors.gpu.nvidia_driver import driver_problem

    if "gpu" in without:
        return False
    if "nvidia" not in without and driver_problem(proc, environ) is None:
        return True
    return "drm" not in without and bool(find_cards(sys))


def _extra(scope: Scope) -> set[str]:
    return {metric.key for metric in EXTRA_KEYS if scope in metric.scopes}


def _host_keys(proc: str, sys: str) -> set[str]:
    from jobtop.core.measure.collectors.host.reading import open_host

    source = open_host("/", proc, sys)
    try:
        sample, missing = source.collect(), source.missing
    finally:
        source.close()
    known = {key for key, value in sample.values.items() if value is not None}
    return known | ({"cpu.percent"} - missing.keys())
