"""The console reads the GPUs of its machine while no engine records it."""

import threading
from pathlib import Path

import pytest

from jobtop.tui.data.machine import MachineReader
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

    def gpus() -> dict[str, dict[str, float | None]]:
        machine = reader.read()
        found: dict[str, dict[str, float | None]] = {} if machine is None else dict(machine.detail["gpus"])
        return found

    try:
        [(name, values)] = wait_for(gpus).items()
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
