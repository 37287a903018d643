"""What a host has for its jobs, and how a job is told which GPUs are its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from drm import plant

from jobtop.core.run.capacity import capacity, gpu_environment, gpus, memory_bytes
from nvml import three_gpus
from trees import capture


def none() -> int:
    return 0


def meminfo(proc: Path, kibibytes: int) -> str:
    (proc.parent / "meminfo").write_text(f"MemTotal:       {kibibytes} kB\nMemFree:          1 kB\n")
    return str(proc.parent)


def test_memory_is_what_the_machine_has(tmp_path: Path) -> None:
    assert memory_bytes(meminfo(capture("none", tmp_path), 2048)) == 2 << 20


@pytest.mark.parametrize(
    ("tree", "place", "file"),
    [("v2", "user.slice", "memory.max"), ("v1", "memory/user.slice", "memory.limit_in_bytes")],
)
def test_memory_is_what_the_cgroups_around_us_allow(tmp_path: Path, tree: str, place: str, file: str) -> None:
    proc = meminfo(capture(tree, tmp_path), 2048)
    directory = tmp_path / "sys/fs/cgroup" / place
    directory.mkdir(parents=True)
    for text, expected in (("max", 2 << 20), ("1048576", 1 << 20), ("9223372036854771712", 2 << 20)):
        (directory / file).write_text(f"{text}\n")
        assert memory_bytes(proc) == expected


def test_memory_that_cannot_be_known_is_absent(tmp_path: Path) -> None:
    assert memory_bytes(str(tmp_path)) is None


def test_this_host_has_something() -> None:
    here = capacity(with_gpus=False)
    assert here.cpus > 0
    assert here.memory_bytes is not None
    assert here.gpus == ()


def amd(sys_root: Path, *simd_counts: int) -> None:
    for number, count in enumerate(simd_counts):
        node = sys_root / f"class/kfd/kfd/topology/nodes/{number}"
        node.mkdir(parents=True)
        (node / "properties").write_text(f"cpu_cores_count {8 if not count else 0}\nsimd_count {count}\n")


def test_gpus_are_those_of_the_vendor_one_computes_with(tmp_path: Path) -> None:
    assert gpus({}, str(tmp_path), none) == ()
    plant(tmp_path, "intel-i915-card")
    assert gpus({}, str(tmp_path), none) == ("intel:0",)
    amd(tmp_path, 0, 304, 304)
    assert gpus({}, str(tmp_path), none) == ("amd:0", "amd:1")
    assert gpus({}, str(tmp_path), lambda: 2) == ("nvidia:0", "nvidia:1")


@pytest.mark.parametrize("tree", ["intel-i915", "amd-apu", "server-bmc", "panfrost"])
def test_integrated_gpus_are_not_given_to_jobs(tmp_path: Path, tree: str) -> None:
    plant(tmp_path, tree)
    assert gpus({}, str(tmp_path), none) == ()


def test_cards_keep_their_numbers_beside_an_integrated_gpu(tmp_path: Path) -> None:
    plant(tmp_path, "amd-apu")  # ROCm's number 0
    node = tmp_path / "class/kfd/kfd/topology/nodes/10"
    node.mkdir()
    (node / "properties").write_text("cpu_cores_count 0\nsimd_count 304\ndrm_render_minor 129\n")
    assert gpus({}, str(tmp_path), none) == ("amd:1",)
    assert gpus({"ROCR_VISIBLE_DEVICES": "0"}, str(tmp_path), none) == ()
    assert gpus({"ROCR_VISIBLE_DEVICES": "1,0"}, str(tmp_path), none) == ("amd:1",)


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        ("2,0", ["2", "0"]),
        ("GPU-8f6c, GPU-77aa", ["GPU-8f6c", "GPU-77aa"]),
        ("", []),
        ("-1", []),
        ("0,9,1", ["0"]),
        ("1,1", ["1"]),
    ],
)
def test_of_gpus_that_are_hidden_from_us_we_give_none(tmp_path: Path, mask: str, expected: list[str]) -> None:
    found = gpus({"CUDA_VISIBLE_DEVICES": mask}, str(tmp_path), lambda: 4)
    assert found == tuple(f"nvidia:{name}" for name in expected)


def test_a_job_sees_only_the_gpus_it_was_given() -> None:
    assert gpu_environment((), {}) == {}
    assert gpu_environment(("nvidia:1", "nvidia:3"), {}) == {
        "CUDA_VISIBLE_DEVICES": "1,3",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    assert gpu_environment(("amd:1", "amd:2"), {}) == {"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "0,1"}
    assert gpu_environment(("intel:0",), {}) == {"ZE_AFFINITY_MASK": "0"}


def test_numbers_of_gpus_mean_what_they_meant_to_us() -> None:
    ours = {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert gpu_environment(("nvidia:1",), ours) == {"CUDA_VISIBLE_DEVICES": "1"}
    ours["CUDA_DEVICE_ORDER"] = "FASTEST_FIRST"
    assert gpu_environment(("nvidia:1",), ours) == {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}


def counted(env: dict[str, str]) -> str:
    program = "from jobtop.core.measure.collectors.gpu.nvidia import device_count; print(device_count())"
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | env, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_nvidias_gpus_are_counted_by_its_library(tmp_path: Path) -> None:
    assert counted(three_gpus(tmp_path)) == "3"


def test_a_library_of_nvidia_that_is_broken_is_no_gpu(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")
    assert counted({"LD_LIBRARY_PATH": str(tmp_path)}) == "0"
