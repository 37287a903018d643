"""Measures a training of Lightning on the CPU: what the callback costs of its wall time.

The cost is the wall time in the callback's hooks, in which the training stands still, and the CPU time of the sampler
process. Both are measured in the training itself, so that other load on the machine matters little.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.installation import Installation, environment
from benchmarks.report import BenchmarkResult, MeasurementError
from benchmarks.stopwatch import LONGEST_SECONDS

PYTHON = Path(__file__).resolve().parent.parent / "build/lightning/bin/python"
SECONDS, MOST_OF_WALL_TIME = 120, 0.01

PROGRAM = """\
import contextlib, functools, io, json, sys, time
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset
from jobtop import ResourceMonitorCallback

HOOKS = ("setup", "on_train_epoch_start", "on_train_batch_end", "teardown")

class Timed(ResourceMonitorCallback):
    seconds, job = 0.0, None

def timed(name):
    inner = getattr(ResourceMonitorCallback, name)
    @functools.wraps(inner)
    def hook(self, *args, **kwargs):
        begin = time.perf_counter()
        inner(self, *args, **kwargs)
        self.seconds += time.perf_counter() - begin
        self.job = self._block or self.job
    return hook

for name in HOOKS:
    setattr(Timed, name, timed(name))

class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(16, 16, 3),
            torch.nn.Flatten(), torch.nn.Linear(16 * 13 * 13, 10),
        )
    def training_step(self, batch, number):
        return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)

images = TensorDataset(torch.randn(6400, 3, 32, 32), torch.randint(10, (6400,)))
callback = Timed()
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer = pl.Trainer(
    max_time={"seconds": int(sys.argv[1])}, max_epochs=-1, accelerator="cpu", callbacks=[callback], **quiet
)
begin = time.perf_counter()
with contextlib.redirect_stdout(io.StringIO()):
    trainer.fit(Net(), DataLoader(images, 64, num_workers=2, persistent_workers=True))
wall = time.perf_counter() - begin
sampler = callback.job.record["monitor"]["cpu_seconds"]
print(json.dumps({"wall": wall, "hooks": callback.seconds, "sampler": sampler, "batches": trainer.global_step}))
"""


def measure_training(_tools: Installation, work: Path, rounds: int) -> Iterator[BenchmarkResult]:
    trainings = [train(work / f"training-{number}", SECONDS) for number in range(rounds)]
    walls = [training["wall"] for training in trainings]
    hooks, sampler = ([training[part] for training in trainings] for part in ("hooks", "sampler"))
    costs = [sum(parts) for parts in zip(hooks, sampler, strict=True)]
    rival = "of wall time"
    what = f"a training of {SECONDS} s with the callback"
    yield BenchmarkResult(what, "seconds", costs, walls, rival, MOST_OF_WALL_TIME)
    yield BenchmarkResult("  in its hooks", "seconds", hooks, walls, rival)
    yield BenchmarkResult("  CPU time of the sampler", "seconds", sampler, walls, rival)


def train(home: Path, seconds: int) -> dict[str, float]:
    """Train once, and return the seconds of the training, of the hooks and of the sampler."""
    if not PYTHON.exists():
        raise MeasurementError("there is no build/lightning: tools/make-lightning makes it")
    home.mkdir()
    finished = subprocess.run(
        [str(PYTHON), "-c", PROGRAM, str(seconds)],
        env=environment(home),
        cwd=home,
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
        check=False,
    )
    if finished.returncode != 0:
        raise MeasurementError(f"the training failed: {finished.stderr.strip()[-300:]}")
    found: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    if found["sampler"] is None:
        raise MeasurementError("the sampler did not say what it used")
    return found
