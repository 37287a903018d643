"""The priorities of a job: its niceness, and its I/O class."""

from __future__ import annotations

import os

from jobtop.core.errors import BadValue
from jobtop.core.procfs import read_text, word_in
from jobtop.core.units import printable

BEST, WORST = -20, 19
CLASSES = {"realtime": 1, "best-effort": 2, "idle": 3}
LEVELS, MIDDLE_LEVEL, CLASS_SHIFT = range(8), 4, 13
OF_PROCESS, MYSELF = 1, 0  # IOPRIO_WHO_PROCESS
IOPRIO_SET = {"x86_64": 251, "ppc64": 273, "ppc64le": 273, "s390x": 282}
IOPRIO_SET |= dict.fromkeys(("aarch64", "riscv64", "loongarch64"), 30)
CAP_SYS_ADMIN, CAP_SYS_NICE = 21, 23


def niceness(text: str) -> int:
    """Check a niceness: a number from -20 to 19 that this user may set."""
    wrong = f'"{printable(text)}" is not a niceness, from {BEST} (first) to {WORST} (last)'
    try:
        wanted = int(text)
    except ValueError:
        raise BadValue(wrong) from None
    if not BEST <= wanted <= WORST:
        raise BadValue(wrong)
    least = min(os.getpriority(os.PRIO_PROCESS, 0), lowest_allowed())
    if wanted < least:
        raise BadValue(f"{wanted} needs privileges: as this user {least} at least (root may give it, see nice(2))")
    return wanted


def lowest_allowed() -> int:
    """The lowest niceness that RLIMIT_NICE or a capability allows, whatever our own niceness is."""
    import resource

    if may(CAP_SYS_NICE):
        return BEST
    soft = resource.getrlimit(resource.RLIMIT_NICE)[0] if hasattr(resource, "RLIMIT_NICE") else 0
    return BEST if soft == resource.RLIM_INFINITY else 20 - soft


def io_class(text: str) -> str:
    """Check an I/O class: CLASS[:LEVEL] that this user may set."""
    name, colon, level = text.partition(":")
    known = name in CLASSES and (not colon or (level.isascii() and level.isdigit() and int(level) in LEVELS))
    if not known or (name == "idle" and colon):
        raise BadValue(f'"{printable(text)}" is not idle, best-effort[:0-7] or realtime[:0-7]')
    if os.uname().machine not in IOPRIO_SET or not os.path.isdir("/proc/self"):
        raise BadValue("this system has no priorities of I/O, or jobtop does not know how to set them here")
    if name == "realtime" and not (may(CAP_SYS_NICE) or may(CAP_SYS_ADMIN)):
        raise BadValue("realtime needs privileges: as this user idle or best-effort[:0-7]")
    return text


def io_call(text: str) -> tuple[int, int, int, int]:
    """The system call that sets an I/O class for the calling process."""
    name, _, level = text.partition(":")
    number = CLASSES[name] << CLASS_SHIFT | (0 if name == "idle" else int(level or MIDDLE_LEVEL))
    return IOPRIO_SET[os.uname().machine], OF_PROCESS, MYSELF, number


def may(capability: int) -> bool:
    """Whether we have a capability; on systems without capabilities, root has all."""
    effective = word_in(read_text("/proc/self/status"), "CapEff:")
    return bool(int(effective, 16) >> capability & 1) if effective else os.geteuid() == 0
