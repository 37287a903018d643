"""A container job lasts until its first process exits, also if its engine says so much later."""

import pytest

from jobtop.core.model import Identity
from jobtop.core.run.containers.file import ContainerFile, Told, read_container, write_container
from jobtop.core.run.containers.outcome import conclude, facts_without_shim
from jobtop.core.run.facts import Started
from records import made_job, running_job

START, BOOT = 1_700_000_000.5, 1000.0
HERE = Identity("a boot", 1, 1)


@pytest.mark.parametrize(
    ("exited", "seconds"),
    [(BOOT + 8.0, 8.0), (BOOT + 26.5, 27.0), (None, 27.0), (BOOT - 1.0, 0.0)],
    ids=["hung for 19 s", "took half a second", "not seen", "before its start"],
)
def test_the_end_of_a_job_does_not_wait_for_an_engine_that_hung(exited: float | None, seconds: float) -> None:
    runner = ContainerFile(told=Told(finished_at=START + 27.0, exit_code=6))
    facts = facts_without_shim(Started(HERE, HERE, START, BOOT, ()), runner, START + 27.0)
    file = ContainerFile(told=Told(exit_code=6, is_output_whole=True), exited_boottime=exited)
    done = conclude(running_job(kind="container", start_time=START), facts, file)
    assert (done.exit_code, done.duration_seconds) == (6, seconds)


def test_the_moment_of_the_exit_is_kept(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp(str(made_job().id))
    write_container(directory, ContainerFile(exited_boottime=12.5))
    found = read_container(directory)
    assert found is not None
    assert found.exited_boottime == 12.5
