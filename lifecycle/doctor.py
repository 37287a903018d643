"""Everything the doctor checks on this machine: findings under headings, in the order a user would ask."""

import os
import resource
import sys
import tempfile
from collections.abc import Iterable

from jobtop.core.doctor import checks, devices, energy, gpus, probes, sources
from jobtop.core.doctor.checks import Finding, MachineFiles, State
from jobtop.core.doctor.containers import container_findings
from jobtop.core.doctor.network import network_of_jobs
from jobtop.core.paths import StatePaths
from jobtop.core.units import format_bytes
from jobtop.store.files import is_network
from jobtop.store.upkeep.inspection import inspect

Topics = dict[str, list[Finding]]


def examine(paths: StatePaths, network: bool | None, encoding: str) -> Topics:
    """Run all checks; starts and stops a job, which takes a fraction of a second and leaves nothing behind."""
    with tempfile.TemporaryDirectory(prefix="jobtop-doctor-") as directory:
        tried = probes.run_trial_job(directory)
    machine = MachineFiles(user=user_name())
    return {
        "Running jobs": [
            checks.python(sys.version_info[:3], sys.executable),
            checks.process_table(machine),
            checks.null_device(machine),
            probes.shim(tried),
            probes.subreaper(tried, machine),
            probes.limits(probes.probe_limits(), machine),
            checks.logout(machine),
        ],
        "Sampling processes": [
            sources.cpu_clocks(tried.has_clock),
            *sources.member_findings(tried.problems, machine),
            sources.child_lists(machine),
            sources.hidden_processes(machine),
            checks.open_files(*resource.getrlimit(resource.RLIMIT_NOFILE)),
        ],
        "Sampling cgroups": [
            *checks.cgroups(machine, tried.made, tried.joined),
            *(sources.own_cgroup(machine, tried.cgroup_keys) if tried.joined else ()),
        ],
        "Sampling the machine": [
            *sources.host_findings(machine, checks.nearest_existing(str(paths.root))),
            *devices.device_findings(machine),
            *gpus.gpu_findings(machine, os.environ),
            energy.cpu_energy(machine),
            network_of_jobs(machine),
            *container_findings(machine, os.environ),
        ],
        "Storing and showing data": [
            checks.state_directory(str(paths.root)),
            checks.privacy(str(paths.root)),
            history(paths, network),
            unrecorded(paths),
            checks.evidence_files(str(paths.jobs)),
            checks.encoding(encoding),
        ],
    }


def history(paths: StatePaths, network: bool | None = None) -> Finding:
    """The store: whether it can be read, is intact and has a known version, and where it is."""
    shared = is_network(paths.store) if network is None else network
    where = "on a network file system, with a rollback journal" if shared else "on a local disk"
    if not paths.store.exists():
        return Finding("history", State.ABSENT, f"{paths.store}, created by the first job; {where}")
    found = inspect(paths.store)
    if found.is_sound is False:
        return Finding("history", State.FAILS, f"damaged: {found.problem}", setting_aside(paths))
    if found.problem is not None:
        return Finding("history", State.FAILS, found.problem)
    if not os.access(paths.store, os.W_OK):
        meaning = f"{paths.store} is read-only: jobs are recorded in unrecorded/ beside it"
        return Finding("history", State.FAILS, meaning, f"chmod u+w {paths.store}")
    checked = "not damaged" if found.is_sound else "too large to check in a few seconds"
    jobs = f"{found.jobs} job{'' if found.jobs == 1 else 's'}"
    words = f"{jobs} in {format_bytes(found.size_bytes)}, version {found.version}, {checked}, {where}"
    return Finding("history", State.WORKS, words)


def setting_aside(paths: StatePaths) -> str:
    """The command that moves a damaged store aside, so that a new history can begin and the old one can be repaired."""
    name = paths.store.name
    files = " ".join((name, f"{name}-wal", f"{name}-shm"))
    return f"cd {paths.root} && for f in {files}; do [ ! -e $f ] || mv $f damaged-$f; done"


def unrecorded(paths: StatePaths) -> Finding:
    """Whether there are jobs that ran while the store could not be written."""
    waiting = len(list(paths.unrecorded.glob("*.json")))
    if not waiting:
        return Finding("unrecorded jobs", State.WORKS, "none: all jobs are in the history")
    meaning = f"{waiting} ran while the history could not be written; they wait in {paths.unrecorded}"
    return Finding("unrecorded jobs", State.FAILS, meaning, "jobtop history adds them when the store can be written")


def verdict(findings: Iterable[Finding]) -> str:
    """The summary of all findings."""
    failing = [finding for finding in findings if finding.state is State.FAILS]
    if essential := [finding.name for finding in failing if finding.essential]:
        return f"jobtop does not work here: {', '.join(essential)}."
    if failing:
        return "jobtop works here, with the limits marked ✗."
    return "Everything works."


def user_name() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
