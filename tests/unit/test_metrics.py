"""The catalogue holds exactly the keys the design promises, each of a sensible kind."""

import pytest

from jobtop.core.errors import BadValue
from jobtop.core.metrics import BY_KEY, CATALOGUE, Fold, Kind, Metric, Scope, Unit, find_metric, metrics_of, nearest

NET = "net.rx_bytes net.tx_bytes net.rx_packets net.tx_packets net.errors net.drops"
JOB = f"""
    cpu.percent cpu.user cpu.system cpu.throttled cpu.pressure mem.used mem.rss mem.pss mem.vms mem.swap mem.cgroup
    mem.anon mem.file mem.shmem mem.faults_minor mem.faults_major mem.oom_kills mem.pressure io.read_bytes
    io.write_bytes io.read_chars io.write_chars io.read_ops io.write_ops io.pressure proc.count proc.threads proc.fds
    proc.switches_voluntary proc.switches_involuntary {NET} gpu.util gpu.mem_used energy.cpu energy.gpu
    limit.cpus limit.memory limit.pids
"""
GPU = """
    gpu.util gpu.mem_used gpu.mem_total gpu.temp gpu.power gpu.power_limit gpu.clock_sm gpu.clock_mem gpu.fan
    gpu.ecc_errors gpu.throttled gpu.processes energy.gpu
"""
HOST = f"""
    cpu.percent cpu.iowait cpu.steal load.1 load.5 load.15 mem.total mem.available mem.used mem.cached swap.used
    swap.total disk.read_bytes disk.write_bytes disk.busy disk.used disk.total {NET} cpu.pressure mem.pressure
    io.pressure temp
"""


@pytest.mark.parametrize(
    ("scope", "keys"), [(Scope.JOB, JOB), (Scope.CONTAINER, JOB), (Scope.GPU, GPU), (Scope.HOST, HOST)]
)
def test_each_scope_has_exactly_the_promised_keys(scope: Scope, keys: str) -> None:
    assert sorted(metric.key for metric in metrics_of(scope)) == sorted(keys.split())


def test_a_key_is_one_row_and_a_title_says_one_thing() -> None:
    assert len(BY_KEY) == len(CATALOGUE)
    assert len({metric.title for metric in CATALOGUE}) == len(CATALOGUE)


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.key)
def test_a_row_is_sound(metric: Metric) -> None:
    assert len(set(metric.scopes)) == len(metric.scopes) > 0
    assert (metric.fold is Fold.NONE) == (Scope.JOB not in metric.scopes)
    assert not metric.key.endswith("_bytes") or metric.unit is Unit.BYTES
    assert metric.unit is not Unit.PERCENT or metric.kind is Kind.GAUGE
    assert metric.unit is not Unit.JOULES or metric.kind is Kind.COUNTER


@pytest.mark.parametrize(
    ("key", "unit", "kind", "fold"),
    [
        ("cpu.user", Unit.SECONDS, Kind.COUNTER, Fold.SUM),
        ("cpu.throttled", Unit.SECONDS, Kind.COUNTER, Fold.OWN),
        ("mem.used", Unit.BYTES, Kind.GAUGE, Fold.SUM),
        ("mem.pressure", Unit.SECONDS, Kind.COUNTER, Fold.OWN),
        ("mem.faults_major", Unit.COUNT, Kind.COUNTER, Fold.SUM),
        ("io.read_chars", Unit.BYTES, Kind.COUNTER, Fold.SUM),
        ("net.drops", Unit.COUNT, Kind.COUNTER, Fold.OWN),
        ("proc.fds", Unit.COUNT, Kind.GAUGE, Fold.SUM),
        ("limit.cpus", Unit.CORES, Kind.GAUGE, Fold.OWN),
        ("gpu.clock_sm", Unit.HERTZ, Kind.GAUGE, Fold.NONE),
        ("energy.gpu", Unit.JOULES, Kind.COUNTER, Fold.OWN),
        ("disk.busy", Unit.SECONDS, Kind.COUNTER, Fold.NONE),
    ],
)
def test_units_kinds_and_folds_are_those_of_the_source(key: str, unit: Unit, kind: Kind, fold: Fold) -> None:
    metric = find_metric(key)
    assert (metric.unit, metric.kind, metric.fold) == (unit, kind, fold)


def test_an_unknown_key_names_the_nearest() -> None:
    assert nearest("gpu.utl") == "gpu.util"
    assert nearest("xyzzy") is None
    with pytest.raises(BadValue, match=r'^unknown metric "gpu.utl" \(did you mean "gpu.util"\?\)$'):
        find_metric("gpu.utl")


def test_a_row_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        CATALOGUE[0].title = "x"  # type: ignore[misc]
    assert not hasattr(CATALOGUE[0], "__dict__")
