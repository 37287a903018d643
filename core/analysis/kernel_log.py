"""Finds what the kernel log says about the processes of a job: OOM kills, crashes, GPU and storage errors. Pure.

The text is that of /dev/kmsg: `priority,sequence,microseconds,flags;message`, with the time since boot.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from jobtop.core.analysis.evidence import Cause, Evidence, Source, clean
from jobtop.core.record import record

SLACK_SECONDS, SLACK_SHARE = 2.0, 5e-5  # the clock of the kernel log is not adjusted, so that it drifts with the uptime
LONGEST_MESSAGE = 1000

_RECORD = re.compile(r"^\d+,\d+,(?P<microseconds>\d+),[^;]*;(?P<message>.*)$")
_OOM_KILLED = re.compile(
    r"(?P<what>(?:^|[Oo]ut of memory: )Kill(?:ed)? process (?P<pid>\d+) \((?P<name>.{0,64}?)\)(?!\)))(?P<rest>.*)"
)
_RSS = re.compile(r"anon-rss:(\d+)kB")
_SEGFAULT = re.compile(r"^.*?\[(?P<pid>\d+)\]: (?P<what>segfault at .*?)(?: likely on .*)?$")
_FAULT = re.compile(r"^segfault at (?P<address>[0-9a-f]+) ip .*? error (?P<error>[0-9a-f]+)(?= in |$)")
_TRAPPED = re.compile(r"^(?:trap )?(?P<name>\D+?) ip:[0-9a-f]+ ")
_OBJECT = re.compile(r" error[: ][0-9a-f]+ in (?P<name>.+?)\[[0-9a-f]+[+,]")
# Bits of the error code of a page fault, which the kernel writes in hexadecimal digits.
_WRITE, _EXECUTE = 0x2, 0x10
_TRAP = re.compile(r"^traps: .*?\[(?P<pid>\d+)\] (?P<what>(?:trap )?.*)$")
_GPU = re.compile(r"^NVRM: (?P<what>Xid .*pid='?(?P<pid>\d+).*)$")
_STORAGE = re.compile(r"I/O error,? (?:on )?dev|(?:EXT4|XFS|BTRFS)\S* .*error|nfs: server .* not responding")


@record
class Members:
    """What identifies the processes of a job in the kernel log: pids, and ids that are in the name of its cgroup."""

    pids: Collection[int]
    job_id: str
    container_id: str | None = None


def find_in_kernel_log(text: str, members: Members, since: float, until: float) -> list[Evidence]:
    """The evidence between two moments, in seconds since boot; storage errors belong to no process."""
    found: list[Evidence] = []
    oom_pids: set[int] = set()
    for moment, message in _records(text):
        slack = SLACK_SECONDS + SLACK_SHARE * until
        if not since - slack <= moment <= until + slack:
            continue
        place = message.partition("task_memcg=")[2] if message.startswith("oom-kill:") else ""
        if members.job_id in place or (members.container_id and members.container_id in place):
            oom_pids |= _chosen_pid(message)
        evidence = _of_process(message, {*members.pids, *oom_pids}) or _of_storage(message)
        if evidence is not None and evidence not in found:
            found.append(evidence)
    return found


def _records(text: str) -> Iterator[tuple[float, str]]:
    for line in text.split("\n"):
        if (found := _RECORD.match(line)) is not None:
            yield int(found["microseconds"]) / 1e6, found["message"][:LONGEST_MESSAGE]


def _chosen_pid(message: str) -> set[int]:
    """The pid in `oom-kill:constraint=…,task_memcg=PATH,task=NAME,pid=PID,uid=UID`; path and name can be anything."""
    pid = message.rpartition(",pid=")[2].partition(",")[0]
    return {int(pid)} if pid.isdecimal() else set()


def _of_process(message: str, pids: Collection[int]) -> Evidence | None:
    if (found := _OOM_KILLED.search(message)) is not None and int(found["pid"]) in pids:
        held = _RSS.search(found["rest"])
        held_text = f", which held {int(held[1]) / 1024:.0f} MiB" if held else ""
        return _evidence(Cause.OUT_OF_MEMORY, f"{found['what']}{held_text}", found["pid"])
    for cause, expression in ((Cause.CRASH, _SEGFAULT), (Cause.CRASH, _TRAP), (Cause.GPU_ERROR, _GPU)):
        if (found := expression.match(message)) is not None and int(found["pid"]) in pids:
            return _evidence(cause, found["what"], found["pid"])
    return None


def crash_text(text: str) -> str | None:
    """What a crash was, without registers: `read address 0, in libc.so.6`; None if the text has another form."""
    found = _OBJECT.search(text)
    place = f", in {found['name']}" if found is not None else ""
    if (fault := _FAULT.match(text)) is not None:
        error, address = int(fault["error"], 16), int(fault["address"], 16)
        did = "execute" if error & _EXECUTE else "write" if error & _WRITE else "read"
        return f"{did} address {address and hex(address)}{place}"
    trap = _TRAPPED.match(text)
    return None if trap is None else f"{trap['name']}{place}"


def _of_storage(message: str) -> Evidence | None:
    return _evidence(Cause.IO_ERROR, message) if _STORAGE.search(message) else None


def _evidence(cause: Cause, text: str, subject: str | None = None) -> Evidence:
    return Evidence(cause, clean(text), Source.KERNEL_LOG, subject)
