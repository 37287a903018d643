"""Events of GPUs: one for each slowdown, not one for each second of it; and what they say."""

import pytest

from jobtop.core.measure.collectors.gpu.incidents import CALM_SECONDS, GpuIncidents
from jobtop.core.measure.collectors.machine_pids import MachinePids
from jobtop.core.measure.device import Device
from jobtop.core.measure.job_gpus import devices_in, parse_series, series_name
from jobtop.core.model import Usage
from jobtop.core.selftest.judge import Reference, gpu_memory
from jobtop.core.text.event_text import BAD, PLAIN, WARNING, event_text, severity
from records import made_job

GPU = Device("gpu", "0-a")
MIB = 1 << 20


def kinds(found: GpuIncidents) -> list[tuple[object, str, object]]:
    return [(owner, kind, detail.get("reasons")) for owner, kind, detail in found.take()]


def test_a_gpu_at_its_power_limit_is_slowed_down_once_though_it_comes_and_goes() -> None:
    found = GpuIncidents()
    for second in range(300):
        found.see("uuid", "0-a", ["power cap"] if second % 20 < 2 else [], (), float(second))
    assert kinds(found) == [(GPU, "gpu_throttled", ["power cap"])]
    found.see("uuid", "0-a", [], (), 282.0 + CALM_SECONDS)
    assert kinds(found) == [(GPU, "gpu_unthrottled", None)]


def test_another_reason_is_another_event_with_all_reasons() -> None:
    found = GpuIncidents()
    found.see("uuid", "0-a", ["power cap"], (), 0.0)
    found.take()
    found.see("uuid", "0-a", ["thermal"], (), 1.0)
    assert kinds(found) == [(GPU, "gpu_throttled", ["power cap", "thermal"])]
    found.see("uuid", "0-a", ["thermal"], (), 1.0 + CALM_SECONDS)
    assert kinds(found) == []


def test_a_job_that_comes_to_a_slowed_gpu_hears_of_it() -> None:
    found = GpuIncidents()
    found.see("uuid", "0-a", ["thermal"], (), 0.0)
    found.take()
    found.see("uuid", "0-a", ["thermal"], {"job"}, 1.0)
    assert kinds(found) == [("job", "gpu_throttled", ["thermal"])]
    found.forget("job")
    found.see("uuid", "0-a", ["thermal"], {"job"}, 2.0)
    assert kinds(found) == [("job", "gpu_throttled", ["thermal"])]


def test_the_record_of_a_job_on_a_lost_gpu_says_that_a_part_is_missing() -> None:
    found = GpuIncidents()
    found.lose("uuid", "0-a", "GPU is lost", {"job"})
    found.see("uuid", "0-a", [], {"job", "other"}, 1.0)
    [(job, remarks)] = found.remarks().items()
    assert (job, len(remarks.incomplete)) == ("job", 1)
    assert "GPU 0 did not answer" in remarks.incomplete[0]
    found.forget("job")
    assert found.remarks() == {}


def test_slowdowns_that_are_not_known_end_nothing() -> None:
    found = GpuIncidents()
    found.see("uuid", "0-a", ["thermal"], (), 0.0)
    found.take()
    found.see("uuid", "0-a", None, (), 2 * CALM_SECONDS)
    assert kinds(found) == []


def test_events_of_gpus_are_one_line_each() -> None:
    detail = {"gpu": "1.3-8f6c77aa", "reasons": ["power cap", "therm\x1bal"]}
    assert event_text("gpu_throttled", detail) == "GPU 1.3 is slowed down: power cap, therm\\x1bal"
    assert event_text("gpu_throttled", {"reasons": ["thermal"]}) == "the GPU is slowed down: thermal"
    assert event_text("gpu_lost", {"gpu": "1-8f", "reason": "GPU is lost"}) == "GPU 1 does not answer (GPU is lost)"
    assert event_text("gpu_used", {"gpu": "0-8f", "product": "NVIDIA A100"}) == "uses GPU 0 (NVIDIA A100)"
    assert event_text("gpu_throttled", {"gpu": 5, "reasons": 7}) == "GPU 5 is slowed down"
    severities = {kind: severity(kind, {}) for kind in ("gpu_lost", "gpu_throttled", "gpu_unthrottled", "gpu_used")}
    assert severities == {"gpu_lost": BAD, "gpu_throttled": WARNING, "gpu_unthrottled": PLAIN, "gpu_used": PLAIN}


def test_the_name_of_a_series_has_the_metric_and_the_gpu() -> None:
    name = series_name("gpu.util", "0-8f6c")
    assert parse_series(name) == ("gpu.util", "0-8f6c")
    assert [parse_series(own) for own in ("loss", "gpu.util", "gpu.util@", "mail@host")] == [None] * 4
    assert devices_in(["loss", name, "gpu.mem_used@0-8f6c", "gpu.util@1-b"]) == ["0-8f6c", "1-b"]


def test_the_self_test_takes_only_possible_memory_of_a_gpu_for_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MachinePids, "problem", lambda _: None)
    verdicts = {}
    for measured in (None, 99 * MIB, 100 * MIB, 700 * MIB, 5000 * MIB):
        job = made_job(usage=Usage(gpu_memory_peak_bytes=measured))
        verdicts[measured] = str(gpu_memory(100 * MIB)(job, Reference()).verdict)
    assert list(verdicts.values()) == ["fail", "fail", "pass", "pass", "fail"]
    monkeypatch.setattr(MachinePids, "problem", lambda _: "not seen")
    assert gpu_memory(MIB)(made_job(), Reference()).reason == "not seen"
