"""The labels of containers that the agent follows, in the store: kept, replaced, deleted, migrated, damaged."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from crafted import run
from fuzzing import ODD_VALUES
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.model import Limits
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.store import agents
from jobtop.store.database import APPLICATION_ID, open_to_read, open_to_write
from jobtop.store.follows import FOLLOWS_SINCE_VERSION, Follow, Follows
from jobtop.store.jobs import Jobs, Query
from jobtop.store.schema import MIGRATIONS
from jobtop.store.upkeep.checking import check
from records import HERE, made_job

WEB = Follow("unix:///run/docker.sock", "team=web", "docker", 5.0, "ada", None, "app", {"a": "b"}, "a note")


@pytest.fixture
def paths(tmp_path: Path) -> StatePaths:
    return StatePaths(tmp_path / "home", HERE)


def test_a_follow_is_kept_replaced_and_deleted(paths: StatePaths) -> None:
    with closing(open_to_write(paths)) as database:
        follows = Follows(database, HERE)
        follows.set(WEB)
        other = replace(WEB, label="team=\udcff", at=6.0, tags={}, note=None)
        follows.set(other)
        assert follows.all() == [WEB, other]
        follows.set(replace(WEB, note="new"))
        assert [follow.note for follow in follows.all()] == ["new", None]
        assert Follows(database, "elsewhere").all() == []
        assert (follows.remove(WEB), follows.remove(WEB), follows.remove(other)) == (True, False, True)
        assert follows.all() == []


def test_an_agent_stays_while_its_host_follows_containers(paths: StatePaths) -> None:
    me = identify(os.getpid())
    with closing(open_to_write(paths)) as database:
        agents.register(database, me)
        Follows(database, HERE).set(WEB)
        assert not agents.unregister_if_idle(database, me, HERE)
        assert agents.registered(database) is not None
        Follows(database, HERE).remove(WEB)
        assert agents.unregister_if_idle(database, me, HERE)


def test_a_store_of_version_10_is_read_as_it_is_and_migrated_by_a_writer(paths: StatePaths) -> None:
    with closing(open_to_write(paths)) as database:
        Jobs(database).insert(made_job(name="old", limits=Limits(cpus=2.0, enforced=True)))
    run(
        paths.store,
        "DROP TABLE container_follows",
        "DROP TABLE workflow_jobs",
        "DROP TABLE workflow_runs",
        "DROP TABLE workflows",
        "ALTER TABLE jobs DROP COLUMN limit_pids",
        f"PRAGMA user_version = {FOLLOWS_SINCE_VERSION - 1}",
    )
    assert list(check(paths.store)) == []
    with closing(open_to_read(paths.store)) as database:
        (job,) = Jobs(database).select(Query())
        assert (job.limits, Follows(database, HERE).all()) == (Limits(cpus=2.0, enforced=True), [])
    with closing(open_to_write(paths)) as database:
        (job,) = Jobs(database).select(Query())
        assert job.limits == Limits(cpus=2.0, enforced=True)
        Jobs(database).change(job.id, lambda row: (replace(row, limits=replace(row.limits, pids=64)), ()))
        assert Jobs(database).find(job.id).limits.pids == 64
        Follows(database, HERE).set(WEB)
        assert Follows(database, HERE).all() == [WEB]
    assert list(check(paths.store)) == []


def test_a_damaged_follow_is_left_out_and_named_by_the_check(tmp_path: Path) -> None:
    path = tmp_path / "odd.db"
    statements = [statement for step in MIGRATIONS for statement in step.split(";")]
    for number, statement in enumerate(statements):
        if "CREATE TABLE container_follows" in statement:
            statements[number] = statement.replace(" NOT NULL", "").replace("STRICT, WITHOUT ROWID", "STRICT")
    run(path, *statements, f"PRAGMA application_id = {APPLICATION_ID}", f"PRAGMA user_version = {len(MIGRATIONS)}")
    sound = {"host": HERE, "url": "u", "label": "l", "engine": "e", "at": 5.0, "by": "ada", "options": "{}"}
    options = ("[]", '{"tags": {"a": 1}}', '{"tags": 5}', '{"name": 7}', '{"note": []}', "{")
    moments: tuple[object, ...] = (None, 1e300, float("inf"))
    wrong: list[dict[str, object]] = [{"at": value} for value in moments]
    wrong += [{"options": text} for text in options]
    wrong += [{column: None} for column in sound if column != "host"]
    wrong += [{"label": value, "url": f"{number}"} for number, value in enumerate(ODD_VALUES)]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for number, change in enumerate(({}, *wrong)):
            row = sound | {"url": f"u{number}"} | change
            sql = f"INSERT OR IGNORE INTO container_follows ({', '.join(row)}) VALUES (?, ?, ?, ?, ?, ?, ?)"
            try:
                connection.execute(sql, list(row.values()))
            except (sqlite3.IntegrityError, UnicodeEncodeError, OverflowError):
                continue  # SQLite itself refuses it
    with closing(open_to_read(path)) as database:
        found = Follows(database, HERE).all()
        assert Follow("u0", "l", "e", 5.0, "ada") in found
        assert all(type(follow.label) is str for follow in found)
        assert database.damaged
    assert any("a follow of containers" in problem.what for problem in check(path))
