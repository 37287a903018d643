"""What a cgroup has read and written on each device: both versions, torn files, and devices without a name."""

from pathlib import Path

import pytest

from jobtop.core.measure.collectors.cgroup_source import STORAGE_SAMPLES, CgroupSource
from jobtop.core.measure.collectors.storage import storage_by_device
from jobtop.core.measure.target import Target
from jobtop.core.model import Identity
from jobtop.core.run.outcome import with_storage
from jobtop.core.text.file_text import device_lines
from records import made_job

IO_STAT = """253:0 rbytes=0 wbytes=0 rios=0 wios=0 dbytes=0 dios=0
8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0
259:1 rbytes=1048576 wbytes=0 rios=16 wios=0
"""
V1_BYTES = "8:0 Read 4096\n8:0 Write 8192\n8:0 Sync 12288\n8:0 Total 12288\nTotal 12288\n"
V1_OPERATIONS = "8:0 Read 1\n8:0 Write 2\n8:0 Total 3\nTotal 3\n"
SDA = {"device": "sda", "read_bytes": 4096, "write_bytes": 8192, "read_ops": 1, "write_ops": 2}


@pytest.fixture
def sys(tmp_path: Path) -> str:
    blocks = tmp_path / "sys/dev/block"
    blocks.mkdir(parents=True)
    blocks.joinpath("8:0").symlink_to("../../devices/pci0000:00/ata1/block/sda")
    return str(tmp_path / "sys")


def test_version_2_counts_each_device_the_most_used_first(sys: str) -> None:
    unnamed, named = storage_by_device({"io.stat": IO_STAT}, sys)
    assert named == SDA
    assert (unnamed["device"], unnamed["read_bytes"], unnamed["read_ops"]) == ("259:1", 1 << 20, 16)


def test_version_1_counts_each_device(sys: str) -> None:
    texts = {"blkio.throttle.io_service_bytes": V1_BYTES, "blkio.throttle.io_serviced": V1_OPERATIONS}
    assert storage_by_device(texts, sys) == [SDA]
    del texts["blkio.throttle.io_serviced"]
    assert storage_by_device(texts, sys) == [SDA | {"read_ops": None, "write_ops": None}]


def test_zero_in_version_1_is_unknown(sys: str) -> None:
    assert storage_by_device({"blkio.throttle.io_service_bytes": "8:0 Read 0\n8:0 Write 0\nTotal 0\n"}, sys) == []


@pytest.mark.parametrize(
    "text",
    ["", "\n\n", "8:0", "8:0 rbytes=", "8:0 rbytes=x wios", "rbytes=1", "a:b rbytes=1", "8:0 rbytes=" + "9" * 30],
)
def test_a_torn_file_tells_nothing(text: str, sys: str) -> None:
    assert storage_by_device({"io.stat": text, "blkio.throttle.io_service_bytes": text}, sys) == []


def test_the_record_and_its_lines() -> None:
    job = with_storage(made_job(), IO_STAT)
    assert [row["read_bytes"] for row in job.findings["storage"]] == [1 << 20, 4096]
    assert device_lines(job)[0].endswith("1.0 MiB read, 0 B written (16 reads, 0 writes)")
    assert with_storage(made_job(), "").findings == {}


@pytest.mark.parametrize("found", [None, 7, ["x"], [{}]])
def test_a_damaged_record_is_no_error(found: object) -> None:
    device_lines(made_job(findings={"storage": found}))


@pytest.mark.parametrize("includes_root", [True, False])
def test_the_cgroup_of_a_job_without_a_shim_is_read_now_and_then(tmp_path: Path, includes_root: bool) -> None:
    (tmp_path / "io.stat").write_text(IO_STAT)
    (tmp_path / "cpu.stat").write_text("usage_usec 5\nuser_usec 3\n")
    jobs = {"job": Target(Identity("boot", 1, 1), 0.0, includes_root, (str(tmp_path),))}
    source = CgroupSource()
    seen = [bool(source.collect(jobs).remarks) for _ in range(STORAGE_SAMPLES + 1)]
    source.close()
    assert seen == [includes_root, *[False] * (STORAGE_SAMPLES - 1), includes_root]
