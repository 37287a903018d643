"""The end of a container whose runner was killed: one process asks the engine for it, and completes the output once."""

import threading
from pathlib import Path

from fake_engine import container_id, container_row, fake_engine
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.core.run.containers.file import ContainerFile, write_container
from jobtop.lifecycle.kinds.container import KIND
from records import HERE, made_job
from support import wait_for


def test_of_two_processes_that_see_the_end_one_completes_the_output(tmp_path: Path) -> None:
    paths, job = StatePaths(tmp_path / "home", HERE), replace(made_job(), kind="container")
    directory = Path(paths.names.job(job.id))
    directory.mkdir(parents=True)
    (directory / "stdout.log").write_text("one\n")
    rows = [container_row("c", 1, State="exited")]
    with fake_engine(tmp_path / "d.sock", rows) as engine:
        engine.logs[container_id(1)] = [(1, b"one\n"), (1, b"two\n")]
        file = ContainerFile(engine=engine.url, id=container_id(1), started_at=1.0, is_kept=True)
        write_container(directory, file)
        engine.hang()
        found: list[ContainerFile | None] = []
        first = threading.Thread(target=lambda: found.append(KIND._recovered(paths, job, file, None)))
        first.start()
        wait_for(lambda: len(engine.asked) == 1)
        assert KIND._recovered(paths, job, file, None) is None
        engine.released.set()
        first.join()
        asked = len(engine.asked)
        found.append(KIND._recovered(paths, job, file, None))
        assert len(engine.asked) == asked
    assert [each.told.exit_code for each in found if each is not None and each.told is not None] == [0, 0]
    assert (directory / "stdout.log").read_text() == "one\ntwo\n"


def test_an_end_that_the_engine_has_not_noted_is_asked_for_again(tmp_path: Path) -> None:
    paths, job = StatePaths(tmp_path / "home", HERE), replace(made_job(), kind="container")
    directory = Path(paths.names.job(job.id))
    directory.mkdir(parents=True)
    with fake_engine(tmp_path / "d.sock", [container_row("c", 1, State="exited")]) as engine:
        state = {"StartedAt": "2026-11-18T11:24:00Z", "FinishedAt": "0001-01-01T00:00:00Z", "ExitCode": 0}
        ended = {"Status": "exited", "ExitCode": 9, "FinishedAt": "2026-11-18T11:24:33Z"}
        engine.states[container_id(1)] = [state | {"Status": "stopping"}, state | {"Status": "stopped"}, state | ended]
        file = ContainerFile(engine=engine.url, id=container_id(1), started_at=1.0, is_kept=True)
        write_container(directory, file)
        assert KIND._recovered(paths, job, file, None) is None
        assert KIND._recovered(paths, job, file, None) is None
        found = KIND._recovered(paths, job, file, None)
    assert found is not None
    assert found.told is not None
    assert found.told.exit_code == 9
