"""ResourceMonitorCallback in real trainings of Lightning on the CPU: numbers, files, failures, several ranks."""

import csv
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nvml import GIBIBYTE, FakeGpu, fake_nvml
from support import ROOT, clean_environment, long_test, require

PYTHON = ROOT / "build/lightning/bin/python"
pytestmark = [long_test, pytest.mark.timeout(300)]

# Each item costs a known time of the CPU, in a worker of the DataLoader.
MODEL = """
import contextlib, io, json, os, resource, signal, sys, time
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, Dataset
from jobtop import ResourceMonitorCallback

ITEMS, EPOCHS, ITEM_SECONDS = 120, 3, 0.01

class Noise(Dataset):
    def __len__(self):
        return ITEMS
    def __getitem__(self, number):
        end = time.thread_time() + ITEM_SECONDS
        while time.thread_time() < end:
            pass
        generator = torch.Generator().manual_seed(number)
        return torch.randn(16, generator=generator), torch.tensor(float(number % 2))

class Net(pl.LightningModule):
    def __init__(self, lr=0.01):
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(16, 1)
    def training_step(self, batch, number):
        x, y = batch
        return torch.nn.functional.mse_loss(self.layer(x).squeeze(1), y)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), self.hparams.lr)

class Wait(pl.Callback):
    def __init__(self, monitor, gpus):
        self.monitor, self.gpus = monitor, gpus
    def on_train_epoch_start(self, trainer, module):
        end = time.monotonic() + 60
        while trainer.current_epoch == EPOCHS - 1 and not self.is_read() and time.monotonic() < end:
            time.sleep(0.05)
    def is_read(self):
        reading = self.monitor._newest() or {}
        return "cpu.percent" in reading.get("job", {}) and len(reading.get("gpus", ())) == self.gpus

def fit(*callbacks, **options):
    pl.seed_everything(1)
    quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer = pl.Trainer(max_epochs=EPOCHS, accelerator="cpu", callbacks=list(callbacks), **quiet, **options)
    model, printed = Net(), io.StringIO()
    with contextlib.redirect_stdout(printed):
        trainer.fit(model, DataLoader(Noise(), 4, num_workers=2))
    return {"weights": model.layer.weight.flatten().tolist(), "printed": printed.getvalue()}
"""
TRAININGS = """
def cpu(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime

class KillSampler(pl.Callback):
    def on_train_epoch_start(self, trainer, module):
        wanted = ["jobtop.lifecycle.tracking.sampler", str(os.getpid())]
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                words = open(f"/proc/{pid}/cmdline").read().split(chr(0))
                if all(word in words for word in wanted):
                    os.kill(int(pid), signal.SIGKILL)
                    results["killed"] = results.get("killed", 0) + 1

class Fails(Exception):
    pass

class Fail(pl.Callback):
    def on_train_batch_end(self, *_):
        raise Fails("no more data")

item_seconds, ITEM_SECONDS = ITEM_SECONDS, 0.001
results = {"without": fit()}
ITEM_SECONDS = item_seconds
before = cpu(resource.RUSAGE_SELF) + cpu(resource.RUSAGE_CHILDREN)
callback = ResourceMonitorCallback(log_interval=5, gpu_util_threshold=0.99, memory_threshold=0.0001)
results["watched"] = fit(callback, Wait(callback, gpus=2))
results["cpu"] = cpu(resource.RUSAGE_SELF) + cpu(resource.RUSAGE_CHILDREN) - before
ITEM_SECONDS = 0.001
results["killed_sampler"] = fit(ResourceMonitorCallback(timeseries_path="killed"), KillSampler())
try:
    fit(ResourceMonitorCallback(timeseries_path="failed"), Fail())
except Fails:
    results["failed"] = "passed through"
home, os.environ["JOBTOP_HOME"] = os.environ["JOBTOP_HOME"], "/dev/null/no-state"
results["no_state"] = fit(ResourceMonitorCallback(timeseries_path="/dev/null/no-files", log_interval=1))
results["left"] = [thread.name for thread in __import__("threading").enumerate()]
json.dump(results, open("results.json", "w"))
"""
RANKS = """
if __name__ == "__main__":
    EPOCHS, ITEM_SECONDS, callback = 1, 0.001, ResourceMonitorCallback(log_interval=1)
    shown = fit(callback, Wait(callback, gpus=0), devices=2, strategy="ddp")["printed"]
    open(f"printed_{os.environ.get('LOCAL_RANK', '0')}", "w").write(shown)
"""


def run(home: Path, program: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program with Lightning below a home of its own; PyTorch computes in one thread."""
    (home / "train.py").write_text(program)
    environment = clean_environment(home) | {"OMP_NUM_THREADS": "1", **(env or {})}
    command = [str(PYTHON), "train.py"]
    return subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=240)


@pytest.fixture(scope="module", autouse=True)
def lightning() -> None:
    if not PYTHON.exists():
        require("torch", "there is no build/lightning: tools/make-lightning makes it")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    """Trainings in one process: the directory, what they printed and used, and the error output."""
    home = tmp_path_factory.mktemp("lightning")
    nvml = fake_nvml(home)
    nvml.show(FakeGpu("GPU-a", busy=87, used=8 * GIBIBYTE, total=16 * GIBIBYTE, celsius=72, watts=180.5))
    nvml.show(FakeGpu("GPU-b", busy=3, celsius=85))
    finished = run(home, MODEL + TRAININGS, nvml.env)
    assert finished.returncode == 0, finished.stderr
    return home, json.loads((home / "results.json").read_text()), finished.stderr


def records(home: Path) -> list[dict[str, Any]]:
    """The jobs in the history of a home, oldest first."""
    listed = ["-m", "jobtop", "history", "--json", "--limit", "50"]
    finished = subprocess.run(
        [str(PYTHON), *listed], env=clean_environment(home), capture_output=True, text=True, timeout=60, check=True
    )
    found: list[dict[str, Any]] = json.loads(finished.stdout)
    return sorted(found, key=lambda job: str(job["start_time"]))


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_epoch_has_its_file_with_all_gpus(trained: tuple[Path, dict[str, Any], str]) -> None:
    home, _, _ = trained
    written = [rows(home / f"resource_logs/epoch_{epoch}.csv") for epoch in range(3)]
    last = written[-1][-1]
    assert [row["step"] for row in written[-1]] == ["0", "5", "10", "15", "20", "25"]
    assert (last["gpu_0_util"], last["gpu_0_memory_pct"], last["gpu_0_temp_c"]) == ("87", "50.0", "72")
    assert last["gpu_1_util"] == "3"
    assert all(float(last[name]) >= 0 for name in ("cpu_percent", "io_wait_pct", "net_recv_rate_mbps"))
    assert float(last["memory_process_mb"]) > 50
    assert float(last["cpu_process_percent"]) > 10


def test_the_console_has_the_blocks_of_the_ocr_callback(trained: tuple[Path, dict[str, Any], str]) -> None:
    _, results, _ = trained
    shown = results["watched"]["printed"]
    block = (
        r"\[Resources\] Batch 25:\n"
        r"  GPU 0: 87\.0% util, 8192/16384 MB \(50%\), 72°C\n"
        r"  GPU 1: 3\.0% util, 1024/81920 MB \(1%\), 85°C\n"
        r"  CPU: \d+\.\d% \(process: \d+\.\d%\)\n"
        r"  Memory: \d+/\d+ MB available \(\d+%\)\n"
        r"  I/O: Read \d+\.\d MB/s, Write \d+\.\d MB/s, Wait \d+\.\d%\n"
        r"\n"
        r"\[Resources\] ⚠️ ALERTS:\n"
        r"  - GPU 0 underutilized: 87\.0% \(threshold: 99%\)\n"
        r"  - GPU 1 underutilized: 3\.0% \(threshold: 99%\)\n"
        r"  - High memory usage: \d+\.\d% \(threshold: 0\.01%\)\n"
    )
    assert re.search(block, shown), shown


def test_the_workers_of_the_data_loader_are_counted(trained: tuple[Path, dict[str, Any], str]) -> None:
    home, results, _ = trained
    job = records(home)[0]
    by_workers = 120 * 3 * 0.01
    assert (job["name"], job["tool"], job["params"], job["status"]) == ("Net", "lightning", {"lr": 0.01}, "success")
    assert by_workers < job["resource_usage"]["cpu_total_seconds"] <= results["cpu"]
    assert job["resource_usage"]["processes_peak"] >= 3


@pytest.mark.parametrize("broken", ["watched", "killed_sampler", "no_state"])
def test_a_training_ends_as_without_the_callback(trained: tuple[Path, dict[str, Any], str], broken: str) -> None:
    _, results, _ = trained
    assert results[broken]["weights"] == results["without"]["weights"]


def test_a_monitor_that_fails_says_so_once(trained: tuple[Path, dict[str, Any], str]) -> None:
    _, results, errors = trained
    assert results["killed"] == 1
    assert results["no_state"]["printed"] == ""
    warnings = [line for line in errors.splitlines() if "block Net" in line]
    assert warnings
    assert len(set(warnings)) == len(warnings), errors  # though there are 90 batches
    assert "Traceback" not in errors
    assert results["left"] == ["MainThread"]


def test_a_training_that_fails_is_a_job_with_its_error(trained: tuple[Path, dict[str, Any], str]) -> None:
    home, results, _ = trained
    job = records(home)[-1]
    assert (results["failed"], job["status"], job["error"]) == ("passed through", "error", "Fails: no more data")


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs/lightning.md").read_text(encoding="utf-8")
    (example,) = [code for code in re.findall(r"(?ms)^```python\n(.*?)^```$", page) if "pl.Trainer" in code]
    finished = run(tmp_path, example)
    assert finished.returncode == 0, finished.stderr
    (job,) = records(tmp_path)
    assert (job["name"], job["status"], job["params"]) == ("Classifier", "success", {"lr": 0.01})


def test_each_rank_is_a_job_with_its_own_files_and_rank_zero_prints(tmp_path: Path) -> None:
    finished = run(tmp_path, MODEL + RANKS)
    assert finished.returncode == 0, finished.stderr
    assert {path.name for path in (tmp_path / "resource_logs").iterdir()} == {"epoch_0.csv", "epoch_0_rank_1.csv"}
    assert "[Resources] Batch" in (tmp_path / "printed_0").read_text()
    assert (tmp_path / "printed_1").read_text() == ""
    assert sorted(job["tags"]["rank"] for job in records(tmp_path)) == ["0", "1"]
