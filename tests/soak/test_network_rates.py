"""200 MiB at 20 MiB/s: totals and the curve of a job are within 2 %, by sockets and in a namespace of its own."""

import json
from typing import Any

import pytest

from support import Jobtop
from transfers import MIB, far_end, run, run_in_namespace, sending

__all__ = ["far_end"]

pytestmark = pytest.mark.soak

SIZE, RATE = 200 * MIB, 20 * MIB


def middle_rate(jobtop: Jobtop) -> float:
    """The mean rate of what was sent, between the samples at a quarter and at three quarters of the run."""
    lines = jobtop("metrics", "last", "--format", "jsonl").stdout.splitlines()
    samples: list[dict[str, Any]] = [json.loads(line) for line in lines]
    known = [(one["elapsed"], one["net"]["tx_bytes"]) for one in samples if one["net"]["tx_bytes"] is not None]
    (began, first), (ended, last) = known[len(known) // 4], known[3 * len(known) // 4]
    return float((last - first) / (ended - began))


def test_a_steady_transfer_by_sockets(jobtop: Jobtop) -> None:
    used = run(jobtop, *sending(SIZE, RATE))["resource_usage"]
    assert used["net_tx_bytes"] == pytest.approx(SIZE, rel=0.02)
    assert used["net_rx_bytes"] == pytest.approx(SIZE, rel=0.02)
    assert middle_rate(jobtop) == pytest.approx(RATE, rel=0.1)


def test_a_steady_transfer_in_a_namespace(jobtop: Jobtop, far_end: str) -> None:
    used = run_in_namespace(jobtop, far_end, SIZE, RATE)["resource_usage"]
    assert used["net_tx_bytes"] == pytest.approx(SIZE, rel=0.02)
