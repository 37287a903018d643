"""BenchmarkRunner: runs the benchmark script of a tool several times and compares the runs, as Keystone's does."""

from __future__ import annotations

import json
import math
import os
import re
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jobtop.core.clock import iso
from jobtop.core.config import load
from jobtop.core.errors import BadValue, StoreUnavailable, UsageError, did_you_mean
from jobtop.core.model import Limits, Status
from jobtop.core.paths import hostname, make_private_dir
from jobtop.core.plain_files import UnsafeFile, read_plain
from jobtop.core.run.tools import required_tool
from jobtop.core.track.keystone import NAN, with_nan
from jobtop.lifecycle.submit import refuse_impossible
from jobtop.task_pipeline import Task, TaskPipeline, queue_tasks

DEVICES = ("cpu", "gpu")
# Programs for CUDA, ROCm and oneAPI see no GPU with these.
WITHOUT_GPUS = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": ""}
MEASURES = ("duration_seconds", "cpu_total_seconds", "memory_peak_mb")
MOST_RUNS = 1000
MOST_BYTES = 64 * 1024 * 1024  # of a saved result
FOLDER = "benchmarks"
# Student's t: a difference is larger than chance explains, in 95 of 100 cases, if it has more than so many standard
# errors; by the degrees of freedom from 1 on.
CLEAR_ERRORS = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)


class BenchmarkRunner:
    """Measures tools by their benchmark scripts, one run after the other, each a job of the queue.

    Results are saved in `results_dir`; by default in `benchmarks` below the state directory.
    """

    def __init__(self, results_dir: str | os.PathLike[str] | None = None) -> None:
        self._results_dir = None if results_dir is None else Path(results_dir)

    def run_benchmark(
        self,
        tool: str,
        device: str = "cpu",
        runs: int = 3,
        *,
        baseline: str | Mapping[str, Any] | None = None,
        save_as: str | None = None,
        script: str | None = None,
        params: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Run the benchmark script of a tool so many times; return the runs, their statistics and a comparison.

        The script gets the parameter `device`. On `cpu` GPUs are hidden from it; for `gpu` each run asks for one GPU.
        `baseline` is an earlier result, or the name that one was saved as; `script` replaces the script of the
        settings; TimeoutError if a run takes more than `timeout` seconds, its time in the queue included.
        """
        script = check_order(tool, device, runs, script)
        if save_as is not None:
            self._path(save_as)
        earlier = self.load(baseline) if isinstance(baseline, str) else baseline
        task = Task(tool, script, {**(params or {}), "device": device})
        started_at = time.time()
        results = [run_once(task, number, timeout) for number in range(1, runs + 1)]
        figures = {measure: spread([value_of(run, measure) for run in results]) for measure in MEASURES}
        result: dict[str, Any] = {
            "tool": tool,
            "device": device,
            "script": script,
            "params": results[0]["params"],  # as recorded, without secrets
            "host": hostname(),
            "started_at": iso(started_at),
            "runs": results,
            "successful_runs": sum(run["status"] == Status.SUCCESS for run in results),
            "statistics": figures,
            "comparison": None,
        }
        if earlier is not None:
            name = baseline if isinstance(baseline, str) else None
            result["comparison"] = compare(result, earlier, name)
        if save_as is not None:
            self.save(result, save_as)
        return result

    def compare_devices(
        self, tool: str, runs: int = 3, *, params: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> dict[str, Any]:
        """Run the benchmark of a tool on the CPU and on a GPU; `comparison` has the GPU against the CPU."""
        for device in DEVICES:
            check_order(tool, device, runs, None)
        options: dict[str, Any] = {"params": params, "timeout": timeout}
        on_cpu = self.run_benchmark(tool, "cpu", runs, **options)
        on_gpu = self.run_benchmark(tool, "gpu", runs, baseline=on_cpu, **options)
        return {"tool": tool, "cpu": on_cpu, "gpu": on_gpu, "comparison": on_gpu["comparison"]}

    def save(self, result: Mapping[str, Any], name: str) -> Path:
        """Save a result under a name, in place of an earlier one; NaN is null in the file, which is returned."""
        path = self._path(name)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            make_private_dir(path.parent)
            with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                json.dump(without_nan(result), file, indent=2, ensure_ascii=False, allow_nan=False)
            unfinished.replace(path)
        except OSError as error:
            raise StoreUnavailable(f"{path}: cannot be written: {error.strerror}") from error
        return path

    def load(self, name: str) -> dict[str, Any]:
        """The result that was saved under a name; UsageError names the nearest one if there is none."""
        path = self._path(name)
        try:
            found = json.loads(read_plain(path, MOST_BYTES))
        except FileNotFoundError:
            hint = did_you_mean(name, self.saved())
            raise UsageError(f'no benchmark is saved as "{name}" in {path.parent}{hint}') from None
        except (OSError, UnsafeFile, ValueError, RecursionError) as error:
            raise UsageError(f"{path}: cannot be read as a benchmark: {error}") from None
        if not isinstance(found, dict):
            raise UsageError(f"{path}: is not a benchmark")
        result: dict[str, Any] = with_nan(found) | {"comparison": found.get("comparison")}
        return result

    def saved(self) -> list[str]:
        """The names of the saved results."""
        return sorted(path.stem for path in self._folder().glob("*.json"))

    def _folder(self) -> Path:
        if self._results_dir is not None:
            return self._results_dir
        return Path(load((), os.environ, os.getcwd()).text("store.dir")) / FOLDER

    def _path(self, name: str) -> Path:
        if not re.fullmatch(r"[\w][\w.@+-]{0,99}", name):
            raise BadValue(f'"{name[:100]}" cannot name a benchmark: use letters, digits and . _ @ + -')
        return self._folder() / f"{name}.json"


def check_order(tool: str, device: str, runs: Any, script: str | None) -> str:
    """The script to run; JobtopError before the first run if it cannot work."""
    if device not in DEVICES:
        raise BadValue(f'device: "{device}" is not one of {", ".join(DEVICES)}{did_you_mean(device, DEVICES)}')
    if isinstance(runs, bool) or not isinstance(runs, int) or not 1 <= runs <= MOST_RUNS:
        raise BadValue(f"runs: {runs!r} is not a number from 1 to {MOST_RUNS}")
    found = required_tool(load((), os.environ, os.getcwd()), tool, os.environ)
    if device == "gpu":
        refuse_impossible(Limits(gpus=1))
    script = script or found.benchmark
    if script is None:
        raise UsageError(
            f'the tool "{tool}" has no benchmark: add benchmark = "SCRIPT" to its [[tool]], or give script='
        )
    return script


def run_once(task: Task, number: int, timeout: float | None) -> dict[str, Any]:
    """Run the script once, and return its result with the number of the run."""
    on_gpu = task.params["device"] == "gpu"
    (task_id,) = queue_tasks(
        [task],
        limits=Limits(gpus=1) if on_gpu else Limits(),
        tags={"benchmark": task.tool, "device": str(task.params["device"]), "run": str(number)},
        env={} if on_gpu else WITHOUT_GPUS,
    )
    return {"run_number": number} | TaskPipeline().wait_for_task(task_id, timeout)


def value_of(run: Mapping[str, Any], measure: str) -> float:
    """A measure of one run; NaN of one that failed, because it did not do all the work."""
    if run["status"] != Status.SUCCESS:
        return NAN
    return float(run[measure] if measure in run else run["resource_usage"][measure])


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean, median, least, greatest and standard deviation of the known values; NaN where there are too few."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return {"count": 0} | dict.fromkeys(("mean", "median", "min", "max", "stdev"), NAN)
    return {
        "count": len(known),
        "mean": statistics.fmean(known),
        "median": statistics.median(known),
        "min": min(known),
        "max": max(known),
        "stdev": statistics.stdev(known) if len(known) > 1 else NAN,
    }


def compare(result: Mapping[str, Any], baseline: Mapping[str, Any], name: str | None = None) -> dict[str, Any]:
    """The means of a result against those of an earlier one; `speedup` above 1 means faster than it.

    `is_clear` says whether a difference is larger than chance explains; None with fewer than two runs on a side.
    """
    try:
        return {
            "baseline": name,
            "baseline_device": baseline["device"],
            "baseline_started_at": baseline["started_at"],
            "same_script": baseline["script"] == result["script"],
            "same_host": baseline["host"] == result["host"],
            "speedup": ratio(
                baseline["statistics"]["duration_seconds"]["mean"], result["statistics"]["duration_seconds"]["mean"]
            ),
            **{
                measure: difference(baseline["statistics"][measure], result["statistics"][measure])
                for measure in MEASURES
            },
        }
    except (KeyError, TypeError) as error:
        raise UsageError(f"baseline: is not a result of run_benchmark ({error})") from None


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """How one measure changed."""
    change = now["mean"] - before["mean"]
    is_clear = None
    fewest = min(before["count"], now["count"])
    if fewest > 1:
        error = math.sqrt(before["stdev"] ** 2 / before["count"] + now["stdev"] ** 2 / now["count"])
        is_clear = abs(change) > CLEAR_ERRORS[min(fewest - 1, len(CLEAR_ERRORS)) - 1] * error
    share = ratio(now["mean"], before["mean"])
    return {
        "baseline": before["mean"],
        "current": now["mean"],
        "change": change,
        "change_percent": 100 * (share - 1),
        "is_clear": is_clear,
    }


def ratio(number: float, by: float) -> float:
    return number / by if by else NAN


def without_nan(value: Any) -> Any:
    """The same as JSON has it: NaN and infinity are null."""
    if isinstance(value, Mapping):
        return {str(key): without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
