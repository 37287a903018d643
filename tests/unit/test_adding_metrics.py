"""The examples of CONTRIBUTING.md: a copy of the code is changed as they say, and has the new numbers."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import ROOMS, ROOT

PLACED = re.compile(r"# (?P<path>\S+?)(?:, (?P<side>above|below): (?P<line>.+))?")

SAMPLE_OF_A_JOB = """
import sys, time
from pathlib import Path
from jobtop.core.measure.sampler import Sampler
from jobtop.core.measure.sources import Options
from jobtop.core.metrics import JOB_COLUMNS
from processes import FakeProc, below

fake = FakeProc(Path(sys.argv[1]))
fake.put(1, 0)
fake.put(50, 1)
for pid, nanoseconds in ((51, 2_000_000_000), (52, 500_000_000)):
    fake.put(pid, 50, cpu=1.0)
    (fake.root / str(pid) / "schedstat").write_text(f"1 {nanoseconds} 7\\n")
sampler = Sampler(lambda _: None, 100.0, options=Options(proc=str(fake.root)))
sampler.table.clock = fake.clock
sampler.watch("job", below(50, time.clock_gettime(time.CLOCK_BOOTTIME) - 100), interval=1.0)
[(_, sample)] = sampler.tick().samples
sampler.stop()
print(sample.values[JOB_COLUMNS.index("cpu.waiting")])
"""

READINGS_OF_DEVICES = """
import sys, time
from pathlib import Path
from jobtop.core.measure.sampler import Sampler
from jobtop.core.measure.sources import Options
from jobtop.core.model import Identity
from jobtop.core.measure.target import Target

machine = Path(sys.argv[1])
for core, kilohertz in (("cpu0", 2_400_000), ("cpu1", 800_000)):
    (machine / "sys/devices/system/cpu" / core / "cpufreq").mkdir(parents=True)
    (machine / "sys/devices/system/cpu" / core / "cpufreq/scaling_cur_freq").write_text(f"{kilohertz}\\n")
now = 0.0
sampler = Sampler(lambda _: None, options=Options(str(machine / "proc"), str(machine / "sys")), monotonic=lambda: now)
sampler.record_host(True)
found, end = {}, time.monotonic() + 10
while not found and time.monotonic() < end:
    now += 1.0
    found = {device.name: values for device, _, values in sampler.tick().devices if "cpu.clock" in values}
sampler.stop()
print(sorted(found.items()))
"""


def examples(title: str) -> list[str]:
    """The blocks of code of an example on the page; each begins with a comment that says where it goes."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = re.split(r"(?m)^\*\*|^## ", page.partition(f"**{title}**")[2], maxsplit=1)[0]
    code = "\n".join(line.removeprefix("    ") for line in section.splitlines() if line.startswith("    ") or not line)
    return [part.strip("\n") + "\n" for part in re.split(r"(?m)(?=^# core/)", code) if part.strip()]


def apply(example: str, checkout: Path) -> None:
    """Put a block where its first line says: into a new file, or above or below a line of an old one."""
    place, _, code = example.partition("\n")
    match = PLACED.fullmatch(place)
    assert match is not None, place
    path = checkout / match["path"]
    if match["side"] is None:
        path.write_text(code)
        return
    text, line = path.read_text(), match["line"] + "\n"
    assert text.count(line) == 1, line
    path.write_text(text.replace(line, f"{code}\n\n{line}" if match["side"] == "above" else line + code))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The package as it is installed, with a copy of the core to change."""
    package = tmp_path / "checkout/jobtop"
    package.mkdir(parents=True)
    for entry in (*(ROOT / "jobtop").glob("*.py"), *(ROOT / room for room in ROOMS if room != "core")):
        (package / entry.name).symlink_to(entry)
    shutil.copytree(ROOT / "core", package / "core", ignore=shutil.ignore_patterns("__pycache__"))
    return package


@pytest.mark.parametrize(
    ("title", "program", "answer"),
    [
        ("Add a metric of a process", SAMPLE_OF_A_JOB, "2.5"),
        (
            "Add a metric of a device",
            READINGS_OF_DEVICES,
            "[('0', {'cpu.clock': 2400000000}), ('1', {'cpu.clock': 800000000})]",
        ),
    ],
)
def test_a_metric_is_added_as_the_example_says(
    title: str, program: str, answer: str, checkout: Path, tmp_path: Path
) -> None:
    blocks = examples(title)
    assert len(blocks) >= 3
    for example in blocks:
        apply(example, checkout)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(checkout.parent), str(ROOT / "tests")])}
    command = [sys.executable, "-c", program, str(tmp_path / "machine")]
    finished = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip() == answer
