"""Every file of every source missing, empty, torn, denied or vanishing: values are absent or true.

A fault is there from the first reading on, or in the second one of three.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from faulty import FAULTS, LISTING_FAULTS, Reads, flat
from faulty_machines import MACHINES, READINGS, FaultyMachine

from jobtop.core.measure.collectors.process_fields import FIELDS, Presence

AMD, INTEL = "/sys/class/drm/card1/device", "/sys/class/drm/card0/device"
Values = dict[tuple[str, ...], object]
MEMORY = "/dev/shm"  # many small writes: on a disk they take ten times as long
# Most faults are there from the first reading on; some come and go.
WHEN = {
    "ESRCH": ((0, 1), (1,)),
    "torn": ((0, 1), (1,)),
    "ENODEV": ((1,),),
    "huge": ((1,),),
}
# A source raises these and has no values then; the reason names the file, or what is not known.
PROBLEMS = r"EnergyError: {place}: .|\w*Error: .*'{place}'"
SUMS_OF_SOME = {field.key for field in FIELDS if field.presence is Presence.SOME}
# Where a file that is missing means another machine, which has other numbers.
NO_SUCH_FILE: dict[tuple[str, str], Values] = {
    # Without sensor chips the thermal zones are left; a chip may have fewer sensors.
    ("/sys/class/hwmon", "missing"): {("host", "temp"): 80.0},
    ("/sys/class/hwmon/hwmon1/temp1_input", "missing"): {("host", "temp"): 61.0},
    # A battery without a scope is the machine's own.
    ("/sys/class/power_supply/hidpp_battery_0/scope", "missing"): {
        ("battery", "hidpp_battery_0", "battery.charge"): 50
    },
    # A card that does not tell how its fan is driven has the measured speed; without its own counter, its package's.
    **{
        (f"{AMD}/hwmon/hwmon4/pwm1", fault): {("gpu", "amd0-03:00.0", "gpu.fan"): pytest.approx(100 * 870 / 3300)}
        for fault in ("missing", "denied")
    },
    (f"{INTEL}/hwmon/hwmon5/energy1_input", "missing"): {("gpu", "intel0-03:00.0", "energy.gpu"): 4000.0},
}
PROCESS = re.compile(r"/proc/\d+/stat$")
# Files of another source.
OTHERS_FILES = {"energy": r"/proc/\d+/", "drm amd": r"/proc/\d+/(stat|io)", "drm intel": r"/proc/\d+/(stat|io)"}
ALIKE = ("missing", "denied")  # of a file that one code reads together with others of its kind
Steps = list[Values | str]


@pytest.fixture
def root(name: str) -> Iterator[Path]:
    """A directory that every user can enter."""
    in_memory = os.path.isdir(MEMORY) and name != "files"  # no file in /dev is data
    with tempfile.TemporaryDirectory(prefix="jobtop-tests-", dir=MEMORY if in_memory else None) as directory:
        os.chmod(directory, 0o755)
        yield Path(directory)


def run(
    machine: FaultyMachine,
    reads: Reads,
    path: str = "",
    fault: str = "",
    faulty: tuple[int, ...] = (),
    reasons: list[dict[str, str]] | None = None,
) -> Steps:
    """What a source returns in each reading, or its error; one file has a fault in some of the readings.

    `reasons` gets why values of the host are absent, a list for each reading.
    """
    steps: Steps = []
    reasons = [] if reasons is None else reasons
    machine.advance(0)
    with reads.faulty(path, fault) if 0 in faulty else nullcontext():
        machine.start()
        is_available = machine.available() is None
    for step in range(2 if 0 in faulty else READINGS):
        if step:
            machine.advance(step)
        with reads.faulty(path, fault) if step in faulty else nullcontext():
            try:
                steps.append(flat(machine.collect()) if is_available else {})
                reasons.append(machine.reasons())
            except Exception as error:  # noqa: BLE001 - what the border of a source turns into its problem
                steps.append(f"{type(error).__name__}: {error}")
    machine.close()
    return steps


def differences(place: str, fault: str, found: Steps, truth: Steps) -> Iterator[str]:
    """What is wrong in the readings with a fault."""
    elsewhere = NO_SUCH_FILE.get((place, fault), {})
    for step, (values, true) in enumerate(zip(found, truth, strict=False)):
        assert isinstance(true, dict)
        if isinstance(values, str):
            if not re.match(PROBLEMS.replace("{place}", f".*{re.escape(place)}"), values):
                yield f"reading {step}: {values}"
            continue
        for key, value in values.items():
            if (
                value != elsewhere.get(key, true.get(key))
                and not is_partial(key, value, true.get(key))
                and not is_renamed(place, key, values, true)
                and not lacks_energy(key, values, truth[0])
                and key[0] != "incomplete"
            ):
                yield f"reading {step}: {key} is {value}, not {true.get(key)}"


def unexplained(place: str, found: Steps, truth: Steps, reasons: list[dict[str, str]]) -> Iterator[str]:
    """The values of the host that are absent without a reason that names the file."""
    for step, (values, true, said) in enumerate(zip(found, truth, reasons, strict=False)):
        for key in () if isinstance(values, str) or isinstance(true, str) else true.keys() - values.keys():
            if key[0] == "host" and said and place not in said.get(key[1], ""):
                yield f"reading {step}: {key} is absent, and the reason is {said.get(key[1])}"


def is_partial(key: tuple[str, ...], value: object, true: object) -> bool:
    """Whether a value is by design the sum over what could be read: I/O, swap and open files of other processes."""
    return key[-1] in SUMS_OF_SOME and isinstance(value, int) and isinstance(true, int) and 0 < value < true


def is_renamed(place: str, key: tuple[str, ...], values: Values, true: Values) -> bool:
    """Whether it is the true value of a sensor that has the name of its file, since its label cannot be read."""
    lost = [true[other] for other in true.keys() - values.keys() if other[-1] == key[-1]]
    is_named_by_file = key[1].endswith(f" {os.path.basename(place).removesuffix('_label')}")
    return place.endswith("_label") and key not in true and is_named_by_file and lost == [values[key]]


def lacks_energy(key: tuple[str, ...], values: Values, first: Values | str) -> bool:
    """Whether it is the energy of a job without the two steps around a failed reading, and marked as incomplete."""
    is_marked = key[0] == "job" and ("incomplete", key[1], "energy_gpu") in values
    return key[-1] == "energy.gpu" and is_marked and not isinstance(first, str) and values[key] == first.get(key)


@pytest.mark.parametrize("name", MACHINES)
def test_a_fault_makes_values_absent_and_never_wrong(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = MACHINES[name](root)
    reads = Reads(root, monkeypatch)
    truth = run(machine, reads)
    assert all(isinstance(step, dict) for step in truth), truth
    assert truth[-1]
    others = re.compile(OTHERS_FILES.get(name, "^$"))
    chosen = (path for path in sorted(reads.files) if not others.match(path.removeprefix(str(root))))
    files, directories = list(chosen), sorted(filter(os.path.isdir, reads.directories))
    wrong: list[str] = []
    kinds: set[str] = set()
    for path, faults in [(path, FAULTS) for path in files] + [(path, LISTING_FAULTS) for path in directories]:
        place = path.removeprefix(str(root))
        kind = re.sub(r"\d+", "#", place)
        for fault in faults if kind not in kinds else ALIKE:
            for faulty in WHEN.get(fault, ((0, 1),)):
                reasons: list[dict[str, str]] = []
                found = run(machine, reads, path, fault, faulty, reasons)
                wrong += [f"{place}: {fault} in {faulty}: {text}" for text in unexplained(place, found, truth, reasons)]
                if PROCESS.search(place):  # a process whose `stat` cannot be read has exited, and nothing else
                    gone = run(machine, reads, os.path.dirname(path), "missing", faulty)
                    found = [truth[at] if step == gone[at] else step for at, step in enumerate(found)]
                wrong += [f"{place}: {fault} in {faulty}: {text}" for text in differences(place, fault, found, truth)]
        kinds.add(kind)
    assert not wrong, "\n".join(wrong)
