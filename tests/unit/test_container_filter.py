"""Jobs are found by the container that they ran in, in memory and in the store alike."""

from typing import Any

import pytest

from jobtop.core.model import Job
from jobtop.core.query.completion import complete
from jobtop.core.query.filter import FilterError, parse
from jobtop.core.run.containers.facts import ContainerFacts, Runtime, container_facts
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs, Query
from records import HOSTILE_TEXTS, made_job

DATABASE_ID = "sha256:aa11bb22cc33dd44"


def container_job(job_name: str, /, **container: Any) -> Job:
    return made_job(name=job_name, kind="container", findings={"container": container})


JOBS = (
    container_job("db", name="shop-db-1", image="docker.io/library/postgres:16", image_id=DATABASE_ID, service="db"),
    container_job("web", name="shop-web-1", image="Box:1", id="3f2a99c0ffee", project="shop", service="web"),
    container_job("odd", name=HOSTILE_TEXTS["quotes"], image=None, id=7, project=["shop"]),
    made_job(name="plain"),
    made_job(name="pid", kind="attached"),
    made_job(name="damaged", kind="container", findings={"container": "shop-web-1"}),
)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("image:postgres", ["db"]),
        ("image:box:1", ["web"]),
        ("image=Box:1", ["web"]),
        ("image=box", []),
        ("image:*postgres*", ["db"]),
        ("image:aa11bb", ["db"]),
        ("image:sha256:aa11", ["db"]),
        ("container:shop-web-1", ["web"]),
        ("container:shop-*", ["db", "web"]),
        ("container:web", ["web"]),
        ("container:3F2A", ["web"]),
        ("container:3f", []),
        ("project:shop", ["web"]),
        ("!project:shop kind:container", ["db", "odd", "damaged"]),
        ("kind:container", ["db", "web", "odd", "damaged"]),
        ("kind:process", ["plain"]),
        ("kind:process,attached", ["plain", "pid"]),
        ("kind:cont*", ["db", "web", "odd", "damaged"]),
    ],
)
def test_jobs_are_found_by_their_container(database: Database, line: str, names: list[str]) -> None:
    jobs, wanted = Jobs(database), parse(line, 0.0)
    stored = [jobs.insert(job) for job in JOBS]
    assert [job.name for job in stored if wanted.matches(job)] == names
    assert sorted(job.name for job in jobs.select(Query(filter=wanted))) == sorted(names)


def test_a_hostile_name_of_a_container_is_found_as_it_is(database: Database) -> None:
    jobs = Jobs(database)
    for number, text in enumerate(HOSTILE_TEXTS.values()):
        jobs.insert(container_job(f"n{number}", name=text))
    for number, text in enumerate(HOSTILE_TEXTS.values()):
        quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
        found = jobs.select(Query(filter=parse(f"container={quoted}", 0.0)))
        assert [job.name for job in found] == [f"n{number}"]


def test_a_word_that_is_nearly_a_kind_is_an_error() -> None:
    with pytest.raises(FilterError, match="container"):
        parse("kind:contaner", 0.0)


def test_kinds_and_keys_are_completed() -> None:
    assert complete("kind:proc", 9, {}) == ["kind:process"]
    assert complete("kind:process,co", 15, {}) == ["kind:process,container"]
    assert complete("imag", 4, {}) == ["image:"]


def test_facts_of_the_wrong_type_are_absent() -> None:
    job = container_job(
        "x", name="web", image=4, restarts=True, start_seconds=-1, kept="yes", runtime={"cpu_seconds": "1"}
    )
    assert container_facts(job) == ContainerFacts(name="web")
    whole = container_job(
        "x", start_seconds=0.4, kept=True, runtime={"cpu_seconds": 0.1, "memory_bytes": 9, "what": "conmon"}
    )
    assert container_facts(whole) == ContainerFacts(is_kept=True, start_seconds=0.4, runtime=Runtime(0.1, 9, "conmon"))
    assert container_facts(made_job()) is None
