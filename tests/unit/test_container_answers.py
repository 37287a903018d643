"""Answers of engines become records: captured ones, hostile names and labels, images without names, events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jobtop.core.measure.collectors.docker.answers import container_event, image_of, inspected, listed, moment
from jobtop.core.units import printable
from support import ROOT

DATA = ROOT / "tests/data/docker"
HOSTILE = ("\x1b[31mred\x1b]0;title\x07", "[bold]markup[/bold]", "[/", "a\nb\rc\x00", "\u202etxt.exe", "x" * 100_000)


def read(name: str) -> Any:
    return json.loads((DATA / f"{name}.json").read_text())


def test_a_running_container_has_its_pid_limits_and_times() -> None:
    found = inspected("docker", read("inspect-running"))
    assert found is not None
    assert (found.name, found.state, found.pid, found.restarts) == ("busy", "running", 19518, 0)
    assert (found.limits.memory_bytes, found.limits.cpus, found.limits.pids) == (67108864, 0.25, 20)
    assert (found.exit_code, found.finished_at, found.health) == (None, None, None)
    assert found.started_at == pytest.approx(1794790734.620635817)
    assert found.network_mode == "none"


def test_a_container_killed_for_its_memory_says_so() -> None:
    found = inspected("docker", read("inspect-running") | {"State": read("state-oom")})
    assert found is not None
    assert (found.is_oom_killed, found.exit_code, found.state, found.pid) == (True, 137, "exited", None)
    assert found.finished_at is not None


# What Podman 4.3 answers while a container with `trap 'exit 9' TERM` is stopped; the third answer is rare.
PODMAN_STOP = [
    {"Status": "running", "ExitCode": 0, "FinishedAt": "0001-01-01T00:00:00Z", "Pid": 19077},
    {"Status": "stopping", "ExitCode": 0, "FinishedAt": "0001-01-01T00:00:00Z", "Pid": 19077},
    {"Status": "stopped", "ExitCode": 0, "FinishedAt": "0001-01-01T00:00:00Z", "Pid": 0},
    {"Status": "stopped", "ExitCode": 9, "FinishedAt": "2026-11-18T11:24:33.310563642Z", "Pid": 0},
    {"Status": "exited", "ExitCode": 9, "FinishedAt": "2026-11-18T11:24:33.310563642Z", "Pid": 0},
]


def test_an_exit_code_counts_only_once_the_engine_has_noted_the_end() -> None:
    whole = read("inspect-running")
    found = [inspected("podman", whole | {"State": state}) for state in PODMAN_STOP]
    known = [(each.exit_code, each.is_alive, each.is_over) for each in found if each is not None]
    assert known == [(None, True, False), (None, True, False), (None, False, False), (9, False, True), (9, False, True)]
    again = PODMAN_STOP[1] | {"FinishedAt": "2026-11-18T11:20:00Z"}  # of the run before
    stopping = inspected("podman", whole | {"State": again})
    assert stopping is not None
    assert (stopping.exit_code, stopping.finished_at, stopping.is_over) == (None, None, False)


def test_the_actions_of_captured_events_are_without_their_suffixes() -> None:
    events = [event for message in read("events") if (event := container_event(message)) is not None]
    assert {"start", "die", "oom", "health_status", "exec_create", "pause", "unpause", "destroy"} <= {
        event.action for event in events
    }
    assert {event.detail for event in events if event.action == "health_status"} == {"unhealthy"}
    assert "/bin/sh -c false" in {event.detail for event in events if event.action == "exec_create"}
    assert not any(event.action in ("connect", "disconnect") for event in events)
    actions = [event.action for event in events]
    assert actions.index("oom") < len(actions) - actions[::-1].index("die")


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_and_labels_are_kept_as_text_and_shown_without_control_characters(text: str) -> None:
    labels = {text: text, "com.docker.compose.project": text, "jobtop.job": text}
    row = {"Id": "a" * 64, "Names": [f"/{text}"], "Labels": labels, "Image": text, "State": text, "Command": text}
    found = listed("docker", row)
    assert found is not None
    assert (found.name, found.project, found.image) == (text, text, text)
    assert all(printable(word).isprintable() for word in (found.name, found.state, *found.labels, *found.command))


@pytest.mark.parametrize("wrong", [None, 7, [], {}, True, [None], {"x": 1}])
def test_a_value_of_the_wrong_type_counts_as_absent(wrong: Any) -> None:
    whole = read("inspect-running")
    for key in whole.keys() - {"Id"}:
        found = inspected("docker", whole | {key: wrong})
        assert found is not None
        assert found.id == whole["Id"]
    assert inspected("docker", whole | {"Id": wrong}) is None
    row = {"Id": "a" * 64, "Names": wrong, "Labels": wrong, "Image": wrong, "State": wrong, "Created": wrong}
    small = listed("docker", row)
    assert small is not None
    assert small.name == "a" * 12
    assert container_event({"Type": "container", "Action": wrong, "Actor": {"ID": "a"}}) is None


def test_an_image_without_a_name_has_its_id() -> None:
    for tags in (None, [], ["<none>:<none>"]):
        found = image_of({"Id": "sha256:1", "RepoTags": tags, "RepoDigests": ["<none>@<none>"], "Size": 5})
        assert found is not None
        assert (found.id, found.names, found.digest, found.size_bytes) == ("sha256:1", (), None, 5)
    unnamed = listed("docker", {"Id": "a" * 64, "Names": None, "Image": "", "ImageID": "sha256:1"})
    assert unnamed is not None
    assert (unnamed.image, unnamed.image_id) == (None, "sha256:1")


def test_the_year_1_is_no_time() -> None:
    assert moment("0001-01-01T00:00:00Z") is None
    assert moment("2026-11-16T02:58:54.5+02:00") == pytest.approx(1794790734.5)
    assert moment("9999-99-99T00:00:00Z") is None
