"""What is deleted of old jobs and what stays: by age, by tag, by size; in a real store, step by step."""

import json
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from jobtop.core.config import RetentionRule, load
from jobtop.core.measure.snapshot import ProcessRow
from jobtop.core.model import Job, Kept, Queued, Status
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.core.retention import Budget, JobSizes, Move, Policy, move_by_age, protection, read_policy, sizes_after
from jobtop.store.database import Database
from jobtop.store.jobs import Event, Jobs, event
from jobtop.store.samples import sink as sink_module
from jobtop.store.samples.head import HOSTS
from jobtop.store.samples.series import SeriesStore
from jobtop.store.samples.sink import StoreSink
from jobtop.store.samples.snapshots import Snapshots
from jobtop.store.upkeep.retention import Retention, set_pinned
from records import assert_one_line, call, kept_jobs, made_job, numbered_id, running_job
from sampled import steady

DAY = 86400.0
NOW = 1_800_000_000.0
POLICY = Policy(7 * DAY, 90 * DAY)
ROW = ProcessRow(51, 50, "train", 1.5, 50.0, 1 << 20, 1, 3.0, "R")


def held(age_days: float | None = None, **values: Any) -> JobSizes:
    """What a job of a day holds that ended so many days ago; None: it runs."""
    ended = None if age_days is None else NOW - age_days * DAY
    defaults: dict[str, Any] = {
        "kept": Kept.WHOLE,
        "begun": (NOW if ended is None else ended) - DAY,
        "samples": 1000,
        "sample_bytes": 20_000,
    }
    return JobSizes(1, numbered_id(1), "train", **defaults | {"ended": ended} | values)


@pytest.mark.parametrize(
    ("age_days", "kept", "expected"),
    [
        (6.9, Kept.WHOLE, None),
        (7.1, Kept.WHOLE, Kept.MINUTES),
        (89.0, Kept.MINUTES, None),
        (90.1, Kept.MINUTES, Kept.RECORD),
        (90.1, Kept.WHOLE, Kept.RECORD),
        (400.0, Kept.RECORD, None),
    ],
)
def test_a_job_is_thinned_and_later_reduced_to_its_record_by_age(
    age_days: float, kept: Kept, expected: Kept | None
) -> None:
    move = move_by_age(POLICY, held(age_days, kept=kept), NOW)
    assert (None if move is None else move.to) == expected


def test_only_old_samples_of_a_running_job_are_thinned() -> None:
    assert move_by_age(POLICY, held(begun=NOW - 400 * DAY), NOW) is None
    old = held(begun=NOW - 10 * DAY, old_samples=300, old_bytes=6000)
    assert move_by_age(POLICY, old, NOW) == Move(old, Kept.WHOLE, 3 * DAY)


def test_samples_of_a_long_job_are_thinned_before_it_is_old_as_a_whole() -> None:
    long = held(1.0, begun=NOW - 20 * DAY, old_samples=300, old_bytes=6000)
    move = move_by_age(POLICY, long, NOW)
    assert move is not None
    assert (move.to, move.until, move.samples) == (Kept.WHOLE, 13 * DAY, 300)


def test_minutes_that_are_kept_shorter_than_samples_are_skipped() -> None:
    policy = Policy(30 * DAY, 10 * DAY)
    assert move_by_age(policy, held(20), NOW) is None
    move = move_by_age(policy, held(31), NOW)
    assert move is not None
    assert move.to is Kept.RECORD


@pytest.mark.parametrize("age_days", [None, 8.0, 1000.0])
def test_a_pinned_job_stays_whole(age_days: float | None) -> None:
    assert move_by_age(POLICY, held(age_days, pinned=True, old_samples=1), NOW) is None


@pytest.mark.parametrize(
    ("tags", "age_days", "expected"),
    [
        ({"paper": "1"}, 1000.0, None),
        ({"project": "llm"}, 99.0, None),
        ({"project": "llm"}, 101.0, Kept.RECORD),
        ({"project": "other"}, 99.0, Kept.RECORD),
        ({"project": "llm", "paper": ""}, 1000.0, None),
        ({"project": "llm"}, None, None),
        ({"team": "vision"}, 99.0, None),
        ({"team": "audio"}, 99.0, Kept.RECORD),
    ],
    ids=str,
)
def test_jobs_with_a_tag_stay_whole_as_long_as_a_rule_says(
    tags: dict[str, str], age_days: float | None, expected: Kept | None
) -> None:
    lasting = {"paper": float("inf"), "project=llm": 100 * DAY, "team=v*": 100 * DAY}
    rules = tuple(RetentionRule(tag, seconds, "file") for tag, seconds in lasting.items())
    move = move_by_age(replace(POLICY, rules=rules), held(age_days, tags=tags, old_samples=5), NOW)
    assert (None if move is None else move.to) == expected


def test_the_budget_thins_the_oldest_jobs_first() -> None:
    jobs = [held(5.0, name=name) for name in ("oldest", "older", "newest")]
    budget = Budget(20_000, 3 * 17_000)
    assert [budget.decide(job) for job in jobs] == [Move(jobs[0], Kept.MINUTES), Move(jobs[1], Kept.MINUTES), None]
    assert budget.over_bytes == 20_000 - 2 * 17_000


def test_the_oldest_jobs_keep_only_their_records_if_thinning_is_not_enough() -> None:
    jobs = [held(5.0, file_bytes=40_000, spec_bytes=4_000) for _ in range(4)]
    budget = Budget(100_000, 4 * 17_000)
    moves = [budget.decide(job) for job in jobs]
    assert [move and move.to for move in moves] == [Kept.RECORD, Kept.MINUTES, Kept.MINUTES, Kept.MINUTES]
    assert moves[0] is not None
    assert moves[0].freed_bytes == 64_000
    assert budget.over_bytes <= 0


def test_the_budget_skips_jobs_without_data() -> None:
    budget = Budget(1_000_000, 0)
    assert budget.decide(held(5.0, samples=0, sample_bytes=0)) is None


def test_the_sizes_after_a_move_are_estimated() -> None:
    job = held(8.0, snapshot_bytes=1000, file_bytes=5000)
    left = sizes_after(Move(job, Kept.MINUTES))
    assert (left.kept, left.samples, left.sample_bytes, left.minute_bytes) == (Kept.MINUTES, 0, 0, 3000)
    assert job.all_bytes - left.all_bytes == Move(job, Kept.MINUTES).freed_bytes
    assert sizes_after(Move(job, Kept.RECORD)).all_bytes == 0


def test_a_max_size_of_zero_is_no_limit(tmp_path: Path) -> None:
    loaded = load(["store.max_size=0", "store.raw_days=1"], {"HOME": str(tmp_path)}, tmp_path, tmp_path)
    assert read_policy(loaded) == Policy(DAY, 90 * DAY, None, ())


# -- in a store


def kept(database: Database, paths: StatePaths, age_days: float, samples: int = 900, **values: Any) -> Job:
    """A job that ended so many days ago, with all that a job can have."""
    end = time.time() - age_days * DAY
    times = {"start_time": end - samples, "end_time": end, "duration_seconds": float(samples)}
    job = Jobs(database).insert(made_job(**times | values), event("started"))
    assert job.seq is not None
    with database.writing() as connection:
        connection.execute("UPDATE jobs SET samples = ? WHERE seq = ?", (samples, job.seq))
    series = SeriesStore(database)
    series.append([(job.seq, one) for one in steady(samples)])
    series.seal(job.seq)
    while series.trim():
        pass
    Snapshots(database).keep_all([(job.seq, at + 3.0, [ROW]) for at in range(0, samples, 10)])
    Jobs(database).add_log_marks(job, [(1.0, 9000, 0)])
    directory = paths.job(job.id)
    directory.mkdir(parents=True)
    (directory / "stdout.log").write_bytes(b"x" * 9000)
    paths.specs.mkdir(exist_ok=True)
    paths.spec(job.id).write_text("{}")
    return Jobs(database).find(job.id)


def pruned(database: Database, paths: StatePaths, policy: Policy = POLICY, is_dry: bool = False) -> Retention:
    retention = Retention(database, paths, policy, is_dry)
    while retention.step():
        pass
    return retention


def counts(database: Database, job: Job) -> dict[str, int]:
    tables = {"blocks": "job_seq", "snapshots": "job_seq", "log_marks": "job_seq", "events": "job_seq"}
    with database.reading() as connection:
        return {
            table: connection.execute(f"SELECT count(*) FROM {table} WHERE {owner} = ?", (job.seq,)).fetchone()[0]
            for table, owner in tables.items()
        }


def minutes(database: Database, job: Job) -> int:
    """How many samples a job has, a minute counted as one."""
    return SeriesStore(database).count(job.seq or 0)


def test_an_old_job_keeps_one_sample_and_one_snapshot_a_minute(database: Database, paths: StatePaths) -> None:
    job = kept(database, paths, 10.0)
    report = pruned(database, paths).report
    found = Jobs(database).find(job.id)
    assert found == replace(job, kept=Kept.MINUTES)
    assert minutes(database, job) == 16
    values = SeriesStore(database).series(job.seq or 0, ["mem.used", "cpu.user"]).values
    assert max(value for value in values["mem.used"] if value is not None) == 900 << 20
    assert [value for value in values["cpu.user"] if value is not None][-1] == pytest.approx(360.0)
    assert Snapshots(database).moments(job) == [53.0 + 60 * minute for minute in range(15)]
    assert (paths.job(job.id) / "stdout.log").exists()
    assert counts(database, job)["log_marks"] == 1
    assert report.removed["whole", "minutes"].samples == 900
    assert pruned(database, paths).report.removed == {}, "and there is nothing left to do"


def test_a_very_old_job_keeps_its_record_and_its_events(database: Database, paths: StatePaths) -> None:
    job = kept(database, paths, 100.0)
    report = pruned(database, paths).report
    assert Jobs(database).find(job.id) == replace(job, kept=Kept.RECORD)
    assert counts(database, job) == {"blocks": 0, "snapshots": 0, "log_marks": 0, "events": 2}
    assert Jobs(database).events(job)[-1].detail == {"reason": "store.rollup_days"}
    assert not paths.job(job.id).exists()
    assert paths.spec(job.id).exists(), "which store.spec_days is for"
    went = report.removed["whole", "record"]
    assert (went.jobs, went.samples, went.file_bytes) == (1, 900, 12288)


def test_young_pinned_and_tagged_jobs_are_left_alone(database: Database, paths: StatePaths) -> None:
    jobs = [kept(database, paths, 5.0), kept(database, paths, 500.0), kept(database, paths, 500.0, tags={"paper": "1"})]
    set_pinned(database, [jobs[1]], True)
    before = [counts(database, job) for job in jobs]
    policy = replace(POLICY, rules=(RetentionRule("paper", float("inf"), "file"),))
    assert pruned(database, paths, policy).report.removed == {}
    assert [counts(database, job) for job in jobs] == before
    assert [Jobs(database).find(job.id).kept for job in jobs] == [Kept.WHOLE] * 3
    assert [Jobs(database).find(job.id).pinned for job in jobs] == [False, True, False]


def test_old_samples_of_a_job_that_runs_become_minutes_and_it_stays_whole(
    database: Database, paths: StatePaths
) -> None:
    job = Jobs(database).insert(running_job(start_time=time.time() - 7 * DAY - 1000))
    assert job.seq is not None
    series = SeriesStore(database)
    series.append([(job.seq, one) for one in steady(1200)])
    while series.seal_due(1):
        pass
    Snapshots(database).keep_all([(job.seq, at + 3.0, [ROW]) for at in range(0, 1200, 10)])
    pruned(database, paths)
    times = SeriesStore(database).series(job.seq, ["mem.used"]).times
    young = [moment for moment in times if moment > 960.0]
    assert young == [float(moment) for moment in range(961, 1201)]
    assert minutes(database, job) == 240 + 17
    assert Jobs(database).find(job.id).kept is Kept.WHOLE
    assert len(Snapshots(database).moments(job)) == pytest.approx(17 + 20, abs=5)


def test_followers_see_that_a_job_was_pruned(database: Database, paths: StatePaths) -> None:
    job = kept(database, paths, 10.0)
    _, seen = Jobs(database).changed_since(0)
    pruned(database, paths)
    changed, last = Jobs(database).changed_since(seen)
    assert [(one.id, one.kept) for one in changed] == [(job.id, Kept.MINUTES)]
    set_pinned(database, [job], True)
    assert [one.pinned for one in Jobs(database).changed_since(last)[0]] == [True]


def test_old_jobs_without_data_are_marked_many_at_once(database: Database, paths: StatePaths) -> None:
    jobs = Jobs(database)
    with database.writing():
        ids = [jobs.insert(made_job(start_time=1.0 + number)).id for number in range(500)]
    retention = Retention(database, paths, POLICY)
    steps = 0
    while retention.step():
        steps += 1
    assert steps < 40
    assert {jobs.find(job_id).kept for job_id in ids} == {Kept.RECORD}
    assert retention.report.removed["whole", "record"].jobs == 500


def test_output_of_another_host_in_the_same_directory_stays(database: Database, paths: StatePaths) -> None:
    job = kept(database, paths, 100.0, host="elsewhere")
    pruned(database, paths)
    assert Jobs(database).find(job.id).kept is Kept.RECORD
    assert (paths.job(job.id) / "stdout.log").exists()


def test_a_job_that_will_be_retried_or_left_processes_is_not_pruned(database: Database, paths: StatePaths) -> None:
    again = kept(database, paths, 100.0, status=Status.FAILED, queue=Queued(retries=2))
    left = kept(database, paths, 100.0, settled=False)
    pruned(database, paths)
    assert [Jobs(database).find(job.id).kept for job in (again, left)] == [Kept.WHOLE] * 2


@pytest.mark.parametrize("status", [Status.SUCCESS, Status.CANCELLED])
def test_a_job_with_unused_retries_is_pruned(database: Database, paths: StatePaths, status: Status) -> None:
    job = kept(database, paths, 100.0, status=status, queue=Queued(retries=2))
    pruned(database, paths)
    assert Jobs(database).find(job.id).kept is Kept.RECORD


@pytest.mark.parametrize(("days_ago", "expected"), [(1.0, Kept.WHOLE), (8.0, Kept.MINUTES), (91.0, Kept.RECORD)])
def test_the_age_of_an_imported_job_counts_from_its_import(
    database: Database, paths: StatePaths, days_ago: float, expected: Kept
) -> None:
    job = kept(database, paths, 400.0, tags={"imported": "torc"})
    Jobs(database).add_events([(job.seq or 0, Event(time.time() - days_ago * DAY, "imported", {}))])
    pruned(database, paths)
    assert Jobs(database).find(job.id).kept is expected
    assert minutes(database, job) == {Kept.WHOLE: 900, Kept.MINUTES: 16, Kept.RECORD: 0}[expected]


def test_a_dry_pass_changes_nothing_and_reports_what_a_real_one_prunes(database: Database, paths: StatePaths) -> None:
    for age in (1.0, 10.0, 20.0, 100.0):
        kept(database, paths, age)
    with database.reading() as connection:
        before = list(connection.iterdump())
    look = pruned(database, paths, is_dry=True).report
    with database.reading() as connection:
        assert list(connection.iterdump()) == before
    done = pruned(database, paths).report
    assert done.removed == look.removed
    assert [move.job.id for move in done.largest] == [move.job.id for move in look.largest]
    assert look.left_bytes == pytest.approx(done.left_bytes, rel=0.3)


def test_pruning_by_size_prunes_the_oldest_and_no_pinned_jobs(database: Database, paths: StatePaths) -> None:
    jobs = [kept(database, paths, 5.0 - number) for number in range(4)]
    set_pinned(database, jobs[:1], True)
    total = pruned(database, paths, is_dry=True).report.total_bytes
    policy = replace(POLICY, max_bytes=total - 60_000)
    assert pruned(database, paths, policy, is_dry=True).report.over_bytes == 0
    report = pruned(database, paths, policy).report
    assert report.over_bytes == 0
    assert report.left_bytes <= total - 60_000
    tiers = [Jobs(database).find(job.id).kept for job in jobs]
    assert (tiers[0], tiers[1]) == (Kept.WHOLE, Kept.RECORD)
    assert tiers[3] is not Kept.RECORD
    assert not paths.spec(jobs[1].id).exists()
    report = pruned(database, paths, replace(POLICY, max_bytes=1)).report
    assert [Jobs(database).find(job.id).kept for job in jobs] == [Kept.WHOLE] + [Kept.RECORD] * 3
    assert report.over_bytes == report.left_bytes - 1
    assert report.held.keys() == {"pinned"}


def test_a_job_that_is_pinned_during_a_pass_is_not_pruned(database: Database, paths: StatePaths) -> None:
    first, second = kept(database, paths, 20.0), kept(database, paths, 10.0)
    retention = Retention(database, paths, POLICY)
    while Jobs(database).find(first.id).kept is Kept.WHOLE:
        assert retention.step()
    set_pinned(database, [second], True)
    while retention.step():
        pass
    assert Jobs(database).find(second.id).kept is Kept.WHOLE
    assert len(SeriesStore(database).samples(second.seq or 0)) == 900


def test_host_samples_are_pruned_by_age(database: Database, paths: StatePaths) -> None:
    from jobtop.core.model import Sample

    with database.writing() as connection:
        for seq, age in ((1, 100.0), (2, 10.0), (3, 0.0)):
            sql = "INSERT INTO hosts (seq, boot, boot_time) VALUES (?, ?, ?)"
            connection.execute(sql, (seq, f"boot {seq}", time.time() - age * DAY))
            connection.executemany(
                "INSERT INTO host_details VALUES (?, ?, ?)", [(seq, float(at), b"x") for at in range(0, 600, 10)]
            )
    series = SeriesStore(database, HOSTS)
    values = tuple(1 for _ in HOSTS.keys)
    series.append([(seq, Sample(float(at), values)) for at in range(600) for seq in (1, 2, 3)])
    for seq in (1, 2):
        series.seal(seq)
    report = pruned(database, paths).report
    assert [SeriesStore(database, HOSTS).count(seq) for seq in (1, 2, 3)] == [0, 10, 600]
    with database.reading() as connection:
        sql = "SELECT host_seq, count(*) FROM host_details GROUP BY 1"
        assert dict(connection.execute(sql).fetchall()) == {2: 10, 3: 60}
    assert {pair: went.samples for pair, went in report.removed.items()} == {
        ("machine", "minutes"): 600,
        ("machine", "record"): 600,
    }


def test_a_pass_that_stops_between_two_steps_is_finished_by_the_next(database: Database, paths: StatePaths) -> None:
    jobs = [kept(database, paths, age, samples=3000) for age in (10.0, 100.0)]
    for steps in range(1, 200, 3):
        retention = Retention(database, paths, POLICY)
        if all(retention.step() for _ in range(steps)):
            continue
        break
    found = [Jobs(database).find(job.id) for job in jobs]
    assert [job.kept for job in found] == [Kept.MINUTES, Kept.RECORD]
    assert [replace(job, kept=Kept.WHOLE) for job in found] == jobs
    assert 50 <= minutes(database, jobs[0]) <= 55
    assert counts(database, jobs[1])["blocks"] == 0


# -- inside of engines


def test_an_engine_prunes_a_minute_after_its_start_and_then_pauses(
    database: Database, paths: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, again = kept(database, paths, 10.0), kept(database, paths, 1.0)
    config = load([], {"HOME": str(paths.root)}, paths.root, paths.root)
    now = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with closing(StoreSink(paths, network=False, config=config)) as sink:
        while sink.step():
            pass
        for _ in range(20):
            sink.step()
        assert Jobs(database).find(job.id).kept is Kept.WHOLE, "too early"
        now[0] += sink_module.RETENTION_SECONDS
        for _ in range(20):
            sink.step()
        assert Jobs(database).find(job.id).kept is Kept.MINUTES
        assert "samples of 1 jobs" in paths.log.read_text()
        with database.writing() as connection:
            connection.execute("UPDATE jobs SET end_time = 1000, start_time = 1 WHERE seq = ?", (again.seq,))
        now[0] += 600.0
        sink.step()
    with closing(StoreSink(paths, network=False, config=config)) as other:
        now[0] += 600.0
        other.step()
        assert Jobs(database).find(again.id).kept is Kept.WHOLE, "an hour is not over"
        with database.writing() as connection:
            connection.execute("UPDATE leases SET until = 0 WHERE name = 'retention'")
        now[0] += 600.0
        while Jobs(database).find(again.id).kept is Kept.WHOLE:
            other.step()


def test_a_max_size_that_cannot_be_met_is_logged_once(
    database: Database, paths: StatePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jobtop.store.upkeep.background_retention import BackgroundRetention

    set_pinned(database, [kept(database, paths, 1.0)], True)
    shift = BackgroundRetention(
        database, paths, load(["store.max_size=1"], {"HOME": str(paths.root)}, paths.root, paths.root)
    )
    for _ in range(2):
        while shift.work() == 0.0:
            pass
        with database.writing() as connection:
            connection.execute("DELETE FROM leases")
    text = paths.log.read_text()
    assert text.count("store.max_size") == 1
    assert "pinned" in text


def test_the_sink_imports_retention_only_when_it_prunes() -> None:
    code = "import sys, jobtop.store.samples.sink; print([m for m in sys.modules if 'upkeep' in m or 'reten' in m])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


# -- verbs


def test_prune_reports_what_it_would_delete_and_what_it_deleted(database: Database, paths: StatePaths) -> None:
    jobs = [kept(database, paths, age, name=f"[b]job{age}", samples=3000) for age in (10.0, 100.0)]
    look = call("prune", "--dry-run")
    assert (look.returncode, look.stderr) == (0, "")
    assert "every sample → one per minute" in look.stdout
    assert jobs[1].id[:8] in look.stdout
    assert "[b]job100" in look.stdout
    assert "would be freed" in look.stdout
    assert Jobs(database).find(jobs[0].id).kept is Kept.WHOLE
    done = call("prune", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    shape = json.loads(done.stdout)
    assert [(move["from"], move["to"], move["samples"]) for move in shape["moves"]] == [
        ("whole", "record", 3000),
        ("whole", "minutes", 3000),
    ]
    assert shape["file_bytes_after"] < shape["file_bytes_before"]
    assert "Nothing has to be deleted" in call("prune").stdout


def test_prune_says_in_one_line_why_the_history_is_too_large(database: Database, paths: StatePaths) -> None:
    job = kept(database, paths, 1.0)
    assert call("pin", job.id[:8]).returncode == 0
    done = call("--set", "store.max_size=1K", "prune")
    assert done.returncode == 0
    assert_one_line(done.stderr, "pinned")
    assert Jobs(database).find(job.id).kept is Kept.WHOLE


def test_prune_keeps_only_records_of_jobs_older_than_a_time(database: Database, paths: StatePaths) -> None:
    jobs = [kept(database, paths, age) for age in (1.0, 4.0, 6.0)]
    pinned = kept(database, paths, 6.0)
    set_pinned(database, [pinned], True)
    look = call("prune", "--older-than", "5d", "--dry-run")
    assert (look.returncode, look.stderr) == (0, "")
    assert jobs[2].id[:8] in look.stdout
    code, out, err = call("prune", "--older-than", "5d")
    assert (code, out) == (2, "")
    assert jobs[2].id[:8] in err
    assert_one_line(err.splitlines(keepends=True)[-1], "1 job", "--yes")
    assert call("prune", "--older-than", "5d", "--yes").returncode == 0
    assert "jobtop prune" in call("plot", jobs[2].id).stdout
    assert [Jobs(database).find(job.id).kept for job in (*jobs, pinned)] == ["whole", "whole", "record", "whole"]
    day = datetime.fromtimestamp(time.time() - 2 * DAY, UTC).isoformat()
    assert call("prune", "--older-than", day, "--yes").returncode == 0
    assert [Jobs(database).find(job.id).kept for job in (*jobs, pinned)] == ["whole", "record", "record", "whole"]


def test_prune_of_a_filter_prunes_its_ended_jobs_alone(database: Database, paths: StatePaths) -> None:
    ended, other, old = (kept(database, paths, age, name=name) for age, name in ((1.0, "a"), (1.0, "b"), (50.0, "c")))
    running = Jobs(database).insert(running_job(name="a", host="elsewhere"))
    code, out, err = call("prune", "name:a")
    assert (code, out) == (2, "")
    assert_one_line(err.splitlines(keepends=True)[-1], "1 job", "--yes")
    assert call("prune", "name:a", "--dry-run").returncode == 0
    assert Jobs(database).find(ended.id).kept is Kept.WHOLE
    assert call("prune", "name:a", "--yes").returncode == 0
    assert [Jobs(database).find(job.id).kept for job in (ended, other, old, running)] == [
        *("record", "whole", "whole", "whole")
    ]
    assert call("prune", "name:a", "--yes").returncode == 2
    assert call("prune", "name:*", "--older-than", "30d", "--yes").returncode == 0
    assert [Jobs(database).find(job.id).kept for job in (other, old)] == ["whole", "record"]


def test_prune_names_a_missing_store_in_one_line(home: Path) -> None:
    done = call("prune")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_pinned_and_pruned_jobs_say_so(database: Database, paths: StatePaths) -> None:
    whole, thinned, record = (kept(database, paths, age) for age in (1.0, 10.0, 100.0))
    said = "".join(f"pinned {job.name} {job.id[:8]}\n" for job in (whole, record))
    assert call("pin", whole.id, record.id[:8]) == (0, said, "")
    assert "jobtop unpin" in call("show", whole.id).stdout
    assert call("unpin", record.id) == (0, f"unpinned {record.name} {record.id[:8]}\n", "")
    assert call("prune").returncode == 0
    assert "one per minute" in call("show", thinned.id).stdout
    assert "store.rollup_days" in call("show", record.id).stdout
    for verb in ("metrics", "plot"):
        assert_one_line(call(verb, record.id).stderr, record.id[:8], "deleted", "store.rollup_days", "jobtop show")
    assert call("metrics", thinned.id).stderr.count("a row is a minute") == 1
    exported = call("export", whole.id, thinned.id, record.id)
    deleted, reduced = exported.stderr.splitlines(keepends=True)
    assert exported.returncode == 0
    assert_one_line(deleted, "1 job ", "deleted", "totals")
    assert_one_line(reduced, "1 job ", "minute")
    assert call("export", whole.id).stderr == ""
    output = call("logs", record.id)
    assert output.returncode == 2
    assert_one_line(output.stderr, record.id[:8], "deleted", "store.rollup_days")
    pinned = call("pin", record.id)
    assert pinned.returncode == 0
    assert_one_line(pinned.stderr, record.id[:8], "what is left")
    assert json.loads(call("show", whole.id, "--json").stdout)["pinned"] is True
    assert call("pin", "nothing").returncode == 2
    found = json.loads(call("history", "--json", "kept:minutes,record", "pinned:no").stdout)
    assert [job["id"] for job in found] == [thinned.id]


def test_info_shows_the_tiers(database: Database, paths: StatePaths) -> None:
    for age in (1.0, 10.0, 100.0):
        kept(database, paths, age)
    pruned(database, paths)
    found = json.loads(call("store", "info", "--json").stdout)
    assert found["kept"] == {"whole": 1, "minutes": 1, "record": 1}
    assert (found["sealed_samples"], found["minutes"]) == (900, 16)
    tiers = found["bytes_by_tier"]
    assert tiers["samples"] > tiers["minutes"] > 0
    assert tiers["logs"] == 2 * 12288
    assert "1 as minutes" in call("store", "info").stdout


def test_the_protection_of_a_job_is_named() -> None:
    assert protection(POLICY, held(8.0), NOW) is None
    assert protection(POLICY, held(8.0, pinned=True), NOW) == "pinned"
    rules = (RetentionRule("paper", float("inf"), "file"),)
    assert protection(replace(POLICY, rules=rules), held(8.0, tags={"paper": ""}), NOW) == "rule"
    assert protection(POLICY, held(settles=True), NOW) == "settling"


def test_jobs_that_ended_a_moment_ago_are_left_alone_and_not_called_running(
    database: Database, paths: StatePaths
) -> None:
    kept(database, paths, 10 / DAY)
    nothing = ("--set", "store.raw_days=0", "--set", "store.rollup_days=0", "--set", "store.max_size=1", "prune")
    done = call(*nothing)
    assert "Nothing can be deleted" in done.stdout
    assert "of jobs that ended a moment ago" in done.stderr
    shape = json.loads(call(*nothing, "--json").stdout)
    assert (shape["moves"], shape["largest"], shape["jobs"]) == ([], [], 0)
    assert list(shape["held_bytes"]) == ["pinned", "rule", "running", "settling"]
    assert shape["held_bytes"]["settling"] > 0


def test_config_shows_retention_rules_and_days_that_contradict(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rules = tmp_path / "jobtop.toml"
    rules.write_text(
        '[[retention]]\ntag = "team=v*"\nkeep = "180d"\n[[alert]]\nname = "big"\nmetric = "mem.used"\nabove = 5\n'
    )
    assert call("config", "trust").returncode == 0
    told = call("config", "--json")
    rows = {row["key"]: (row["value"], row["origin"]) for row in json.loads(told.stdout)}
    assert rows["retention.team=v*"] == ("180d", str(rules))
    assert rows["alert.big"] == ('metric = "mem.used", above = 5', str(rules))
    job = kept_jobs(home, made_job(tags={"team": "vision"}))[0]
    shown = call("show", job.id).stdout
    assert "180d" in shown
    assert '[[retention]] tag = "team=v*"' in shown
    odd = call("--set", "store.raw_days=100", "config")
    assert odd.returncode == 0
    assert_one_line(odd.stderr, "store.rollup_days (90)", "store.raw_days (100)")
