"""The record of a job: legal status changes, immutable values, and its JSON form."""

import json
from typing import Any

import pytest

from jobtop.core.job_id import JobId, are_job_ids, is_job_id
from jobtop.core.model import (
    ENDS,
    LIVE,
    Identity,
    Job,
    JobSpec,
    Limits,
    Monitor,
    Queued,
    RetryRule,
    Status,
    Usage,
    known,
    spec_from,
)
from jobtop.core.record import as_dict, fields, fresh, record, replace
from records import numbered_id

ID = numbered_id(7)

RESOURCE_KEYS = (
    "cpu_user_seconds cpu_system_seconds cpu_total_seconds cpu_efficiency cpu_percent_mean cpu_percent_min"
    " cpu_percent_peak memory_peak_bytes memory_mean_bytes memory_min_bytes memory_cgroup_peak_bytes io_read_bytes"
    " io_write_bytes io_read_chars io_write_chars processes_peak threads_peak samples gpu_util_mean gpu_util_peak"
    " gpu_memory_peak_bytes energy_gpu_joules energy_cpu_joules net_rx_bytes net_tx_bytes"
).split()
JOB_KEYS = (
    "schema_version id seq external_id parent_id name tool script command params tags note host user cwd pid status"
    " reason flags exit_code signal error submitted_at start_time end_time duration_seconds limits resource_usage"
    " sources incomplete monitor metrics queue pinned kept kind environment limited_by findings stale last_heard"
).split()
JOB = Job(
    id=JobId("0f8fad5b-d9cb-469f-a165-70867728950e"),
    name="train\n\x1b[31m",
    command=("python", "train.py"),
    host="atlas",
    user="u",
    cwd="/w",
    status=Status.SUCCESS,
    seq=17,
    tags={"k": "v"},
    flags=("left_running",),
    exit_code=0,
    submitted_at=1767323045.000001,
    start_time=1767323045.123456,
    end_time=1767323375.5,
    duration_seconds=330.376544,
    limits=Limits(cpus=4, timeout_seconds=7200.0),
    usage=Usage(cpu_total_seconds=3.5, memory_peak_bytes=1024),
    sources={"cpu": "rusage"},
    incomplete=("io_chars: 2 processes",),
    monitor=Monitor(cpu_seconds=0.1, rss_bytes=4096),
    queue=Queued(priority=3, after=("a", "b"), not_before=1767323045.25, gpus=("0",)),
    last_heard=1767323370.5,
)


def test_a_job_as_json_has_the_keys_of_the_contract() -> None:
    shape = JOB.to_json()
    assert list(shape) == JOB_KEYS
    assert shape["resource_usage"].keys() >= set(RESOURCE_KEYS)
    limits = ["cpus", "memory_bytes", "runtime_seconds", "gpus", "timeout_seconds", "enforced", "pids"]
    assert list(shape["limits"]) == limits
    assert list(shape["monitor"])[:3] == ["interval_seconds", "cpu_seconds", "rss_bytes"]
    assert shape["schema_version"] == 1
    assert shape["start_time"] == "2026-01-02T03:04:05.123456Z"
    assert shape["note"] is None


def test_a_job_survives_json() -> None:
    assert Job.from_json(json.loads(json.dumps(JOB.to_json()))) == JOB


def test_keys_of_a_later_version_are_ignored() -> None:
    shape: dict[str, Any] = JOB.to_json()
    shape |= {"colour": "red", "limits": shape["limits"] | {"disk": 1}, "monitor": shape["monitor"] | {"x": 1}}
    shape["resource_usage"] = shape["resource_usage"] | {"joules": 5}
    assert Job.from_json(shape) == JOB


@pytest.mark.parametrize(
    ("status", "host", "silent_seconds", "interval", "stale"),
    [
        ("running", "atlas", 61.0, None, True),
        ("paused", "atlas", 61.0, 1.0, True),
        ("running", "atlas", 59.0, None, False),
        ("running", "atlas", 800.0, 300.0, False),
        ("running", "atlas", 901.0, 300.0, True),
        ("running", "atlas", None, None, None),
        ("running", "here", 1e9, None, False),
        ("success", "atlas", 1e9, None, False),
        ("queued", "atlas", None, None, False),
    ],
)
def test_a_live_job_of_another_host_is_stale_after_three_missed_heartbeats(
    status: str, host: str, silent_seconds: float | None, interval: float | None, stale: bool | None
) -> None:
    now = 2e9
    heard = None if silent_seconds is None else now - silent_seconds
    job = replace(JOB, status=Status(status), host=host, last_heard=heard, monitor=Monitor(interval_seconds=interval))
    assert job.is_stale(now, "here") is stale


def test_a_spec_as_json_can_run_the_job_again() -> None:
    rules = (RetryRule((1, 2), "./fix.sh", 5), RetryRule())
    spec = JobSpec(ID, ("sh", "-c", "x"), "/w", {"TOKEN": "secret"}, timeout_seconds=5.0, retry_rules=rules)
    shape = json.loads(json.dumps(spec.to_json()))
    assert shape["schema_version"] == 1
    assert spec_from(shape) == spec


def test_a_job_has_ended_unless_it_is_queued_running_or_paused() -> None:
    assert {status for status in Status if not status.ended} == {Status.QUEUED, Status.RUNNING, Status.PAUSED} == LIVE


@pytest.mark.parametrize(
    ("status", "following"),
    [
        (Status.QUEUED, {Status.RUNNING, Status.PAUSED, Status.CANCELLED, Status.ERROR, Status.LOST}),
        (Status.RUNNING, {Status.PAUSED, *ENDS}),
        (Status.PAUSED, {Status.RUNNING, Status.QUEUED, *ENDS}),
        (Status.LOST, set(ENDS)),
        *((status, set()) for status in sorted(ENDS - {Status.LOST})),
    ],
)
def test_only_legal_status_changes_are_allowed(status: Status, following: set[Status]) -> None:
    assert {other for other in Status if status.may_become(other)} == following


def test_a_record_is_made_of_the_known_keys_of_a_mapping() -> None:
    assert known(Monitor, {"rss_bytes": 5, "new": 1}) == Monitor(rss_bytes=5)


@record
class Point:
    """A record to test with."""

    x: int
    y: int = 2
    notes: list[str] = fresh(default_factory=list)

    @property
    def total(self) -> int:
        return self.x + self.y


def test_a_record_takes_values_by_position_and_by_name() -> None:
    assert Point(1) == Point(x=1, y=2) == Point(1, 2, [])
    assert Point(1) != Point(2)
    assert Point(1, y=5).total == 6
    assert repr(Point(1, 2)) == "Point(x=1, y=2, notes=[])"
    assert fields(Point) == ("x", "y", "notes")
    assert as_dict(Point(1)) == {"x": 1, "y": 2, "notes": []}
    assert Point.__doc__ == "A record to test with."


@pytest.mark.parametrize("arguments", [((), {}), ((1, 2, [], 4), {}), ((1,), {"z": 3})])
def test_a_record_refuses_unknown_fields(arguments: tuple[tuple[object, ...], dict[str, object]]) -> None:
    values, named = arguments
    with pytest.raises(TypeError, match="Point"):
        Point(*values, **named)  # type: ignore[arg-type]


def test_a_record_cannot_be_changed_but_replaced() -> None:
    point = Point(1)
    with pytest.raises(AttributeError, match="replace"):
        point.x = 5  # type: ignore[misc]
    with pytest.raises(AttributeError, match="replace"):
        del point.y
    with pytest.raises(AttributeError):
        point.z = 1  # type: ignore[attr-defined]
    assert replace(point, x=5) == Point(5)
    assert point == Point(1)


def test_a_mutable_default_is_not_shared() -> None:
    one, other = Point(1), Point(1)
    one.notes.append("mine")
    assert other.notes == []


def test_records_with_equal_values_have_equal_hashes() -> None:
    assert len({Identity("b", 1, 2), Identity("b", 1, 2), Identity("b", 1, 3)}) == 2


def test_a_record_matches_by_position() -> None:
    match Identity("b", 1, 2):
        case Identity(_, pid, start):
            assert (pid, start) == (1, 2)
        case _:
            pytest.fail("no match")


@pytest.mark.parametrize(
    "text",
    [
        None,
        7,
        "",
        "../../victim",
        "0F8FAD5B-D9CB-469F-A165-70867728950E",
        "0f8fad5bd-9cb-469f-a165-70867728950e",
        "0f8fad5b-d9cb-469f-a165-7086772895-e",
        "0f8fad5b-d9cb-469f-a165-70867728950\n",
    ],
)
def test_one_wrong_id_among_many_is_noticed(text: object) -> None:
    ids = [str(numbered_id(number)) for number in range(9)]
    assert are_job_ids(ids)
    assert are_job_ids([])
    assert not are_job_ids([*ids, text, *ids])
    assert not is_job_id(text)
