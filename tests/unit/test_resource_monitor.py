"""ResourceMonitor and ResourceMonitorCallback on made-up readings: numbers, console, alerts, files, borders."""

import copy
import csv
import importlib
import inspect
import logging
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from jobtop.callback import ResourceMonitorCallback, lightning_callbacks, simple_params
from jobtop.resource_csv import EpochFile
from jobtop.resource_numbers import cpu_memory_metrics, disk_traffic, gpu_metrics, network_traffic, wait_metrics
from jobtop.watching import ResourceMonitor
from support import ROOT

MIB = 1 << 20
READING: dict[str, Any] = {
    "elapsed": 2.0,
    "timestamp": 1_760_000_000.0,
    "job": {"cpu.percent": 180.5, "mem.used": 2048 * MIB, "io.read_bytes": 150.4 * MIB, "io.write_bytes": 12.6 * MIB},
    "host": {
        "cpu.percent": 90.4,
        "cpu.iowait": 10.6,
        "io.pressure": 0.071,
        "mem.total": 16384 * MIB,
        "mem.available": 8192 * MIB,
        "net.rx_bytes": 3 * MIB,
        "net.tx_bytes": MIB,
    },
    "host_counters": {"net.rx_bytes": 100 * MIB, "net.tx_bytes": 50 * MIB},
    "cores": [41.0, 49.4],
    "gpus": [
        {
            "vendor": "nvidia",
            "name": "0",
            "gpu.util": 87.3,
            "gpu.mem_used": 8192 * MIB,
            "gpu.mem_total": 16384 * MIB,
            "gpu.temp": 72.0,
            "gpu.power": 180.5,
        }
    ],
}
# The block that the seed of the callback prints, with the numbers above.
CONSOLE = """\
[Resources] Batch 50:
  GPU 0: 87.3% util, 8192/16384 MB (50%), 72°C
  CPU: 45.2% (process: 180.5%)
  Memory: 8192/16384 MB available (50%)
  I/O: Read 75.2 MB/s, Write 6.3 MB/s, Wait 5.3%
"""
PARAMETERS = {
    "enabled": True,
    "log_interval": 10,
    "gpu_monitoring": True,
    "cpu_monitoring": True,
    "io_monitoring": True,
    "alert_gpu_underutilization": True,
    "alert_memory_pressure": True,
    "alert_io_bottleneck": True,
    "gpu_util_threshold": 0.5,
    "memory_threshold": 0.9,
    "io_wait_threshold": 0.3,
    "export_timeseries": True,
    "timeseries_path": "resource_logs",
}


class FakeBlock:
    """Answers with the readings it was given, the last one for ever."""

    def __init__(self, name: str, options: dict[str, Any], readings: list[dict[str, Any]]) -> None:
        self.id, self.name, self.options, self.readings = "0" * 36, name, options, readings
        self.closed: tuple[str | None, str | None] | None = None

    def latest(self) -> dict[str, Any] | None:
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]

    def close(self, status: str | None = None, returncode: int | None = None, error: str | None = None) -> None:
        self.closed = (status, error)


class Blocks:
    """The blocks that were opened, and what the next one will read."""

    def __init__(self) -> None:
        self.opened: list[FakeBlock] = []
        self.readings: list[Any] = [READING]

    def open(self, name: str, **options: Any) -> FakeBlock:
        self.opened.append(FakeBlock(name, options, list(self.readings)))
        return self.opened[-1]


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Blocks:
    made = Blocks()
    monkeypatch.setattr("jobtop.tracking.open_block", made.open)
    monkeypatch.setattr("jobtop.watching.SAMPLING_SECONDS", 0.0)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return made


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, "jobtop")
    return lambda: [record.getMessage() for record in caplog.records]


class Module:
    """What a callback uses of a LightningModule."""

    def __init__(self) -> None:
        self.hparams = {"lr": 0.1, "layers": 3, "model": object(), "optimizer": "adam"}

    def print(self, text: str) -> None:
        print(text)


def trainer(rank: int = 0, ranks: int = 1, epoch: int = 0) -> SimpleNamespace:
    return SimpleNamespace(global_rank=rank, world_size=ranks, current_epoch=epoch)


def train(callback: ResourceMonitorCallback, batches: int = 1, epochs: int = 1, rank: int = 0, ranks: int = 1) -> int:
    """Call the hooks as Lightning does; return how many batches were trained."""
    module, trained = Module(), 0
    callback.setup(trainer(rank, ranks), module, "fit")
    for epoch in range(epochs):
        callback.on_train_epoch_start(trainer(rank, ranks, epoch), module)
        for batch in range(batches):
            trained += 1
            callback.on_train_batch_end(trainer(rank, ranks, epoch), module, None, None, batch)
    callback.teardown(trainer(rank, ranks), module, "fit")
    return trained


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def second_gpu(**gauges: float) -> dict[str, Any]:
    return {"vendor": "nvidia", "name": "1", **{f"gpu.{name}": value for name, value in gauges.items()}}


@pytest.mark.parametrize("monitor", [ResourceMonitor, ResourceMonitorCallback])
def test_parameters_and_defaults_are_those_of_the_ocr_callback(monitor: type) -> None:
    parameters = inspect.signature(monitor).parameters
    assert {name: parameter.default for name, parameter in parameters.items()} == PARAMETERS


def test_the_hydra_configuration_of_the_page_makes_a_callback() -> None:
    page = (ROOT / "docs/lightning.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"(?ms)^```yaml\n(.*?)^```$", page)
    settings = yaml.safe_load(text)["resource_monitor"]
    module, _, name = settings.pop("_target_").rpartition(".")
    made = getattr(importlib.import_module(module), name)(**settings)
    assert isinstance(made, ResourceMonitorCallback)
    assert settings == PARAMETERS
    assert {name: getattr(made, name) for name in PARAMETERS} == PARAMETERS


def test_metrics_have_the_names_and_units_of_the_ocr_callback() -> None:
    assert gpu_metrics(READING, {}) == {
        "gpu_0_util": 87.3,
        "gpu_0_memory_used_mb": 8192,
        "gpu_0_memory_total_mb": 16384,
        "gpu_0_memory_pct": 50.0,
        "gpu_0_temp_c": 72.0,
        "gpu_0_power_w": 180.5,
    }
    assert cpu_memory_metrics(READING) == {
        "cpu_percent": 45.2,
        "cpu_process_percent": 180.5,
        "memory_system_mb": 16384,
        "memory_available_mb": 8192,
        "memory_percent": 50.0,
        "memory_process_mb": 2048,
        "cpu_core_0_percent": 41.0,
        "cpu_core_1_percent": 49.4,
    }
    assert wait_metrics(READING) == {"io_wait_pct": 5.3, "io_pressure_pct": pytest.approx(7.1)}


def test_what_is_absent_in_a_reading_is_absent_in_the_metrics() -> None:
    for reading in ({}, {"host": {}, "job": {}, "gpus": [{"vendor": "nvidia", "name": "0"}]}):
        assert gpu_metrics(reading, {}) == cpu_memory_metrics(reading) == wait_metrics(reading) == {}


def test_all_gpus_are_read_but_not_the_graphics_of_the_processor_nor_parts_of_a_gpu() -> None:
    gpus = [
        {"vendor": "intel", "name": "intel0-00:02.0", "gpu.util": 3.0},
        READING["gpus"][0],
        {"vendor": "nvidia", "name": "0.1", "gpu.mem_used": MIB},
        second_gpu(util=10.0),
        {"vendor": "amd", "name": "amd0-03:00.0", "gpu.util": 20.0, "gpu.mem_total": MIB},
    ]
    metrics = gpu_metrics({"gpus": gpus}, {})
    assert {name: value for name, value in metrics.items() if name.endswith("_util")} == {
        "gpu_0_util": 87.3,
        "gpu_1_util": 10.0,
        "gpu_2_util": 20.0,
    }


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"CUDA_VISIBLE_DEVICES": "1"}, {"gpu_1_util"}),
        ({"CUDA_VISIBLE_DEVICES": ""}, set()),
        ({"CUDA_VISIBLE_DEVICES": "1,-1,0"}, {"gpu_1_util"}),
        ({"CUDA_VISIBLE_DEVICES": "GPU-8932f937"}, {"gpu_0_util", "gpu_1_util"}),
        ({}, {"gpu_0_util", "gpu_1_util"}),
    ],
)
def test_gpus_that_are_hidden_from_the_training_do_not_count(environ: dict[str, str], expected: set[str]) -> None:
    gpus = [second_gpu(util=1.0) | {"name": str(number), "product": "A100"} for number in range(2)]
    assert set(gpu_metrics({"gpus": gpus}, environ)) == expected


def test_gpus_of_several_products_are_numbered_by_speed_so_none_is_hidden() -> None:
    gpus = [second_gpu(util=1.0) | {"product": product} for product in ("A100", "T4")]
    mask = {"CUDA_VISIBLE_DEVICES": "0"}
    assert len(gpu_metrics({"gpus": gpus}, mask)) == 2
    assert len(gpu_metrics({"gpus": gpus}, mask | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})) == 1


def test_disk_traffic_is_since_the_last_check_and_never_counted_twice() -> None:
    disk = disk_traffic()
    first = disk.metrics({"io.read_bytes": 10 * MIB}, 2.0)
    again = disk.metrics({"io.read_bytes": 10 * MIB}, 2.0)
    later = disk.metrics({"io.read_bytes": 16 * MIB}, 4.0)
    assert first == {"disk_read_mb": 10.0, "io_read_rate_mbps": 5.0}
    assert again == {"io_read_rate_mbps": 5.0}
    assert later == {"disk_read_mb": 6.0, "io_read_rate_mbps": 3.0}


def test_the_traffic_of_the_machine_before_the_training_does_not_count() -> None:
    network = network_traffic()
    assert network.metrics({"net.rx_bytes": 100 * MIB}) == {}
    assert network.metrics({"net.rx_bytes": 103 * MIB}) == {"net_recv_mb": 3.0}
    assert network.metrics({"net.rx_bytes": 0}) == {}


def test_each_threshold_is_told_at_once() -> None:
    metrics = {"gpu_0_util": 42.3, "gpu_0_temp_c": 85.0, "memory_percent": 92.1, "io_wait_pct": 35.0}
    assert ResourceMonitor().check_alerts(metrics) == [
        "⚠️ GPU underutilized: 42.3% (threshold: 50%)",
        "⚠️ High memory usage: 92.1% (threshold: 90%)",
        "⚠️ I/O bottleneck: 35.0% wait time (threshold: 30%)",
        "⚠️ GPU temperature high: 85°C",
    ]


def test_absent_metrics_cross_no_threshold() -> None:
    assert ResourceMonitor(memory_threshold=-1, io_wait_threshold=-1, gpu_util_threshold=9).check_alerts({}) == []


def test_alerts_are_of_every_gpu_and_can_be_switched_off() -> None:
    metrics = {"gpu_0_util": 90.0, "gpu_1_util": 1.0, "gpu_1_temp_c": 81.5, "memory_percent": 99.0, "io_wait_pct": 99.0}
    silent = ResourceMonitor(alert_gpu_underutilization=False, alert_memory_pressure=False, alert_io_bottleneck=False)
    assert ResourceMonitor().check_alerts(metrics)[0] == "⚠️ GPU 1 underutilized: 1.0% (threshold: 50%)"
    assert silent.check_alerts(metrics) == ["⚠️ GPU 1 temperature high: 81.5°C"]


def test_tasks_that_wait_for_io_on_a_machine_with_many_cores_are_told() -> None:
    assert len(ResourceMonitor().check_alerts({"io_wait_pct": 1.6, "io_pressure_pct": 95.0})) == 1


def test_the_console_block_is_that_of_the_ocr_callback(blocks: Blocks, capsys: pytest.CaptureFixture[str]) -> None:
    train(ResourceMonitorCallback(log_interval=50), batches=51)
    assert capsys.readouterr().out.endswith(CONSOLE)


def test_the_block_of_alerts_is_that_of_the_ocr_callback(blocks: Blocks, capsys: pytest.CaptureFixture[str]) -> None:
    train(ResourceMonitorCallback(gpu_util_threshold=0.99, memory_threshold=0.01, io_wait_threshold=0.99))
    alerts = """
[Resources] ⚠️ ALERTS:
  - GPU underutilized: 87.3% (threshold: 99%)
  - High memory usage: 50.0% (threshold: 1%)
"""
    assert capsys.readouterr().out == CONSOLE.replace("Batch 50", "Batch 0") + alerts


def test_what_is_not_known_is_a_dash_in_the_console(blocks: Blocks, capsys: pytest.CaptureFixture[str]) -> None:
    blocks.readings = [{"elapsed": 1.0, "job": {"cpu.percent": 12.0}, "host": {"cpu.iowait": 0.0}}]
    train(ResourceMonitorCallback())
    assert capsys.readouterr().out == (
        "[Resources] Batch 0:\n  CPU: –% (process: 12.0%)\n  I/O: Read – MB/s, Write – MB/s, Wait 0.0%\n"
    )


def test_a_terminal_without_unicode_gets_question_marks(
    blocks: Blocks, monkeypatch: pytest.MonkeyPatch, logged: Callable[[], list[str]]
) -> None:
    printed: list[str] = []

    def show(_module: Module, text: str) -> None:
        printed.append(text.encode("ascii").decode())

    monkeypatch.setattr(Module, "print", show)
    train(ResourceMonitorCallback())
    assert "72?C" in printed[0]
    assert logged() == []


def test_a_file_per_epoch_has_a_row_per_interval(blocks: Blocks, tmp_path: Path) -> None:
    train(ResourceMonitorCallback(log_interval=10), batches=25, epochs=2)
    for epoch in range(2):
        written = rows(tmp_path / f"resource_logs/epoch_{epoch}.csv")
        assert [row["step"] for row in written] == ["0", "10", "20"]
        assert list(written[0])[:8] == ["step", "timestamp", *(f"gpu_0_{name}" for name in GPU_NAMES)]
        assert written[0]["io_wait_pct"] == "5.3"
        assert written[0]["cpu_core_1_percent"] == "49.4"
        assert written[0]["net_recv_rate_mbps"] == "3.0"
        assert None not in written[0]  # no row is longer than the header


GPU_NAMES = ("util", "memory_used_mb", "memory_total_mb", "memory_pct", "temp_c", "power_w")


def test_what_is_not_known_is_empty_in_the_file(blocks: Blocks, tmp_path: Path) -> None:
    blocks.readings = [{"elapsed": 1.0, "job": {"cpu.percent": 12.0}}]
    train(ResourceMonitorCallback())
    (row,) = rows(tmp_path / "resource_logs/epoch_0.csv")
    assert (row["cpu_process_percent"], row["cpu_percent"], row["io_wait_pct"]) == ("12.0", "", "")


def test_a_gpu_that_is_read_later_is_in_the_same_file(blocks: Blocks, tmp_path: Path) -> None:
    late = READING | {"gpus": [*READING["gpus"], second_gpu(util=5.0)]}
    blocks.readings = [READING, late, late]
    train(ResourceMonitorCallback(log_interval=1), batches=3)
    written = rows(tmp_path / "resource_logs/epoch_0.csv")
    assert [row["gpu_1_util"] for row in written] == ["", "5.0", "5.0"]
    assert [row["gpu_0_util"] for row in written] == ["87.3"] * 3
    assert [path.name for path in (tmp_path / "resource_logs").iterdir()] == ["epoch_0.csv"]


def test_rows_of_an_earlier_training_stay_even_if_it_was_killed_in_the_middle_of_one(tmp_path: Path) -> None:
    path = tmp_path / "epoch_0.csv"
    path.write_text("step,timestamp,cpu_percent\n0,2025-10-07T10:00:00,45.2\n10,2025-10-07T10:0")
    EpochFile(path).append(0, "2025-10-08T10:00:00", {"memory_percent": 48.5}, ["memory_percent"])
    assert path.read_text().splitlines() == [
        "step,timestamp,cpu_percent,memory_percent",
        "0,2025-10-07T10:00:00,45.2,",
        "10,2025-10-07T10:0,,",
        "0,2025-10-08T10:00:00,,48.5",
    ]


def test_a_row_never_goes_on_behind_one_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "epoch_0.csv"
    path.write_text("step,timestamp,cpu_percent\n10,2025-10-07T10:0")
    EpochFile(path).append(0, "2025-10-08T10:00:00", {"cpu_percent": 48.5}, ["cpu_percent"])
    assert path.read_text().splitlines()[1:] == ["10,2025-10-07T10:0", "0,2025-10-08T10:00:00,48.5"]


def test_a_file_of_something_else_is_left_alone(
    blocks: Blocks, tmp_path: Path, logged: Callable[[], list[str]]
) -> None:
    (tmp_path / "resource_logs").mkdir()
    (tmp_path / "resource_logs/epoch_0.csv").write_text("name,score\nada,1\n")
    assert train(ResourceMonitorCallback(log_interval=1), batches=3) == 3
    assert (tmp_path / "resource_logs/epoch_0.csv").read_text() == "name,score\nada,1\n"
    assert len(logged()) == 1
    assert "timeseries_path" in logged()[0]


def test_export_timeseries_is_a_flag_and_a_method(blocks: Blocks, tmp_path: Path) -> None:
    callback = ResourceMonitorCallback(export_timeseries=False)
    train(callback)
    assert not callback.export_timeseries
    assert callback.export_timeseries == False  # noqa: E712 - as a setting is compared
    assert list(tmp_path.iterdir()) == []
    callback.current_epoch = 7
    callback.export_timeseries({"cpu_percent": 45.2}, 10)
    assert rows(tmp_path / "resource_logs/epoch_7.csv")[0]["cpu_percent"] == "45.2"
    callback.export_timeseries = True
    train(callback)
    assert (tmp_path / "resource_logs/epoch_0.csv").exists()


def test_groups_that_are_switched_off_are_not_written(blocks: Blocks, tmp_path: Path) -> None:
    train(ResourceMonitorCallback(gpu_monitoring=False, io_monitoring=False))
    (row,) = rows(tmp_path / "resource_logs/epoch_0.csv")
    assert not [name for name in row if name.startswith(("gpu", "io", "disk", "net"))]


def test_a_training_is_a_job_with_the_hyperparameters_of_its_module(blocks: Blocks) -> None:
    train(ResourceMonitorCallback())
    (block,) = blocks.opened
    assert (block.name, block.options["tool"]) == ("Module", "lightning")
    assert block.options["params"] == {"lr": 0.1, "layers": 3, "optimizer": "adam"}
    assert block.closed == (None, None)


def test_a_module_without_hyperparameters_has_no_params() -> None:
    assert simple_params(object()) == {}


@pytest.mark.parametrize(
    ("error", "closed"),
    [
        (ValueError("no data"), ("error", "ValueError: no data")),
        (KeyboardInterrupt(), ("cancelled", None)),
        (SystemExit(), ("cancelled", None)),
    ],
)
def test_a_training_that_fails_ends_its_job(blocks: Blocks, error: BaseException, closed: tuple[str, str]) -> None:
    callback = ResourceMonitorCallback()
    callback.setup(trainer(), Module(), "fit")
    callback.on_exception(trainer(), Module(), error)
    callback.teardown(trainer(), Module(), "fit")
    assert blocks.opened[0].closed == closed


def test_sys_exit_in_a_plain_loop_is_the_end_of_its_job(blocks: Blocks) -> None:
    for code, status in ((0, "success"), (3, "failed")):
        with pytest.raises(SystemExit), ResourceMonitor():
            sys.exit(code)
        assert blocks.opened[-1].closed == (status, None)


@pytest.mark.parametrize("broken", ["print", "file"])
def test_lines_and_files_do_not_need_each_other(
    blocks: Blocks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], broken: str
) -> None:
    def fail(*_: Any) -> None:
        raise OSError("it is gone")

    monkeypatch.setattr(*((Module, "print", fail) if broken == "print" else (EpochFile, "append", fail)))
    train(ResourceMonitorCallback())
    written = (tmp_path / "resource_logs/epoch_0.csv").exists()
    assert (capsys.readouterr().out != "", written) == (broken == "file", broken == "print")


def test_only_fit_is_a_job(blocks: Blocks) -> None:
    ResourceMonitorCallback().setup(trainer(), Module(), "validate")
    assert blocks.opened == []


def test_rank_zero_prints_and_every_rank_has_its_own_file(
    blocks: Blocks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(ResourceMonitorCallback(), rank=3, ranks=4)
    assert capsys.readouterr().out == ""
    assert [path.name for path in (tmp_path / "resource_logs").iterdir()] == ["epoch_0_rank_3.csv"]
    assert blocks.opened[0].options["tags"] == {"rank": "3", "ranks": "4"}


def test_the_sampler_is_asked_no_more_often_than_it_samples(blocks: Blocks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobtop.watching.SAMPLING_SECONDS", 3600.0)
    without_rates = {"elapsed": 0.1, "host": {"mem.total": MIB}}
    blocks.readings = [None, without_rates, READING, READING | {"elapsed": 9.0}, {}]
    train(ResourceMonitorCallback(log_interval=1), batches=10)
    assert [reading.get("elapsed") for reading in blocks.opened[0].readings] == [9.0, None]


def test_the_same_reading_again_has_no_new_traffic(blocks: Blocks, tmp_path: Path) -> None:
    later = READING | {"host": READING["host"] | {"cpu.percent": 80.0}, "elapsed": 4.0}
    later["host_counters"] = {"net.rx_bytes": 107 * MIB, "net.tx_bytes": 50 * MIB}
    blocks.readings = [READING, READING, later]
    train(ResourceMonitorCallback(log_interval=1), batches=3)
    written = rows(tmp_path / "resource_logs/epoch_0.csv")
    assert [row["net_recv_mb"] for row in written] == ["", "", "7.0"]
    assert [row["net_sent_mb"] for row in written] == ["", "", "0.0"]
    assert [row["disk_read_mb"] for row in written] == ["150.4", "", "0.0"]


def test_before_the_first_reading_nothing_is_printed_or_written(
    blocks: Blocks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks.readings = [None, READING]
    train(ResourceMonitorCallback(log_interval=1), batches=2)
    assert capsys.readouterr().out.startswith("[Resources] Batch 1:")
    assert [row["step"] for row in rows(tmp_path / "resource_logs/epoch_0.csv")] == ["1"]


@pytest.mark.parametrize("broken", ["open_block", "latest", "close", "print"])
def test_a_failure_of_the_monitor_is_logged_once_and_the_training_ends_as_without_it(
    blocks: Blocks, monkeypatch: pytest.MonkeyPatch, logged: Callable[[], list[str]], broken: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("the monitor is broken")

    places = {"open_block": "jobtop.tracking.open_block"}
    if broken in places:
        monkeypatch.setattr(places[broken], fail)
    else:
        monkeypatch.setattr(Module if broken == "print" else FakeBlock, broken, fail)
    assert train(ResourceMonitorCallback(log_interval=1), batches=5) == 5
    assert len(logged()) == 1
    assert "the monitor is broken" in logged()[0]


def test_a_sampler_that_does_not_answer_is_reported_once(
    blocks: Blocks, monkeypatch: pytest.MonkeyPatch, logged: Callable[[], list[str]]
) -> None:
    blocks.readings = [READING, None]
    train(ResourceMonitorCallback(log_interval=1), batches=5)
    assert logged() == []
    monkeypatch.setattr("jobtop.watching.SILENT_SECONDS", -1.0)
    train(ResourceMonitorCallback(log_interval=1), batches=5)
    assert len(logged()) == 1
    assert "no new numbers" in logged()[0]


def test_an_interruption_during_a_check_reaches_the_training(blocks: Blocks, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_block: FakeBlock) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(FakeBlock, "latest", interrupt)
    with pytest.raises(KeyboardInterrupt):
        train(ResourceMonitorCallback())


def test_switched_off_it_opens_nothing_prints_nothing_and_the_loader_stays_as_it_is(
    blocks: Blocks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    callback, loader = ResourceMonitorCallback(enabled=False), [1, 2]
    assert train(callback, batches=3) == 3
    assert callback.watch(loader) is loader
    assert callback.get_cpu_memory_metrics() == {}
    assert (blocks.opened, list(tmp_path.iterdir()), capsys.readouterr().out) == ([], [], "")


def test_switched_off_it_imports_nothing_of_the_engine() -> None:
    code = (
        "import sys; from jobtop.callback import ResourceMonitorCallback as C; c = C(enabled=False);"
        "c.setup(None, None, 'fit'); c.on_train_batch_end(None, None, None, None, 0); c.teardown(None, None, 'fit');"
        "print([name for name in sys.modules if name.startswith(('jobtop.tracking', 'jobtop.core', 'jobtop.store'))])"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert finished.stdout == "[]\n"


def test_a_wrong_interval_says_how_to_switch_the_monitor_off() -> None:
    with pytest.raises(ValueError, match="enabled=False"):
        ResourceMonitorCallback(log_interval=0)


def test_a_copy_of_a_running_callback_has_no_block(blocks: Blocks) -> None:
    callback = ResourceMonitorCallback(log_interval=3)
    callback.setup(trainer(), Module(), "fit")
    for copied in (copy.deepcopy(callback), pickle.loads(pickle.dumps(callback))):
        assert (copied.log_interval, copied.job_id) == (3, None)
        train(copied)
    assert [block.closed for block in blocks.opened] == [None, (None, None), (None, None)]


@pytest.fixture
def lightnings(monkeypatch: pytest.MonkeyPatch) -> list[type]:
    """The classes `Callback` of two Lightnings that are imported."""
    classes: list[type] = []
    for name in ("lightning.pytorch", "pytorch_lightning"):
        module = ModuleType(name)
        classes.append(type("Callback", (), {}))
        setattr(module, "Callback", classes[-1])  # noqa: B010 - a type checker does not know it
        monkeypatch.setitem(sys.modules, name, module)
    return classes


def test_it_is_a_callback_of_every_lightning_that_is_imported_when_it_is_made(lightnings: list[type]) -> None:
    class Own(ResourceMonitorCallback):
        pass

    for wanted in (ResourceMonitorCallback, Own):
        callback = wanted(log_interval=3)
        assert isinstance(callback, wanted)
        assert all(isinstance(callback, lightning) for lightning in lightnings)
        assert type(callback).__qualname__ == wanted.__qualname__  # its key in checkpoints
        assert type(wanted()) is type(callback)


def test_copies_are_callbacks_too(lightnings: list[type]) -> None:
    callback = ResourceMonitorCallback(log_interval=3)
    for copied in (copy.deepcopy(callback), pickle.loads(pickle.dumps(callback))):
        assert (copied.log_interval, type(copied)) == (3, type(callback))


def test_a_lightning_that_cannot_be_imported_is_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lightning", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    assert lightning_callbacks() == ()


def test_each_time_through_a_watched_loader_is_an_epoch(
    blocks: Blocks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[int] = []
    with ResourceMonitor(log_interval=2) as monitor:
        loader = monitor.watch([10, 11, 12])
        for _ in range(2):
            seen += list(loader)
    assert seen == [10, 11, 12] * 2
    for epoch in range(2):
        assert [row["step"] for row in rows(tmp_path / f"resource_logs/epoch_{epoch}.csv")] == ["0", "2"]
    assert capsys.readouterr().out.count("[Resources] Batch 2:") == 2
    assert [block.closed for block in blocks.opened] == [(None, None)]


def test_a_watched_loader_has_the_length_of_the_loader(blocks: Blocks) -> None:
    loader = ResourceMonitor().watch([1, 2, 3])
    assert len(loader) == 3  # type: ignore[arg-type]


def test_epochs_can_go_on_from_a_number(blocks: Blocks, tmp_path: Path) -> None:
    with ResourceMonitor() as monitor:
        list(monitor.watch(iter([1]), epoch=5))
        list(monitor.watch(iter([1])))
    assert sorted(path.name for path in (tmp_path / "resource_logs").iterdir()) == ["epoch_5.csv", "epoch_6.csv"]


def test_an_error_in_a_plain_loop_ends_its_job_and_passes_through(blocks: Blocks) -> None:
    def loader() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"), ResourceMonitor() as monitor:
        list(monitor.watch(loader()))
    assert blocks.opened[0].closed == ("error", "OSError: the disk is gone")


def test_a_question_outside_of_a_training_waits_for_the_first_reading(blocks: Blocks) -> None:
    blocks.readings = [None, None, READING]
    callback = ResourceMonitorCallback()
    assert callback.get_gpu_metrics()["gpu_0_util"] == 87.3
    assert callback.get_cpu_memory_metrics()["cpu_percent"] == 45.2
    assert callback.get_io_metrics()["io_wait_pct"] == 5.3
    assert len(blocks.opened) == 1
