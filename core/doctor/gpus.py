"""Checks the GPUs: whether each vendor's are read, and if not, why."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from jobtop.core.doctor.checks import Finding, MachineFiles, State
from jobtop.core.doctor.drm_gpus import drm_findings
from jobtop.core.measure.collectors.gpu import nvidia
from jobtop.core.measure.collectors.gpu.nvidia_driver import VENDOR, cards, display_cards, driver_problem
from jobtop.core.measure.collectors.gpu.nvidia_session import awake_of
from jobtop.core.measure.collectors.machine_pids import MachinePids
from jobtop.core.units import number_of

NAME = "NVIDIA GPUs"
LONGEST_SECONDS = 10.0  # that a driver may take to answer
DRIVER_REMEDY = "as root: modprobe nvidia (part of NVIDIA's driver); for a container: docker run --gpus all …"
PIDS_REMEDY = "docker run --pid=host …, or docker run -v /proc:/host/proc:ro …"
RESET_REMEDY = "as root: nvidia-smi --gpu-reset, or boot"
REMEDIES = {
    nvidia.LIBRARY_NOT_FOUND: "as root: apt-get install libnvidia-ml1, or what has libnvidia-ml.so.1 elsewhere;"
    " for a container: docker run --gpus all …",
    nvidia.DRIVER_NOT_LOADED: DRIVER_REMEDY,
    nvidia.NO_PERMISSION: "as root: chmod a+rw /dev/nvidia*",
    nvidia.VERSION_MISMATCH: "boot: the library is newer than the driver that is loaded",
    nvidia.GPU_IS_LOST: RESET_REMEDY,
    nvidia.RESET_REQUIRED: RESET_REMEDY,
}


def gpu_findings(machine: MachineFiles, environ: Mapping[str, str]) -> list[Finding]:
    """Check the GPUs of all vendors."""
    return [nvidia_gpus(machine, environ), *drm_findings(machine)]


def nvidia_gpus(machine: MachineFiles, environ: Mapping[str, str]) -> Finding:
    """Check by reading them; a machine without a card and without a driver has none."""
    count = sum(vendor == VENDOR for vendor in display_cards(machine.path("sys")).values())
    problem = driver_problem(machine.path("proc"), environ)
    if problem is not None:
        if not count:
            return Finding(NAME, State.ABSENT, "this machine has none")
        return Finding(NAME, State.FAILS, f"{number_of(count, 'card')} not read: {problem}", DRIVER_REMEDY)
    found: list[Finding] = []
    thread = threading.Thread(target=lambda: found.append(asked(machine, count)), daemon=True)
    thread.start()
    thread.join(LONGEST_SECONDS)
    if not found:
        return Finding(
            NAME, State.FAILS, f"not read: the driver did not answer in {LONGEST_SECONDS:.0f} s", RESET_REMEDY
        )
    return found[0]


def asked(machine: MachineFiles, count: int) -> Finding:
    """Check what NVML answers on a machine with this many cards."""
    library = nvidia.Nvml()
    try:
        library.open()
        asleep = cards(machine.path("sys"))
        gpus, problems = library.gpus(awake_of(asleep))
        names = [gpu.product() or gpu.name for gpu in gpus if not gpu.is_mig]
    except nvidia.NvmlProblem as problem:
        if problem.code == nvidia.LIBRARY_NOT_FOUND and not count:  # WSL has a driver for the cards of all vendors
            return Finding(NAME, State.ABSENT, "this machine has none")
        return Finding(NAME, State.FAILS, f"not read: {problem}", REMEDIES.get(problem.code, "nvidia-smi says more"))
    finally:
        library.close()
    if problems:
        return Finding(NAME, State.FAILS, f"not all are read: {'; '.join(problems)}", RESET_REMEDY)
    if any(asleep.values()):
        names.append(f"{number_of(sum(asleep.values()), 'card')} asleep (not woken to be checked)")
    if not names:
        return Finding(NAME, State.ABSENT, "the driver has none")
    parts = sum(gpu.is_mig for gpu in gpus)
    meaning = ", ".join(names) + (f", with {number_of(parts, 'MIG instance')}" if parts else "")
    if (unseen := MachinePids(machine.path("proc")).problem()) is not None:
        return Finding(NAME, State.FAILS, f"{meaning}; not by job: {unseen}", PIDS_REMEDY)
    return Finding(NAME, State.WORKS, f"{meaning}: utilisation, memory and energy, of each job too")
