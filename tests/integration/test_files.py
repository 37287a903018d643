"""`jobtop files` of a real job: positions and rates while it runs, and the files in its record after its end."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from running import ended, nothing_is_left, running
from support import Jobtop

__all__ = ["nothing_is_left"]

MIB = 1 << 20
# Reads a file of 30 MiB twice and writes half as much: 15 MiB, and then so much for each line that comes.
LOAD = """
import sys
source, out = sys.argv[1:]
with open(out, "wb", buffering=0) as output:
    for turn in range(2):
        with open(source, "rb", buffering=0) as data:
            while block := data.read(15 << 20):
                output.write(block[::2])
                print(turn, data.tell() >> 20, flush=True)
                sys.stdin.readline()
"""


def files(jobtop: Jobtop, reference: str) -> dict[str, dict[str, Any]]:
    answer = jobtop("files", "--json", "--interval", "0.1s", reference)
    assert (answer.returncode, answer.stderr) == (0, "")
    return {Path(file["path"]).name: file for file in json.loads(answer.stdout)["files"]}


def test_a_file_read_twice_and_one_that_is_written(jobtop: Jobtop, tmp_path: Path) -> None:
    source, out = tmp_path / "data.bin", tmp_path / "out.bin"
    source.write_bytes(os.urandom(MIB) * 30)
    load = (sys.executable, "-I", "-S", "-c", LOAD, str(source), str(out))
    with running(jobtop, "--name", "load", "--", *load, stdin=subprocess.PIPE) as run:
        seen: dict[str, dict[str, Any]] = {}
        for turn in range(2):
            for position in (15, 30):
                run.reads(f"{turn} {position}".encode())
                seen = files(jobtop, run.reference)
                assert (seen["data.bin"]["position"], seen["data.bin"]["size_bytes"]) == (position * MIB, 30 * MIB)
                assert seen["data.bin"]["mode"] == "read"
                assert run.process.stdin is not None
                run.process.stdin.write(b"\n")
                run.process.stdin.flush()
        assert seen["out.bin"]["position"] == seen["out.bin"]["size_bytes"] == 30 * MIB
        assert seen["out.bin"]["mode"] == "write"
        record = ended(jobtop, run.reference)
    kept = {Path(file["path"]).name: file for file in record["findings"]["files"]}
    assert (kept["data.bin"]["size_bytes"], kept["data.bin"]["processes"]) == (30 * MIB, 1)
    # Positions are read several times a second: on a busy machine one of them may be missed.
    assert 15 * MIB <= kept["data.bin"]["read_bytes"] <= 60 * MIB
    assert 7 * MIB <= kept["out.bin"]["written_bytes"] <= 30 * MIB
    assert "data.bin" in jobtop("files", "load").stdout
    assert "data.bin: at least" in jobtop("show", "load").stdout
