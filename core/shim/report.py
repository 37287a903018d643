"""The reports of a shim: what it writes to `started` and to `ended`.

Part of every shim: standard library only, imports nothing later.
"""

import time

from jobtop.core.procfs import descendants, read_text, start_ticks, status_value
from jobtop.core.shim.system_calls import now, warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.shim.facts import Ended, LimitLines, Started
    from jobtop.core.shim.order import Order
    from jobtop.core.shim.supervise import Shim


def started_facts(shim: "Shim") -> "Started":
    """As what the job starts."""
    order = shim.order
    return {
        "version": 1,
        "boot": order["boot"],
        "shim": f"{shim.pid} {start_ticks(shim.pid)}",
        "main": f"{shim.main} {start_ticks(shim.main)}",
        "start": moment_text(shim.start),
        "limits": limit_lines(order),
        "subreaper": int(shim.is_subreaper),
        "cgroups": [{"cgroup": directory} for directory in order["cgroup_directories"]],
    }


def ended_facts(shim: "Shim", is_final: bool) -> "Ended":
    """How the job ended, and all evidence of what it used."""
    order = shim.order
    return {
        "version": 1,
        "final": int(is_final),
        "exec_error": f"{shim.exec_error[0]} {shim.exec_error[1]}" if shim.exec_error else None,
        "status": shim.main_status,
        "start": moment_text(shim.start),
        "end": moment_text(shim.end),
        "last": moment_text(shim.last),
        **shim.ledger.counts(),
        "looked": f"{shim.census.looked_seconds:.6f}",
        "before_cgroup": f"{shim.before_cgroup_seconds:.6f}",
        "left": 0 if is_final else len(descendants(shim.pid)),
        "discarding": shim.ledger.discarding,
        "subreaper": int(shim.is_subreaper),
        "stop": shim.stopping.cause,
        "limits": limit_lines(order),
        "processes_killed": [{"killed": f"{pid} {name}"} for pid, name in shim.stopping.killed],
        "logs": shim.logs.lines(),
        "agent_error": shim.revival.error if shim.revival is not None else None,
        "output_error": shim.pump.error,
        "complained": warnings[0] if warnings else None,
        "oom_before": order["oom_before"],
        "evidence": [{f"cgroup.{label}": kept_lines(path, beginning)} for label, path, beginning in order["evidence"]],
        "counted": moment_text(now()),
        "own_cpu": f"{time.process_time():.6f}",
        "own_rss": status_value(shim.pid, "VmHWM:") * 1024,
    }


def limit_lines(order: "Order") -> "list[LimitLines]":
    """What is enforced, and by what."""
    return [
        {
            "limit": f"{what} {how}{f': {where}' if how == 'nothing' else ''}",
            "memory_limit": order["memory_limit"] if how == "sampling" else None,
        }
        for what, how, where in order["limits"]
    ]


def kept_lines(path: str, beginning: str) -> str:
    """The lines of a file that begin like this."""
    return "\n".join(line for line in read_text(path).split("\n") if line.startswith(beginning))


def moment_text(moment: tuple[float, float]) -> str:
    return f"{moment[0]:.6f} {moment[1]:.6f}"
