"""A run that is cancelled ends: what runs is stopped, what waits is not started."""

import json
from pathlib import Path

from running import nothing_is_left
from support import Jobtop, wait_for

__all__ = ["nothing_is_left"]

FILE = """\
name: long
jobs:
  - name: first
    command: sleep 300
  - name: second
    command: sleep 300
    depends_on: [first]
"""


def test_a_cancelled_run_stops_what_runs_and_starts_no_more(jobtop: Jobtop, tmp_path: Path) -> None:
    file = tmp_path / "long.yaml"
    file.write_text(FILE)
    jobtop("workflow", "submit", str(file))

    def counts() -> dict[str, int]:
        found: dict[str, int] = json.loads(jobtop("workflow", "status", "--json").stdout)["counts"]
        return found

    wait_for(lambda: counts() == {"running": 1, "queued": 1})
    assert jobtop("workflow", "cancel").returncode == 0
    assert counts() == {"cancelled": 2}
