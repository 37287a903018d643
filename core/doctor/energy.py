"""Checks the energy counters of the CPU: whether they can be read, and if not, how to permit it and what that risks."""

from __future__ import annotations

import errno
import os
import re

from jobtop.core.doctor.checks import Finding, MachineFiles, State
from jobtop.core.measure.collectors.energy.powercap import find_packages, has_powercap, read_problem

NAME = "energy (RAPL)"
# Users who can read the counters often enough can guess what other programs compute (PLATYPUS, CVE-2020-8694).
PERMIT = (
    "as root: chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj (until the next boot; docs/cost.md has a udev rule)."
    " Only root may read them because they help to spy on other programs (CVE-2020-8694):"
    " do this where you trust all users"
)
X86_VENDORS = ("GenuineIntel", "AuthenticAMD")


def cpu_energy(machine: MachineFiles) -> Finding:
    """Check by reading every counter that would be added up."""
    sys = machine.path("sys")
    if not has_powercap(sys):
        return without_counters(machine)
    packages = find_packages(sys)
    problem = read_problem(packages)
    if problem is None:
        memory = ", with their memory" if any(len(package.zones) > 1 for package in packages) else ""
        names = ", ".join(package.name for package in packages)
        return Finding(NAME, State.WORKS, f"{names}{memory}: energy of the machine, and of jobs by share of CPU time")
    if os.strerror(errno.EACCES) in problem:
        return Finding(NAME, State.FAILS, f"not readable: the energy of the CPU is not known ({problem})", PERMIT)
    return Finding(NAME, State.FAILS, f"the energy of the CPU is not known: {problem}")


def without_counters(machine: MachineFiles) -> Finding:
    """Say why there are no counters: a virtual machine has none, other processors have none that jobtop reads."""
    about = machine.text("proc/cpuinfo")
    if re.search(r"^flags\b.*\bhypervisor\b", about, re.MULTILINE):
        meaning = "a virtual machine has no energy counters; cost.watts_per_core gives an estimate"
        return Finding(NAME, State.ABSENT, meaning)
    if not any(vendor in about for vendor in X86_VENDORS):
        meaning = "no counters that jobtop reads; cost.watts_per_core gives an estimate"
        return Finding(NAME, State.ABSENT, meaning)
    remedy = "as root: modprobe intel_rapl_msr (part of Linux since 5.3, for AMD since 5.8)"
    return Finding(NAME, State.ABSENT, "the kernel has no counters in /sys/class/powercap", remedy)
