"""`jobtop.open_store`: jobs as plain records, samples as lists, output, statistics, other stores, threads."""

import sys
import threading
from pathlib import Path

import pytest

import jobtop
from jobtop.core.model import Status
from jobtop.core.run.supervisor import new_id
from records import kept_jobs, made_job
from sampled import kept_sampled, steady
from support import open_files, require


@pytest.fixture
def three_jobs(home: Path) -> Path:
    """A store with a failed job, a successful one, and a sampled one, which is the newest."""
    failed = made_job(id=new_id(), name="broken", status=Status.FAILED, exit_code=3, tool="sh", params={"lr": 0.1})
    kept_jobs(home, failed, made_job(id=new_id(), name="fine", status=Status.SUCCESS, tool="make"))
    kept_sampled(home, made_job(id=new_id(), name="sampled", tool="sh", duration_seconds=20.0), steady(20))
    return home


def test_jobs_are_selected_by_a_filter_of_the_verbs(three_jobs: Path) -> None:
    store = jobtop.open_store()
    assert {job.name for job in store.jobs()} == {"broken", "fine", "sampled"}
    (job,) = store.jobs("status:failed")
    assert (job.name, job.exit_code, job.params, job.status) == ("broken", 3, {"lr": 0.1}, "failed")
    assert [job.name for job in store.jobs("tool:sh", sort="name", reverse=True, limit=1)] == ["broken"]
    assert open_files(three_jobs) == []


def test_a_filter_that_is_wrong_is_named(three_jobs: Path) -> None:
    with pytest.raises(jobtop.BadValue, match="status"):
        jobtop.open_store().jobs("statu:failed")


def test_a_job_is_found_in_every_way_that_verbs_accept(three_jobs: Path) -> None:
    with jobtop.open_store() as store:
        full = store.job("broken").id
        for word in (full, full[:8], "#1", "last:failed"):
            assert store.job(word).name == "broken"
        assert store.job(store.job(full)).id == full
        with pytest.raises(jobtop.UnknownJob, match="nothing-like-it"):
            store.job("nothing-like-it")


def test_the_json_of_a_record_is_that_of_the_verb(three_jobs: Path) -> None:
    shape = jobtop.open_store().job("broken").to_json()
    assert (shape["schema_version"], shape["exit_code"], shape["params"]) == (1, 3, {"lr": 0.1})


def test_series_are_lists_of_equal_length(three_jobs: Path) -> None:
    with jobtop.open_store() as store:
        series = store.series("sampled", ["cpu.percent", "mem.used"])
        assert len(series) == len(series["cpu.percent"]) == len(series["mem.used"]) >= 20
        part = store.series("sampled", ["mem.used"], start=5, end=10)
        assert (part.elapsed[0] >= 5, part.elapsed[-1] <= 10, len(part)) == (True, True, 6)
        assert len(store.series("sampled", "mem.used", max_points=4)) <= 4
        with pytest.raises(jobtop.BadValue, match=r"cpu\.percnt"):
            store.series("sampled", ["cpu.percnt"])


def test_statistics_are_those_of_the_verb(three_jobs: Path) -> None:
    stats = jobtop.open_store().stats(by="tool")
    assert (stats["total_jobs"], stats["by_tool"]["sh"]["failed"]) == (3, 1)


def test_without_a_store_there_are_no_jobs(home: Path) -> None:
    with jobtop.open_store() as store:
        assert store.jobs() == []
        assert store.stats()["total_jobs"] == 0
        with pytest.raises(jobtop.UnknownJob, match="recorded"):
            store.job("last")


def test_another_store_is_only_read(three_jobs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JOBTOP_HOME", str(tmp_path / "empty"))
    assert len(jobtop.open_store(three_jobs).jobs()) == 3
    with pytest.raises(jobtop.UsageError, match="no such file"):
        jobtop.open_store(tmp_path / "missing.db")


def test_an_open_store_serves_other_threads(three_jobs: Path) -> None:
    found: list[int] = []
    with jobtop.open_store() as store:
        thread = threading.Thread(target=lambda: found.append(len(store.jobs())))
        thread.start()
        thread.join()
    assert found == [3]
    assert open_files(three_jobs) == []


def test_the_output_of_a_job_without_any_says_so(three_jobs: Path) -> None:
    with pytest.raises(jobtop.UnknownJob, match="output"):
        jobtop.open_store().logs("broken")


def test_without_pandas_the_error_names_the_remedy(three_jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(jobtop.JobtopError, match="pip install pandas"):
        jobtop.open_store().jobs().to_pandas()


def test_jobs_and_samples_become_frames(three_jobs: Path) -> None:
    try:
        import pandas  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: F401, ICN001
    except ImportError:
        require("pandas", "pandas is not installed")
    with jobtop.open_store() as store:
        jobs = store.jobs(sort="name").to_pandas()
        series = store.series("sampled", ["mem.used"]).to_pandas()
    assert list(jobs.columns).count("resource_usage.cpu_total_seconds") == 1
    assert jobs["params.lr"].dropna().tolist() == [0.1]
    assert str(jobs["start_time"].dtype).endswith("UTC]")
    assert series.index.name == "elapsed"
    assert list(series.columns) == ["mem.used"]
