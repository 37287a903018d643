"""The list of containers as a page and as JSON: groups, absent values with their reasons, hostile text."""

import json

import pytest

from jobtop.cli.text.container_lines import container_json, is_wanted, page
from jobtop.core.measure.collectors.docker.model import Container, ContainerLimits
from jobtop.core.measure.collectors.docker.snapshot import CGROUP, ContainerRow, GpuUse
from jobtop.core.text.container_state import state_text

NOW = 1_794_976_292.0
JOB = "0f8fad5b-d9cb-469f-a165-70867728950e"
VALUES = {"cpu.percent": 53.05, "mem.used": 48 << 20, "proc.threads": 3, "limit.memory": 128 << 20, "io.read_bytes": 5}
RATES = {"net.rx_bytes": 2048.0, "net.tx_bytes": 0.0, "io.read_bytes": 1 << 20, "io.write_bytes": 0.0}


def row(name: str, project: str | None = None, **changes: object) -> ContainerRow:
    labels = {} if project is None else {"com.docker.compose.project": project}
    values: dict[str, object] = {"image": "box:1", "started_at": NOW - 75, "restarts": 2, "labels": labels} | changes
    container = Container("docker", f"{name:0<64}", name, str(values.pop("state", "running")), **values)  # type: ignore[arg-type]
    if not container.is_alive:
        return ContainerRow(container, why_absent="it does not run")
    known = VALUES | {"net.rx_bytes": 1}
    return ContainerRow(container, dict(known), dict(RATES), source=CGROUP)


def test_containers_are_grouped_by_project_and_others_come_last() -> None:
    rows = [row("cron"), row("db", "shop"), row("api", "blog"), row("web", "shop")]
    lines = list(page(rows, {}, NOW, None))
    assert [line.split()[0 if not line.startswith("  ") else 1] for line in lines] == [
        *("NAME", "blog", "api", "shop", "db", "web", "(no", "cron"),
    ]
    assert not list(page([row("cron")], {}, NOW, None))[1].startswith(" ")


def test_a_line_has_every_number_of_a_container() -> None:
    limits = ContainerLimits(128 << 20, 0.5, 20)
    _, line = page([row("web", limits=limits, health="healthy")], {f"{'web':0<64}": JOB}, NOW, None)
    for cell in (
        *("docker", "web", "running (healthy)", "53.0 %", "48.0 MiB", "37.5 % of 128.0 MiB", "2.0 KiB", "1.0 MiB"),
        *("3/20", "2", "1m15s", JOB[:8], "box:1"),
    ):
        assert f" {cell} " in f" {line} "


def test_an_absent_value_is_a_dash_with_its_reason_once() -> None:
    rows = [row(name) for name in "abcde"]
    for each in rows:
        del each.values["net.rx_bytes"]
        each.rates.clear()
        each.absent["net"] = "it has no network"
    *_, reason = page(rows, {}, NOW, None)
    assert reason == "– network of a, b, c and 2 more: it has no network"
    ended = row("old", state="exited", exit_code=137, is_oom_killed=True)
    lines = list(page([ended], {}, NOW, None))
    assert len(lines) == 2
    assert "exited (137, out of memory)" in lines[1]
    assert "–" in lines[1]


def test_hostile_names_are_shown_and_lines_fit_the_terminal() -> None:
    hostile = row("a\x1b[2J\n", "p\u202e\x07", image="x\x9b")
    lines = list(page([hostile], {}, NOW, 60))
    assert all(line.isprintable() and len(line) <= 60 for line in lines)
    assert "\\x1b[2J" in lines[2]


@pytest.mark.parametrize(("health", "said"), [(None, "running"), ("starting", "running (starting)")])
def test_the_state_has_the_health_of_a_container_that_is_checked(health: str | None, said: str) -> None:
    assert state_text(row("web", health=health).container) == said


def test_json_is_nested_at_the_dots_and_hides_secrets() -> None:
    found = row("web", "shop", command=("serve", "--token", "hunter2"))
    written = json.loads(json.dumps(container_json(found, "unix:///s", {}, NOW)))
    assert written["metrics"]["cpu"] == {"percent": 53.05}
    assert "limit" not in written["metrics"]
    assert written["rates"]["net"] == {"rx_bytes": 2048.0, "tx_bytes": 0.0}
    assert written["command"] == ["serve", "--token", "***"]
    assert (written["project"], written["job_id"], written["exit_code"]) == ("shop", None, None)
    ended = container_json(row("old", state="exited"), None, {}, NOW)
    assert (ended["metrics"], ended["absent"]) == ({}, {"all": "it does not run"})


def test_gpus_have_a_column_where_one_is_used() -> None:
    plain, found = row("a"), row("b")
    found = ContainerRow(found.container, found.values, gpus=(GpuUse("gpu:0", 45.0, 1 << 30),))
    head, *_, last = [line for line in page([plain, found], {}, NOW, None) if not line.startswith("–")]
    assert head.endswith("GPU")
    assert last.endswith("gpu:0 45.0 % 1.0 GiB")


def test_words_are_parts_of_names_whatever_their_case() -> None:
    web = row("Shop-Web-1", "shop")
    assert is_wanted(web, ("db", "web"), None, every=False)
    assert not is_wanted(web, ("db",), None, every=False)
    assert not is_wanted(web, (), "blog", every=False)
    ended = row("old", state="exited")
    assert not is_wanted(ended, (), None, every=False)
    assert is_wanted(ended, (), None, every=True)
