"""A library of NVIDIA's that knows of three GPUs, which nvidia-ml-py takes for the real one."""

import shutil
import subprocess
from pathlib import Path

from support import require

SOURCE = """
int nvmlInitWithFlags(unsigned flags) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 3; return 0; }
const char *nvmlErrorString(int code) { return "an error"; }
"""


def three_gpus(directory: Path) -> dict[str, str]:
    """The environment in which the library is found that is made in this directory."""
    if shutil.which("gcc") is None:
        require("gcc", "it is not installed")
    (directory / "nvml.c").write_text(SOURCE)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", directory / "libnvidia-ml.so.1", directory / "nvml.c"], check=True)
    return {"LD_LIBRARY_PATH": str(directory)}
