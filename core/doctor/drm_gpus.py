"""Checks the GPUs of AMD, Intel and other vendors: whether they are read, and whether jobs on them are."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable

from jobtop.core.doctor.checks import Finding, MachineFiles, State
from jobtop.core.measure.collectors.gpu.amd import AmdReader
from jobtop.core.measure.collectors.gpu.drm_cards import AMD, INTEL, VENDORS, Card, find_cards
from jobtop.core.measure.collectors.gpu.fdinfo import parse
from jobtop.core.measure.collectors.gpu.intel import SHORTEST_SECONDS, IntelReader
from jobtop.core.measure.collectors.gpu.intel_program import PROGRAM, program_problem
from jobtop.core.measure.collectors.gpu.nvidia_driver import display_cards
from jobtop.core.measure.collectors.gpu.other_card import OtherReader
from jobtop.core.procfs import read_text
from jobtop.core.units import number_of

LONGEST_SECONDS = 5.0  # that cards may take to answer
MODULES = {AMD: "amdgpu", INTEL: "i915"}
TITLES = {AMD: "AMD GPUs", INTEL: "Intel GPUs"}
OTHERS, JOBS = "other GPUs", "jobs on GPUs"
MOST_REASONS = 3
WORDS = {
    "gpu.util": "utilisation",
    "gpu.mem_used": "memory",
    "gpu.temp": "temperature",
    "gpu.power": "power",
    "gpu.clock_sm": "clock",
    "energy.gpu": "energy",
}


def drm_findings(machine: MachineFiles) -> list[Finding]:
    """A row for AMD and one for Intel, and where there is a card, one for what jobs use of it."""
    sys = machine.path("sys")
    cards, on_bus = find_cards(sys), list(display_cards(sys).values())
    rows = []
    for vendor, title in TITLES.items():
        of_vendor = [card for card in cards if card.kind == VENDORS[vendor]]
        rows.append(_unread(vendor, on_bus.count(vendor)) if not of_vendor else read_in_time(title, of_vendor, machine))
    if others := [card for card in cards if card.kind not in VENDORS.values()]:
        rows.append(read_in_time(OTHERS, others, machine))
    return [*rows, jobs_on_gpus(cards, machine)] if cards else rows


def _unread(vendor: str, on_bus: int) -> Finding:
    name = TITLES[vendor]
    if not on_bus:
        return Finding(name, State.ABSENT, "this machine has none")
    remedy = f"as root: modprobe {MODULES[vendor]}" + (" (or xe)" if vendor == INTEL else "")
    return Finding(name, State.FAILS, f"{number_of(on_bus, 'card')} not read: the driver is not loaded", remedy)


def read_in_time(name: str, cards: list[Card], machine: MachineFiles) -> Finding:
    """Check by reading the cards, in a thread: a driver may hang."""
    found: list[Finding] = []
    thread = threading.Thread(target=lambda: found.append(read_cards(name, cards, machine)), daemon=True)
    thread.start()
    thread.join(LONGEST_SECONDS)
    if found:
        return found[0]
    meaning = f"not read: the driver did not answer in {LONGEST_SECONDS:.0f} s"
    return Finding(name, State.FAILS, meaning, "as root: dmesg says more; boot")


def read_cards(name: str, cards: list[Card], machine: MachineFiles) -> Finding:
    awake = [card for card in cards if not card.is_asleep]
    texts, problems = [], []
    for card in awake:
        known, reasons = _readable(card)
        text = f"{card.short_address} ({card.driver}): "
        if known:
            texts.append(text + ", ".join(known))
        elif name != OTHERS:
            problems.append(text + ("; ".join(reasons[:MOST_REASONS]) or "no file has a number"))
        else:
            texts.append(text + "only what jobs use")
    if asleep := len(cards) - len(awake):
        texts.append(
            f"{number_of(asleep, 'card')} asleep: not read, since that would wake {'it' if asleep == 1 else 'them'}"
        )
    if problems:
        return Finding(name, State.FAILS, "not read: " + "; ".join(problems + texts), _card_remedy(awake, problems))
    if any(card.driver == "i915" for card in awake):
        texts.append(_gpu_top_words(machine))
    return Finding(name, State.WORKS, "; ".join(texts))


def _card_remedy(cards: list[Card], problems: list[str]) -> str:
    if any(os.strerror(errno.EACCES) in problem for problem in problems):
        return f"as root: chmod -R a+rX {os.path.realpath(cards[0].device)}"
    if any(card.driver == "radeon" for card in cards):
        return "as root: boot with radeon.si_support=0 radeon.cik_support=0 amdgpu.si_support=1 amdgpu.cik_support=1"
    return "as root: dmesg says more; use a newer kernel"


def _readable(card: Card) -> tuple[list[str], list[str]]:
    """What two readings of a card give in words, and why files could not be read."""
    reader: AmdReader | IntelReader | OtherReader = OtherReader(card)
    if card.driver == "amdgpu":
        reader = AmdReader(card)
    elif card.driver in ("i915", "xe"):
        reader = IntelReader(card)
        reader.read(time.monotonic())
        time.sleep(SHORTEST_SECONDS * 1.1)  # utilisation is the difference of two readings
    values = reader.read(time.monotonic())
    reasons = [f"{os.path.basename(path)}: {reason}" for path, reason in sorted(reader.files.reasons.items())]
    return [word for key, word in WORDS.items() if values.get(key) is not None], reasons


def _gpu_top_words(machine: MachineFiles) -> str:
    program, problem = program_problem(machine.path("proc"))
    if program is not None:
        return f"utilisation is that of the busiest engine ({PROGRAM})"
    words = f"utilisation is the time that the GPU is awake: {problem}"
    if "not installed" in (problem or ""):
        return f"{words} (as root: apt-get install intel-gpu-tools)"
    return f"{words} (as root: setcap cap_perfmon=+ep $(command -v {PROGRAM}))"


def jobs_on_gpus(cards: list[Card], machine: MachineFiles, read_fdinfo: Callable[[str], str] = read_text) -> Finding:
    """Check whether a process of ours that has a GPU open tells what it uses, by opening one that is awake."""
    awake = [card for card in cards if not card.is_asleep]
    if not awake:
        return Finding(JOBS, State.ABSENT, "not tried: all cards are asleep")
    problems = []
    for card in awake:
        node = machine.path("dev/dri", card.nodes[-1])
        try:
            descriptor = os.open(node, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            problems.append((card, f"{node}: {os.strerror(error.errno or 0)}", _node_remedy(node, error, machine)))
            continue
        try:
            client = parse(read_fdinfo(f"/proc/self/fdinfo/{descriptor}"))
        finally:
            os.close(descriptor)
        if client is None:
            problems.append((card, f"{card.driver} does not tell it", "use Linux 6.5 or newer"))
        elif not client.engines and card.kind != VENDORS[AMD]:
            problems.append((card, f"{card.driver} tells memory, not utilisation", "use Linux 6.5 or newer"))
    if not problems:
        return Finding(JOBS, State.WORKS, "utilisation and memory of each job, by fdinfo of its processes")
    meaning = "; ".join(f"{card.short_address}: {why}" for card, why, _ in problems)
    return Finding(JOBS, State.FAILS, f"not known of jobs: {meaning}", problems[0][2])


def _node_remedy(node: str, error: OSError, machine: MachineFiles) -> str:
    if isinstance(error, PermissionError):
        return f"as root: usermod -aG {_group_of(node)} {machine.user}, and log in again"
    if isinstance(error, FileNotFoundError):
        return "for a container: docker run --device /dev/dri …"
    return "as root: dmesg says more"


def _group_of(node: str) -> str:
    import grp

    try:
        return grp.getgrgid(os.stat(node).st_gid).gr_name
    except (KeyError, OSError):
        return "render"
