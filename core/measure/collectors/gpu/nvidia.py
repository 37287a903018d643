"""NVIDIA's GPUs through NVML; the one door to it. Every reading is a value, or None with the reason kept.

NVML is opened and called by one thread: that of the source, or that of a caller that only counts GPUs.
"""

from __future__ import annotations

import re
import time
from functools import cache

from jobtop.core.measure.collectors.gpu.nvidia_driver import driver_problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType
    from typing import Any

# Return codes of nvml.h; the bindings are not imported for their names alone.
UNINITIALIZED, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, DRIVER_NOT_LOADED = 1, 3, 4, 6, 9
LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, GPU_IS_LOST, RESET_REQUIRED, VERSION_MISMATCH = 12, 13, 15, 16, 18
NEVER_ANSWERED = (NOT_SUPPORTED, FUNCTION_NOT_FOUND)
GONE = (UNINITIALIZED, DRIVER_NOT_LOADED, GPU_IS_LOST, RESET_REQUIRED)
TEMPERATURE_OF_GPU, CLOCK_SM, CLOCK_MEMORY = 0, 1, 2
UNCORRECTED, SINCE_DRIVER_LOADED = 1, 0
PCIE_SENT, PCIE_RECEIVED = 0, 1
PCIE_UNIT_BYTES = 1000  # "KB/s" in NVIDIA's documentation
SLOW_CALL_SECONDS = 0.1  # NVML counts PCIe traffic for 20 ms; a GPU that takes much longer is not asked again
BY_ARGUMENT = frozenset({"nvmlDeviceGetClockInfo", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPcieThroughput"})
# Why clocks are lower, in the bits of nvmlClocksEventReasons; others, such as an idle GPU, are no slowdown.
SLOWDOWNS = {0x04: "power cap", 0x20: "thermal", 0x40: "thermal", 0x80: "power brake"}
HARDWARE_SLOWDOWN = 0x08  # also set together with 0x40 and 0x80, which say why
FIRST_SAMPLES_MICROSECONDS = 1_000_000
MOST_PERCENT = 100


class NvmlProblem(Exception):  # noqa: N818 - it never leaves the collectors
    """NVML, a GPU or its driver is not there, or not any more; `code` is that of NVML."""

    def __init__(self, words: str, code: int) -> None:
        super().__init__(words)
        self.code = code


class Gpu:
    """One GPU, or one MIG instance of it; a call that it does not support is made once.

    `reasons`: by function, why its last call had no value. NvmlProblem if the GPU is lost or the driver is gone.
    """

    def __init__(self, pynvml: ModuleType, handle: Any, name: str, uuid: str, card: str | None, is_mig: bool) -> None:
        self._pynvml, self._handle = pynvml, handle
        self.name, self.uuid, self.card, self.is_mig = name, uuid, card, is_mig
        self.reasons: dict[str, str] = {}
        self.unsupported: set[str] = set()
        self.has_instances = False  # of MIG: these have its processes
        self._samples_until = 0  # microseconds since the epoch, of the last process utilisation

    def product(self) -> str | None:
        return None if (text := self._call("nvmlDeviceGetName")) is None else _text(text)

    def utilisation_percent(self) -> int | None:
        rates = self._call("nvmlDeviceGetUtilizationRates")
        return None if rates is None else int(rates.gpu)

    def memory_bytes(self) -> tuple[int, int, int] | None:
        """Used, total and free. What the driver reserves for itself is neither used nor free, if the driver tells it.

        NVIDIA's pages disagree on whether the newer call counts the reserve as used, so `used` is the rest.
        """
        version = getattr(self._pynvml, "nvmlMemory_v2", None)
        memory = None if version is None else self._call("nvmlDeviceGetMemoryInfo", version)
        if memory is not None:
            total, free = int(memory.total), int(memory.free)
            return max(0, total - free - int(memory.reserved)), total, free
        memory = self._call("nvmlDeviceGetMemoryInfo")
        return None if memory is None else (int(memory.used), int(memory.total), int(memory.free))

    def encoder_percent(self) -> int | None:
        values = self._call("nvmlDeviceGetEncoderUtilization")
        return None if values is None else int(values[0])

    def decoder_percent(self) -> int | None:
        values = self._call("nvmlDeviceGetDecoderUtilization")
        return None if values is None else int(values[0])

    def pcie_bytes_per_second(self) -> tuple[int | None, int | None]:
        """Received and sent, each over 20 ms, in which the call waits; a GPU that takes long is not asked again."""
        return self._pcie(PCIE_RECEIVED), self._pcie(PCIE_SENT)

    def _pcie(self, counter: int) -> int | None:
        began = time.monotonic()
        value = _whole(_scaled(self._number("nvmlDeviceGetPcieThroughput", counter), PCIE_UNIT_BYTES))
        if (seconds := time.monotonic() - began) > SLOW_CALL_SECONDS:
            for each in (PCIE_RECEIVED, PCIE_SENT):
                self._note(f"nvmlDeviceGetPcieThroughput {each}", f"it took {seconds:.1f} s", is_final=True)
        return value

    def temperature_celsius(self) -> int | None:
        return self._number("nvmlDeviceGetTemperature", TEMPERATURE_OF_GPU)

    def power_watts(self) -> float | None:
        return _scaled(self._number("nvmlDeviceGetPowerUsage"), 1e-3)

    def power_limit_watts(self) -> float | None:
        return _scaled(self._number("nvmlDeviceGetEnforcedPowerLimit"), 1e-3)

    def clock_sm_hertz(self) -> int | None:
        return _whole(_scaled(self._number("nvmlDeviceGetClockInfo", CLOCK_SM), 1e6))

    def clock_memory_hertz(self) -> int | None:
        return _whole(_scaled(self._number("nvmlDeviceGetClockInfo", CLOCK_MEMORY), 1e6))

    def fan_percent(self) -> int | None:
        return self._number("nvmlDeviceGetFanSpeed")

    def ecc_errors(self) -> int | None:
        """Errors of memory that could not be corrected, since the driver was loaded."""
        return self._number("nvmlDeviceGetTotalEccErrors", UNCORRECTED, SINCE_DRIVER_LOADED)

    def slowdowns(self) -> tuple[str, ...] | None:
        """Why heat or power lowers its clocks; older drivers have another name for the call."""
        reasons = self._number("nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:
            reasons = self._number("nvmlDeviceGetCurrentClocksThrottleReasons")
        if reasons is None:
            return None
        found = {text for bit, text in SLOWDOWNS.items() if reasons & bit}
        if reasons & HARDWARE_SLOWDOWN and not found & {"thermal", "power brake"}:
            found.add("hardware slowdown")
        return tuple(sorted(found))

    def energy_joules(self) -> float | None:
        """Since the driver was loaded."""
        return _scaled(self._number("nvmlDeviceGetTotalEnergyConsumption"), 1e-3)

    def process_memory(self) -> dict[int, int | None] | None:
        """The processes on it by pid, with the bytes that each uses, where the driver tells; None without their list.

        A process that computes and draws is in both lists, with all of its memory in each. Some GPUs cannot draw.
        """
        computing = self._processes("Compute")
        if computing is None:
            return None
        found: dict[int, int | None] = {}
        for process in (*computing, *(self._processes("Graphics") or ())):
            used = None if process.usedGpuMemory is None else int(process.usedGpuMemory)
            before = found.get(int(process.pid))
            found[int(process.pid)] = used if before is None else max(before, used or 0)
        return found

    def _processes(self, kind: str) -> Any:
        """The list of one kind of processes; drivers before 510 know only the older function."""
        newest = self._call(f"nvmlDeviceGet{kind}RunningProcesses_v3")
        return self._call(f"nvmlDeviceGet{kind}RunningProcesses_v2") if newest is None else newest

    def process_percents(self, now: float) -> dict[int, float] | None:
        """The utilisation of its SMs by each process since the last call; a process without samples has 0."""
        since = self._samples_until or int(now * 1e6) - FIRST_SAMPLES_MICROSECONDS
        samples = self._call("nvmlDeviceGetProcessUtilization", since, none_found=())
        if samples is None:
            return None
        percents: dict[int, list[int]] = {}
        for sample in samples:
            moment, percent = int(sample.timeStamp), int(sample.smUtil)
            self._samples_until = max(self._samples_until, moment)
            if moment > since and percent <= MOST_PERCENT:  # the driver has been seen to return more
                percents.setdefault(int(sample.pid), []).append(percent)
        return {pid: sum(values) / len(values) for pid, values in percents.items()}

    def _number(self, function: str, *arguments: int) -> int | None:
        value = self._call(function, *arguments)
        return None if value is None else int(value)

    def _call(self, function: str, *arguments: int, none_found: object = None) -> Any:
        """What a function of the bindings returns for this GPU, or None, with the reason."""
        called = (function, *arguments) if function in BY_ARGUMENT else (function,)
        mark = " ".join(map(str, called))
        if mark in self.unsupported:
            return None
        try:
            value = getattr(self._pynvml, function)(self._handle, *arguments)
        except AttributeError:
            self._note(mark, "the bindings do not have it", is_final=True)
        except self._pynvml.NVMLError as error:
            if error.value == NOT_FOUND and none_found is not None:
                return none_found
            if error.value in GONE:
                raise NvmlProblem(str(error), error.value) from error
            self._note(mark, str(error), is_final=error.value in NEVER_ANSWERED)
        else:
            self.reasons.pop(mark, None)
            return value
        return None

    def _note(self, mark: str, reason: str, is_final: bool) -> None:
        self.reasons[mark] = reason
        if is_final:
            self.unsupported.add(mark)


class Nvml:
    """The library: opened, its GPUs listed, closed; opened again, it knows what a GPU does not support."""

    def __init__(self) -> None:
        self._pynvml: ModuleType | None = None
        self._unsupported: dict[str, set[str]] = {}

    @property
    def is_open(self) -> bool:
        return self._pynvml is not None

    def open(self) -> None:
        """Load the library and the driver's interface, which can take two seconds; NvmlProblem if that fails."""
        try:
            import pynvml  # type: ignore[import-untyped,unused-ignore]
        except ImportError as error:
            raise NvmlProblem("nvidia-ml-py is not installed", LIBRARY_NOT_FOUND) from error
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise NvmlProblem(str(error), error.value) from error
        self._pynvml = pynvml

    def close(self) -> None:
        """Close it; what a driver that is gone says to that does not matter."""
        pynvml, self._pynvml = self._pynvml, None
        if pynvml is not None:
            try:
                pynvml.nvmlShutdown()
            except pynvml.NVMLError:
                return

    def count(self) -> int:
        pynvml = self._opened()
        try:
            return int(pynvml.nvmlDeviceGetCount())
        except pynvml.NVMLError as error:
            raise NvmlProblem(str(error), error.value) from error

    def gpus(self, awake: Iterable[str] | None = None) -> tuple[list[Gpu], list[str]]:
        """All GPUs, each followed by its MIG instances; and why others could not be opened.

        With `awake`, only those with these PCI addresses: to get the handle of a GPU wakes it.
        """
        pynvml = self._opened()
        found: list[Gpu] = []
        problems: list[str] = []
        for place in range(self.count()) if awake is None else awake:
            try:
                gpu = self._gpu(pynvml, place)
                found += [gpu, *self._instances(gpu)]
            except NvmlProblem as problem:
                if awake is None or problem.code != NOT_FOUND:  # another driver has this card
                    problems.append(f"GPU {place}: {problem}")
        return found, problems

    def _opened(self) -> ModuleType:
        if self._pynvml is None:
            raise NvmlProblem("NVML is not open", UNINITIALIZED)
        return self._pynvml

    def _gpu(self, pynvml: ModuleType, place: int | str) -> Gpu:
        """The GPU with an index, or with a PCI address."""
        try:
            if isinstance(place, int):
                handle, index = pynvml.nvmlDeviceGetHandleByIndex(place), place
            else:
                handle = pynvml.nvmlDeviceGetHandleByPciBusId(place)
                index = int(pynvml.nvmlDeviceGetIndex(handle))
            uuid = _text(pynvml.nvmlDeviceGetUUID(handle))
        except pynvml.NVMLError as error:
            raise NvmlProblem(str(error), error.value) from error
        return self._known(Gpu(pynvml, handle, device_name(str(index), uuid), uuid, _card(pynvml, handle), False))

    def _instances(self, gpu: Gpu) -> list[Gpu]:
        """The MIG instances of a GPU, if MIG is enabled; their numbers can have gaps."""
        mode = gpu._call("nvmlDeviceGetMigMode")
        if not mode or not mode[0]:
            return []
        gpu.has_instances = True
        pynvml, found, index = self._opened(), [], gpu.name.partition("-")[0]
        for number in range(gpu._number("nvmlDeviceGetMaxMigDeviceCount") or 0):
            try:
                handle = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu._handle, number)
                uuid = _text(pynvml.nvmlDeviceGetUUID(handle))
            except pynvml.NVMLError:
                continue
            found.append(self._known(Gpu(pynvml, handle, device_name(f"{index}.{number}", uuid), uuid, gpu.card, True)))
        return found

    def _known(self, gpu: Gpu) -> Gpu:
        gpu.unsupported = self._unsupported.setdefault(gpu.uuid, gpu.unsupported)
        return gpu


def device_name(number: str, uuid: str) -> str:
    """The number that NVIDIA's tools show, and the start of the UUID: numbers move when a card is lost."""
    return f"{number}-{re.sub('^(GPU|MIG)-', '', uuid)[:8]}"


def device_count() -> int:
    """How many GPUs NVML knows of; none where it, its driver or its library is not there."""
    try:
        return 0 if driver_problem() is not None else _counted()
    except Exception:  # noqa: BLE001 - a collector's border: whatever a driver does is no GPU
        return 0


@cache  # of answers, not of errors: `nvmlInit` can take two seconds, and a driver may be loaded later
def _counted() -> int:
    library = Nvml()
    library.open()
    try:
        return library.count()
    finally:
        library.close()


def _card(pynvml: ModuleType, handle: object) -> str | None:
    """The PCI address as the kernel writes it, which has fewer zeros than NVML's."""
    try:
        address = _text(pynvml.nvmlDeviceGetPciInfo(handle).busId).lower()
    except (pynvml.NVMLError, AttributeError):
        return None
    domain, colon, rest = address.partition(":")
    return f"{domain[-4:]}{colon}{rest}"


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _scaled(value: int | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
