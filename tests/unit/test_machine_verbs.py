"""`metrics --host` and `plot --host`: the stored series of the host and of its devices, for people and programs."""

import csv
import io
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from recorded_host import GIB, record_host

from jobtop.cli.app import App
from jobtop.cli.machine import choose
from jobtop.cli.machine_stream import OwnerStream
from jobtop.core.metrics import Scope, columns
from jobtop.core.paths import StatePaths
from jobtop.core.units import cell_width
from jobtop.store.database import open_to_write
from jobtop.store.samples.head import DEVICES
from jobtop.store.samples.rollup import roll_some
from records import HERE, assert_one_line, call


def lines(*args: str) -> list[dict[str, Any]]:
    answer = call("metrics", "--host", *args, "--json")
    assert (answer.returncode, answer.stderr) == (0, "")
    return [json.loads(line) for line in answer.stdout.splitlines()]


@pytest.fixture
def recorded(home: Path) -> Path:
    record_host(home)
    return home


def test_the_host_has_a_line_a_sample_with_rates_and_fits_eighty_columns(recorded: Path) -> None:
    head, *rows = call("metrics", "--host").stdout.splitlines()
    assert head.split() == "TIME CPU MEM READ/s WRITE/s RX/s TX/s".split()
    assert [row.split()[1:] for row in rows[:2]] == [
        "50.0 % 4.0 GiB – – – –".split(),
        "50.0 % 4.0 GiB 1.0 MiB 0 B 1000 B 0 B".split(),
    ]
    assert len(rows) == 5
    assert {cell_width(line) for line in (head, *rows)} == {77}


def test_a_line_of_json_has_counters_as_they_are_and_says_whose_they_are(recorded: Path) -> None:
    first, *_, last = shapes = lines()
    assert len(shapes) == 5
    assert list(first)[:5] == ["schema_version", "host", "device", "elapsed", "timestamp"]
    assert (first["schema_version"], first["device"]) == (1, None)
    assert (last["disk"]["read_bytes"], last["mem"]["used"], last["temp"]) == (4 << 20, 4 * GIB, 40.0)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", first["timestamp"])
    assert last["elapsed"] - first["elapsed"] == pytest.approx(4.0, abs=0.01)
    disk = lines("--device", "sda")[-1]
    assert disk["device"] == {"kind": "disk", "name": "sda"}
    assert (disk["disk"]["read_ops"], disk["disk"]["total"]) == (40, 100 * GIB)
    assert disk["disk"].keys() == {key.removeprefix("disk.") for key in columns(Scope.DISK)}


def test_the_table_of_a_disk_has_its_latency_and_space(recorded: Path) -> None:
    head, first, second, *_ = call("metrics", "--host", "--device", "disk").stdout.splitlines()
    assert head.split()[:6] == "TIME DISK READ/s WRITE/s BUSY LATENCY".split()
    assert first.split()[1:] == "sda – – – – 30.0 GiB 30.0 %".split()
    assert second.split()[1:] == "sda 1.0 MiB 0 B 2.0 % 2ms 30.0 GiB 30.0 %".split()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("core", "25.0 % 10.0 % 0.0 %"),
        ("interface", "1000 B 0 B – 0/s –"),
        ("numa", "4.0 GiB 1.0 GiB 16.0 GiB 1/s"),
        ("battery", "81.0 % -12.5 W"),
    ],
)
def test_each_kind_has_its_own_columns(recorded: Path, kind: str, words: str) -> None:
    rows = call("metrics", "--host", "--device", kind).stdout.splitlines()
    assert rows[0].split()[1] == kind.upper()
    devices = len({row.split()[1] for row in rows[1:]})
    assert words.split() == rows[1 + devices].split()[2:]
    assert max(map(cell_width, rows)) <= 80


def test_all_devices_are_grouped_by_kind_and_sorted_by_number(recorded: Path) -> None:
    text = call("metrics", "--host", "--device", "all").stdout
    heads = [line.split()[1] for line in text.splitlines() if line.startswith("TIME")]
    assert heads == ["CORE", "DISK", "INTERFACE", "NUMA", "SENSOR", "BATTERY"]
    cores = [row["device"]["name"] for row in lines("--device", "core")][:3]
    assert cores == ["0", "2", "10"]
    assert re.search(r"coretemp Package id 0 +61\.5 °C +–$", text, re.MULTILINE)


@pytest.mark.parametrize(("verb", "code"), [("metrics", 0), ("plot", 2)])
def test_a_time_in_the_future_has_no_samples_and_is_named(recorded: Path, verb: str, code: int) -> None:
    answer = call(verb, "--host", "--since", "2999-01-02")
    assert (answer.returncode, answer.stderr.count("\n")) == (code, 1)
    assert "the last" not in answer.stdout
    assert "2999-01-02 00:00:00 is in the future" in answer.stderr


def test_samples_since_a_day_are_printed(recorded: Path) -> None:
    assert len(lines("--since", "yesterday")) == 5


def test_csv_has_the_keys_of_the_chosen_kinds(recorded: Path) -> None:
    text = call("metrics", "--host", "--device", "disk:sda", "--device", "battery", "--format", "csv").stdout
    assert text.startswith("timestamp,elapsed,host,kind,name,")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 10
    assert {(row["kind"], row["name"]) for row in rows} == {("disk", "sda"), ("battery", "BAT0")}
    battery = [row for row in rows if row["kind"] == "battery"][-1]
    assert (battery["battery.power"], battery["disk.read_bytes"]) == ("-12.5", "")
    whole = call("metrics", "--host", "--device", "disk:sda", "--format", "json").stdout
    assert [row["elapsed"] for row in json.loads(whole)] == [
        float(row["elapsed"]) for row in rows if row["name"] == "sda"
    ]


def test_metrics_can_be_chosen_and_a_counter_comes_with_its_rate(recorded: Path) -> None:
    args = ("metrics", "--host", "--device", "numa", "--metric", "numa.misses")
    assert call(*args).stdout.splitlines()[2].split()[1:] == ["0", "1", "1/s"]
    assert_one_line(call("metrics", "--host", "--metric", "numa.mises").stderr, "numa.mises")
    assert_one_line(call("metrics", "--host", "--device", "numa", "--metric", "numa.mises").stderr, "numa.misses")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("metrics", "--host", "--device", "sdz"), "sda"),
        (("metrics", "--host", "--device", "gpu"), "coretemp Package id 0"),
        (("metrics", "--host", "--device", "gpu"), "this machine has no GPU that is sampled"),
        (("metrics", "--host", "--device", "disks"), '(did you mean "disk"?)'),
        (("metrics", "--host", "--metric", "cpu.user"), "(it has cpu.iowait, cpu.percent, "),
        (("metrics", "--host", "--metric", "mem.usd"), '(did you mean "mem.used"?)'),
        (("metrics", "--host", "--since", "tomorrow"), "neither a duration such as 7d, a day such as today"),
        (("metrics", "--host", "--since", "14:30"), "neither a duration such as 7d, a day such as today"),
        (("metrics", "--host", "--device", "0"), "core:0 or numa:0"),
        (("metrics", "--host", "--device", ""), "sda"),
        (("metrics", "--host", "--device", "disk:"), "sda"),
        (("metrics", "--host", "last"), "--host"),
        (("metrics", "last", "--device", "sda"), "--host"),
        (("metrics", "--host", "--follow", "--format", "json"), "jsonl"),
        (("metrics", "--host", "--blocks"), "--blocks"),
        (("plot", "--host", "--device", "sdz"), "sda"),
        (("plot", "--host", "last"), "--host"),
        (("plot", "last", "--since", "5m"), "--host"),
    ],
)
def test_a_wrong_choice_is_refused_and_says_what_there_is(recorded: Path, args: tuple[str, ...], words: str) -> None:
    answer = call(*args)
    assert answer.returncode == 2
    assert words in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


def test_a_window_without_samples_says_when_there_were_some(recorded: Path) -> None:
    answer = call("metrics", "--host", "--since", "5s")
    assert (answer.returncode, answer.stdout) == (0, "")
    assert "no samples" in answer.stderr
    assert "20" in answer.stderr
    old = call("metrics", "--host", "--since", "2020-01-01")
    assert "store.rollup_days" in old.stderr
    assert len(old.stdout.splitlines()) == 6


def test_samples_in_blocks_are_the_same_as_in_the_head(home: Path) -> None:
    record_host(home, count=5, seconds_ago=100)
    before = lines("--device", "all")
    record_host(home, count=3, seconds_ago=50, sealed=True)
    after = lines("--device", "all")
    assert after[: len(before)] == before
    assert len(after) == len(before) // 5 * 8


def test_years_without_samples_cost_nothing(home: Path) -> None:
    for seconds_ago in (900, 300, 30):
        record_host(home, count=3, seconds_ago=seconds_ago)
    began = time.process_time()
    text = call("metrics", "--host", "--device", "all", "--since", "2001-01-01", "--format", "csv").stdout
    assert time.process_time() - began < 5
    times = [line.split(",")[0] for line in text.splitlines()[1:]]
    assert len(times) == 3 * 3 * 9
    assert times == sorted(times)


def test_old_samples_are_minutes_and_that_is_said(home: Path) -> None:
    record_host(home, count=180, seconds_ago=600, sealed=True)
    database = open_to_write(StatePaths(home, HERE))
    with database.reading() as connection:
        (disk,) = connection.execute("SELECT seq FROM devices WHERE kind = 'disk'").fetchone()
    while roll_some(database, DEVICES, disk):
        pass
    database.close()
    answer = call("metrics", "--host", "--device", "sda", "--json")
    rows = [json.loads(line) for line in answer.stdout.splitlines()]
    assert 3 <= len(rows) <= 4
    assert sum(row["minute"]["samples"] for row in rows) == 180
    assert "minute" in answer.stderr
    assert call("plot", "--host", "--device", "sda", "--width", "70", "--height", "8").stdout.count("peak") == 4


def test_a_follower_gets_each_new_sample_once(recorded: Path) -> None:
    app = App((), False, "never", {"JOBTOP_HOME": str(recorded)})
    (chosen,) = choose(app, ("sda",))
    stream = OwnerStream(chosen, 0.0)
    assert len(list(stream.until(None))) == 5
    assert list(stream.new()) == []
    record_host(recorded, count=2, seconds_ago=20)
    assert [line.reading.values["disk.read_ops"] for line in stream.new()] == [0, 10]
    assert list(stream.new()) == []
    late = OwnerStream(chosen, float("inf"))
    assert list(late.until(None)) == []
    late.start = 0.0
    assert list(late.new()) == [], "what is older than the window is not new"
    app.close()


def test_the_past_is_read_in_pieces_without_losing_or_repeating_a_sample(recorded: Path) -> None:
    app = App((), False, "never", {"JOBTOP_HOME": str(recorded)})
    (chosen,) = choose(app, ("sda",))
    whole = [line.reading for line in OwnerStream(chosen, 0.0).until(None)]
    pieces = OwnerStream(chosen, 0.0)
    read = [line.reading for end in range(1, 7) for line in pieces.until(whole[0].at + end * 0.8)]
    assert read + [line.reading for line in pieces.until(None)] == whole
    app.close()


def test_the_host_and_its_devices_are_drawn(recorded: Path) -> None:
    shown = call("plot", "--host", "--since", "2m", "--width", "70", "--height", "8").stdout
    assert [line.split(":")[0] for line in shown.splitlines() if ": " in line] == ["cpu.percent", "mem.used"]
    disk = call("plot", "--host", "--device", "disk", "--since", "2m", "--width", "70", "--height", "8").stdout
    assert "disk sda" in disk.splitlines()[0]
    assert "disk.latency" in disk
    assert "peak 2ms" in disk
    sensors = call("plot", "--host", "--device", "sensor", "--since", "2m", "--width", "70").stdout
    assert "peak 61.5 °C" in sensors
    assert "peak 1 180 rpm" in sensors
    assert "not measured" not in sensors


def test_a_device_is_drawn_to_a_file(recorded: Path, tmp_path: Path) -> None:
    path = tmp_path / "disk.svg"
    assert call("plot", "--host", "--device", "sda", "--svg", str(path)).returncode == 0
    assert "disk sda" in path.read_text()
    assert call("plot", "--host", "--device", "core", "--svg", str(tmp_path / "x.svg")).returncode == 2


def test_an_empty_store_says_that_nothing_was_recorded(home: Path) -> None:
    assert call("metrics", "--host").returncode == 2


def test_help_names_every_kind_of_device(home: Path) -> None:
    text = call("help", "metrics").stdout
    assert [
        kind for kind in ("gpu", "core", "disk", "interface", "numa", "sensor", "battery") if kind not in text
    ] == []
