"""`jobtop alerts test` on a job that really ran."""

import json

from jobtop.core.clock import from_iso
from support import Jobtop

RULE = """
[[alert]]
name = "large"
metric = "mem.used"
above = "60MiB"
"""
COMMAND = "import time; kept = bytearray(b'x') * (100 << 20); time.sleep(1.2)"


def test_a_rule_that_is_written_later_fires_at_the_moment_a_recorded_job_was_too_large(jobtop: Jobtop) -> None:
    run = jobtop("run", "--no-ui", "--interval", "0.1s", "--", jobtop.python, "-c", COMMAND)
    assert run.returncode == 0, run.stderr
    directory = jobtop.home / ".config" / "jobtop"
    directory.mkdir(parents=True)
    (directory / "config.toml").write_text(RULE)
    (found,) = json.loads(jobtop("alerts", "test", "large", "--job", "last", "--json").stdout)
    job = json.loads(jobtop("show", "last", "--json").stdout)
    fired = from_iso(found["fired_at"])
    begin, end = from_iso(job["start_time"]), from_iso(job["end_time"])
    assert begin is not None
    assert end is not None
    assert fired is not None
    assert begin < fired < end
    assert found["job_id"] == job["id"]
    assert 60 << 20 < found["worst"] <= job["resource_usage"]["memory_peak_bytes"]
    table = jobtop("alerts", "test", "large")
    assert table.returncode == 0
    assert "once" in table.stdout
    assert jobtop("alerts", "list").stdout.startswith("No active alerts")
