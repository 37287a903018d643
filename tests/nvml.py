"""A library of NVIDIA's without hardware, which nvidia-ml-py takes for the real one; a file says what it answers."""

import ctypes
import os
import shutil
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

from support import require

SOURCE = Path(__file__).with_name("nvml.c")
GIBIBYTE = 1 << 30
NOT_SUPPORTED, UNKNOWN, DRIVER_NOT_LOADED = 3, 999, 9


@dataclass(frozen=True)
class FakeGpu:
    """One GPU as the library shows it; `processes` are pid, bytes (None: not known) and percent of its SMs."""

    uuid: str
    busy: int = 0
    used: int = GIBIBYTE
    total: int = 80 * GIBIBYTE
    celsius: int = 40
    watts: float = 60.0
    joules: float = 1000.0
    fan: int = 30
    ecc: int = 0
    reasons: int = 0
    reserved: int = 0
    encoder: int = 0
    decoder: int = 0
    pcie: tuple[int, int] = (0, 0)  # received and sent, in KB a second
    processes: tuple[tuple[int, int | None, int], ...] = ()
    is_lost: bool = False

    def lines(self) -> list[str]:
        numbers = (self.busy, self.used, self.total, self.celsius, round(self.watts * 1000), 400_000, 1410, 1593)
        more = (self.fan, self.ecc, self.reasons, round(self.joules * 1000))
        lines = [" ".join(map(str, ("gpu", self.uuid, *numbers, *more)))]
        lines.append(" ".join(map(str, ("more", self.uuid, self.reserved, self.encoder, self.decoder, *self.pcie))))
        return lines + _process_lines(self.uuid, self.processes) + [f"lost {self.uuid}"] * self.is_lost


@dataclass(frozen=True)
class FakeInstance:
    """A MIG instance of a GPU."""

    uuid: str
    above: str
    number: int
    used: int = GIBIBYTE
    total: int = 10 * GIBIBYTE
    processes: tuple[tuple[int, int | None, int], ...] = ()

    def lines(self) -> list[str]:
        line = f"mig {self.above} {self.number} {self.uuid} {self.used} {self.total}"
        return [line, *_process_lines(self.uuid, self.processes)]


@dataclass
class FakeNvml:
    """The library in a directory; `show` changes what it answers from the next call on."""

    directory: Path
    gpus: dict[str, FakeGpu | FakeInstance] = field(default_factory=dict)
    extra: tuple[str, ...] = ()

    @property
    def env(self) -> dict[str, str]:
        return {
            "LD_LIBRARY_PATH": str(self.directory),
            "NVML_STATE": str(self.directory / "nvml-state"),
            "NVML_CALLS": str(self.directory / "nvml-calls"),
        }

    def show(self, *gpus: FakeGpu | FakeInstance, extra: tuple[str, ...] | None = None) -> None:
        """Answer with these GPUs, in place of those with the same UUIDs; `extra` are lines of the state as they are."""
        self.gpus.update((gpu.uuid, gpu) for gpu in gpus)
        self.extra = self.extra if extra is None else extra
        draft = self.directory / "nvml-state.new"
        draft.write_text("\n".join([*(line for gpu in self.gpus.values() for line in gpu.lines()), *self.extra, ""]))
        os.replace(draft, self.directory / "nvml-state")

    def change(self, uuid: str, **values: object) -> None:
        """Answer with other values of one GPU."""
        self.show(replace(self.gpus[uuid], **values))  # type: ignore[arg-type]

    def calls(self, function: str, uuid: str | None = None) -> int:
        """How often a function was called, of all GPUs or of one."""
        path = self.directory / "nvml-calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return sum(line.split()[0] == function and uuid in (None, line.split()[1]) for line in lines)

    def calls_of(self, uuid: str) -> int:
        """How many calls of all functions were made for one GPU."""
        path = self.directory / "nvml-calls"
        return sum(line.split()[1] == uuid for line in path.read_text().splitlines()) if path.exists() else 0


def fake_nvml(directory: Path) -> FakeNvml:
    """Build the library; it has no GPUs yet."""
    if shutil.which("gcc") is None:
        require("gcc", "it is not installed")
    library = directory / "libnvidia-ml.so.1"
    options = ("-O1", "-Wall", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{library.name}")
    subprocess.run(["gcc", *options, "-o", library, SOURCE], check=True)
    made = FakeNvml(directory)
    made.show()
    return made


def add_cuda(library: FakeNvml) -> dict[str, str]:
    """Add a CUDA driver whose memory the library shows; returns the environment in which it is found."""
    source, made = SOURCE.with_name("cuda.c"), library.directory / "libcuda.so.1"
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", made, source], check=True)
    return {**library.env, "CUDA_GPU": next(iter(library.gpus))}


def load_in_this_process(library: FakeNvml) -> None:
    """Load it under its own name: the bindings get this one when they load the library."""
    ctypes.CDLL(str(library.directory / "libnvidia-ml.so.1"))


def three_gpus(directory: Path) -> dict[str, str]:
    """The environment in which a library with three GPUs is found."""
    made = fake_nvml(directory)
    made.show(*(FakeGpu(f"GPU-{number}0000000-0000") for number in range(3)))
    return made.env


def _process_lines(uuid: str, processes: tuple[tuple[int, int | None, int], ...]) -> list[str]:
    return [f"process {uuid} {pid} {-1 if used is None else used} {percent}" for pid, used, percent in processes]
