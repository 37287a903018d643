"""What the doctor finds of GPUs of AMD, Intel and others, on captured machines."""

from pathlib import Path

import pytest
from drm import DATA, plant

from jobtop.core.doctor import drm_gpus
from jobtop.core.doctor.checks import Finding, MachineFiles, State
from jobtop.core.measure.collectors.gpu import drm_cards


def by_name(machine_files: MachineFiles) -> dict[str, Finding]:
    return {finding.name: finding for finding in drm_gpus.drm_findings(machine_files)}


@pytest.mark.parametrize(
    ("tree", "name", "words"),
    [
        ("amd-dgpu", "AMD GPUs", "03:00.0 (amdgpu): utilisation, memory, temperature, power, clock, energy"),
        ("amd-asleep", "AMD GPUs", "asleep"),
        ("intel-i915", "Intel GPUs", "00:02.0 (i915): utilisation, clock"),
        ("intel-xe", "Intel GPUs", "03:00.0 (xe): utilisation, temperature, power, clock, energy"),
        ("panfrost", "other GPUs", "fde60000.gpu (panfrost): only what jobs use"),
    ],
)
def test_a_card_that_is_read_is_told_with_what_is_read(
    machine_files: MachineFiles, tree: str, name: str, words: str
) -> None:
    plant(Path(machine_files.path("sys")), tree)
    found = by_name(machine_files)[name]
    assert (found.state, found.remedy) == (State.WORKS, None)
    assert words in found.meaning


def test_a_card_with_files_that_cannot_be_read_fails_with_the_reason(machine_files: MachineFiles) -> None:
    sys_files = plant(Path(machine_files.path("sys")), "amd-dgpu")
    device = (sys_files / "class/drm/card1/device").resolve()
    for path in device.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.name not in ("vendor", "runtime_status"):
            path.write_text("")
    found = by_name(machine_files)["AMD GPUs"]
    assert found.state is State.FAILS
    assert "empty" in found.meaning


def test_a_card_that_sleeps_is_not_opened(machine_files: MachineFiles) -> None:
    cards = drm_cards.find_cards(str(plant(Path(machine_files.path("sys")), "amd-asleep")))
    assert drm_gpus.jobs_on_gpus(cards, machine_files).state is State.ABSENT


def test_whether_jobs_on_a_gpu_are_known_is_tried(machine_files: MachineFiles) -> None:
    sys_files = plant(Path(machine_files.path("sys")), "amd-dgpu")
    cards = drm_cards.find_cards(str(sys_files))
    missing = drm_gpus.jobs_on_gpus(cards, machine_files)
    assert (missing.state, "--device /dev/dri" in str(missing.remedy)) == (State.FAILS, True)
    node = Path(machine_files.path("dev/dri/renderD128"))
    node.parent.mkdir(parents=True)
    node.write_text("")
    assert drm_gpus.jobs_on_gpus(cards, machine_files).state is State.FAILS  # the file of no driver tells nothing
    tells = (DATA / "fdinfo/amdgpu-1.txt").read_text()
    assert drm_gpus.jobs_on_gpus(cards, machine_files, lambda _: tells).state is State.WORKS
