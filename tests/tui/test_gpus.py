"""The console reads the GPUs of its machine while no engine records it."""

import threading
from pathlib import Path

import pytest

from jobtop.tui.chart.host_chart import gpus
from jobtop.tui.data.machine import MachineReader
from jobtop.tui.widgets.host_strip import gpu_label
from nvml import GIBIBYTE, FakeGpu, fake_nvml, load_in_this_process
from support import wait_for

THREAD = "jobtop-nvidia"


def test_the_console_reads_gpus_while_no_engine_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = fake_nvml(tmp_path)
    load_in_this_process(nvml)
    nvml.show(FakeGpu("GPU-aaaaaaaa-0000", busy=42, used=GIBIBYTE, celsius=61))
    for name, value in nvml.env.items():
        monkeypatch.setenv(name, value)
    reader = MachineReader()

    def read_gpus() -> dict[str, dict[str, float | None]]:
        machine = reader.read()
        found: dict[str, dict[str, float | None]] = {} if machine is None else dict(machine.detail["gpus"])
        return found

    try:
        [(name, values)] = wait_for(read_gpus).items()
        assert THREAD in {thread.name for thread in threading.enumerate()}
        assert (name, values["gpu.util"], values["gpu.mem_used"]) == ("0-aaaaaaaa", 42, GIBIBYTE)
    finally:
        reader.close()


def test_gpus_that_are_not_to_be_measured_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = fake_nvml(tmp_path)
    nvml.show(FakeGpu("GPU-aaaaaaaa-0000"))
    for name, value in nvml.env.items():
        monkeypatch.setenv(name, value)
    reader = MachineReader(without=frozenset({"gpu"}))
    try:
        wait_for(reader.read)
        machine = reader.read()
        assert machine is not None
        assert machine.detail["gpus"] == {}
        assert THREAD not in {thread.name for thread in threading.enumerate()}
    finally:
        reader.close()


@pytest.mark.parametrize(
    ("number", "label"), [("0", "GPU0"), ("0.3", "G0.3"), ("amd0", "AMD0"), ("intel12", "INT12"), ("panfrost1", "PAN1")]
)
def test_gpus_of_other_vendors_have_labels_of_their_own(number: str, label: str) -> None:
    assert gpu_label(number) == label


def test_curves_of_gpus_of_two_vendors_have_different_names() -> None:
    names = ["0-8f6c77aa", "amd0-03:00.0", "intel0-00:02.0"]
    assert [series.label for series in gpus([], names, []).series] == ["gpu0", "amd0", "intel0"]
