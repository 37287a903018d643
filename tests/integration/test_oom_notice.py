"""The kernel tells that a cgroup of version 1 ran out of memory, and the notice outlives the cgroup."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobtop.core.measure.collectors import oom_notice
from jobtop.lifecycle.containers.early_notice import EarlyNotice
from support import wait_for

MEMORY = Path("/sys/fs/cgroup/memory")
JOINS = "import sys; open(sys.argv[1] + '/cgroup.procs', 'w').write('0'); held = b'x' * (int(sys.argv[2]) << 20)"


@pytest.fixture
def directory() -> Iterator[Path]:
    if not (MEMORY / "cgroup.event_control").exists() or not os.access(MEMORY, os.W_OK):
        pytest.skip("no memory cgroup of version 1 can be made here")
    found = MEMORY / f"jobtop-test-notice-{uuid.uuid4().hex[:8]}"
    found.mkdir()
    (found / "memory.limit_in_bytes").write_text(str(64 << 20))
    try:
        yield found
    finally:
        if found.exists():
            found.rmdir()


def hold(directory: Path, mebibytes: int) -> int:
    return subprocess.run([sys.executable, "-I", "-S", "-c", JOINS, str(directory), str(mebibytes)]).returncode


def removed(directory: Path) -> bool:
    try:
        directory.rmdir()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(("mebibytes", "code", "is_over"), [(200, -9, True), (8, 0, False)], ids=["over", "below"])
@pytest.mark.parametrize("is_removed", [True, False], ids=["removed", "there"])
def test_a_notice_tells_whether_memory_ran_out(
    directory: Path, mebibytes: int, code: int, is_over: bool, is_removed: bool
) -> None:
    notice = oom_notice.listen(("/nowhere", str(directory)))
    assert notice is not None
    try:
        assert hold(directory, mebibytes) == code
        if is_removed:
            wait_for(lambda: removed(directory))
        assert notice.has_happened() is is_over
    finally:
        notice.close()


def test_where_nothing_can_be_listened_to_there_is_no_notice(tmp_path: Path) -> None:
    assert oom_notice.listen((str(tmp_path),)) is None
    (tmp_path / "memory.oom_control").write_text("oom_kill 0\n")
    (tmp_path / "cgroup.event_control").mkdir()
    assert oom_notice.listen((str(tmp_path),)) is None


def test_a_container_is_listened_to_from_its_first_moment_on(directory: Path) -> None:
    early = EarlyNotice((f"/sys/fs/cgroup/cpu/{directory.name}", str(directory)), "1234")
    early.start()
    own = directory / "libpod-1234"
    own.mkdir()
    (own / "memory.limit_in_bytes").write_text(str(64 << 20))
    wait_for(lambda: early.notice)
    assert hold(own, 200) == -9
    wait_for(lambda: removed(own))
    notice = early.end()
    assert notice is not None
    try:
        assert notice.has_happened()
    finally:
        notice.close()


def test_a_container_that_never_comes_is_not_waited_for(directory: Path) -> None:
    early = EarlyNotice((str(directory),), "1234")
    early.start()
    assert early.end() is None
    assert not early.is_alive()
