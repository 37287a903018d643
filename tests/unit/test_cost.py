"""Energy, CO₂ and money of jobs: what is measured, what is estimated, by which rule, and absent where unknown."""

import json
from pathlib import Path

import pytest

from jobtop.core.analysis.cost import NO_COST, Prices, cost_of, prices_of
from jobtop.core.analysis.statistics import Statistics, statistics
from jobtop.core.config import load
from jobtop.core.errors import BadValue, ConfigError
from jobtop.core.model import Job, Limits, Status, Usage
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.core.run.supervisor import new_id
from jobtop.core.text.cost_text import co2_text, cost_line, cost_parts, energy_line, energy_text, money_text
from jobtop.store.database import open_to_write
from jobtop.store.figures import grouping, read_figures
from records import HERE, call, kept_jobs, made_job

KWH = 3.6e6
HOUR_OF_CPU = Usage(cpu_total_seconds=3600.0)
GIB = 1 << 30
USAGE = Usage(cpu_total_seconds=1800.0, memory_peak_bytes=8 * GIB, memory_mean_bytes=4 * GIB)
JOB = made_job(duration_seconds=3600.0, usage=USAGE)
MEASURED = replace(
    JOB,
    usage=replace(USAGE, energy_cpu_joules=2 * KWH, energy_gpu_joules=KWH),
    sources={"energy_cpu": "rapl, by share of CPU time", "energy_gpu": "nvml, by share of SM time"},
)


def test_without_counters_and_prices_nothing_is_known() -> None:
    assert cost_of(JOB, Prices(co2_g_per_kwh=350.0)) == NO_COST
    assert NO_COST.joules is None
    assert set(NO_COST.to_json().values()) == {None, False}


def test_measured_energy_has_its_method_and_makes_co2() -> None:
    cost = cost_of(MEASURED, Prices(co2_g_per_kwh=350.0))
    assert (cost.joules, cost.cpu_joules, cost.gpu_joules) == (3 * KWH, 2 * KWH, KWH)
    assert (cost.cpu_method, cost.is_estimate) == ("rapl, by share of CPU time", False)
    assert cost.co2_grams == pytest.approx(1050.0)
    assert cost.money is None
    assert "~" not in str(energy_line(cost))
    assert cost.to_json()["energy_kwh"] == pytest.approx(3.0)


def test_watts_per_core_are_an_estimate_and_never_replace_what_was_measured() -> None:
    prices = Prices(watts_per_core=5.0, kwh=0.3, currency="EUR")
    cost = cost_of(JOB, prices)
    assert (cost.cpu_joules, cost.is_estimate) == (9000.0, True)
    assert "estimate" in str(cost.cpu_method)
    assert str(energy_line(cost)).startswith("~9.0 kJ (0.0025 kWh)")
    assert str(cost_line(cost)).startswith("~0.00075 EUR")
    assert cost_of(MEASURED, prices).is_estimate is False


@pytest.mark.parametrize(
    ("prices", "limits", "money"),
    [
        (Prices(kwh=0.3), Limits(), 0.9),
        (Prices(cpu_hour=0.05), Limits(), 0.5 * 0.05),
        (Prices(cpu_hour=0.05), Limits(cpus=4.0), 4 * 0.05),
        (Prices(gib_hour=0.01), Limits(), 4 * 0.01),
        (Prices(gib_hour=0.01), Limits(memory_bytes=16 * GIB), 16 * 0.01),
        (Prices(gpu_hour=2.0), Limits(), 0.0),
        (Prices(gpu_hour=2.0), Limits(gpus=2), 4.0),
        (Prices(kwh=0.3, cpu_hour=0.05, gib_hour=0.01), Limits(), 0.9 + 0.025 + 0.04),
        (Prices(kwh=0.3, instance="m5.large", instance_hour=0.096), Limits(), 0.096),
    ],
)
def test_money_follows_the_prices_that_are_set(prices: Prices, limits: Limits, money: float) -> None:
    assert cost_of(replace(MEASURED, limits=limits), prices).money == pytest.approx(money)


def test_energy_of_the_gpu_alone_is_said_to_be_that() -> None:
    cost = cost_of(replace(JOB, usage=replace(USAGE, energy_gpu_joules=KWH)), Prices(kwh=0.5))
    assert (cost.money, cost.money_method) == (0.5, "1.0 kWh (GPU only) × 0.5")


def test_gpus_that_were_not_declared_are_as_many_as_were_busy_at_once() -> None:
    job = replace(JOB, usage=replace(USAGE, gpu_util_peak=130.0))
    assert cost_of(job, Prices(gpu_hour=2.0)).money == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("job", "prices", "word"),
    [
        (JOB, Prices(kwh=0.3), "energy"),
        (JOB, Prices(kwh=0.3, cpu_hour=0.05), "energy"),
        (replace(JOB, duration_seconds=None), Prices(gib_hour=1.0), "memory"),
        (replace(JOB, usage=Usage()), Prices(cpu_hour=1.0), "CPU time"),
        (JOB, Prices(instance="m5.lrge"), "m5.lrge"),
        (replace(JOB, duration_seconds=None), Prices(instance="m5", instance_hour=1.0), "duration"),
    ],
)
def test_a_sum_with_an_unknown_part_is_not_known_and_says_why(job: Job, prices: Prices, word: str) -> None:
    cost = cost_of(job, prices)
    assert cost.money is None
    assert word in str(cost.problem)
    assert str(cost_line(cost)).startswith("not known: ")


def test_without_energy_the_problem_names_the_estimate() -> None:
    assert cost_of(JOB, Prices(kwh=0.3)).problem == (
        "its energy is not known (set cost.watts_per_core for an estimate)"
    )
    no_cpu_time = replace(JOB, usage=Usage())
    assert cost_of(no_cpu_time, Prices(kwh=0.3)).problem == "its energy is not known"


def prices_with(*sets: str, text: str = "", home: Path) -> Prices:
    directory = home / "config/jobtop"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.toml").write_text(text)
    return prices_of(load(sets, {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")}, home, home))


def test_only_prices_that_the_user_set_make_money(tmp_path: Path) -> None:
    prices = prices_with(home=tmp_path)
    assert (prices.kwh, prices.co2_g_per_kwh, prices.has_price) == (None, 350.0, False)
    assert prices_with("cost.kwh=0.4", home=tmp_path).kwh == 0.4


@pytest.mark.parametrize("name", ['"m5.large"', "m5.large"])
def test_a_price_list_names_machines(tmp_path: Path, name: str) -> None:
    text = f'[cost]\ncurrency = "USD"\ninstance = "m5.large"\n[cost.prices]\n{name} = 0.096\n"c5.large" = 0.085\n'
    prices = prices_with(text=text, home=tmp_path)
    assert (prices.instance, prices.instance_hour, prices.currency) == ("m5.large", 0.096, "USD")
    assert prices_with("cost.prices=a=1,m5.large=2", text=text, home=tmp_path).instance_hour == 2.0


@pytest.mark.parametrize("value", ["x", "=3", "x=", "x=-1", "x=much"])
def test_a_wrong_price_list_names_the_key(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match=r"cost\.prices"):
        prices_with(f"cost.prices={value}", home=tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (energy_text(0.004), "0.0040 J"),
        (energy_text(12_000.0), "12.0 kJ (0.0033 kWh)"),
        (energy_text(None), "–"),
        (co2_text(0.0005), "0.50 mg CO₂"),
        (co2_text(1234.0, True), "~1.2 kg CO₂"),
        (money_text(12.349, "EUR"), "12.35 EUR"),
        (money_text(0.00042, ""), "0.00042"),
        (money_text(0.0, "EUR"), "0.00 EUR"),
        (money_text(1.0, "\x1b[31m"), "1.00 \\x1b[31m"),
    ],
)
def test_amounts_are_readable_at_any_size(text: str, expected: str) -> None:
    assert text == expected


def test_the_short_form_has_only_what_is_known() -> None:
    assert cost_parts(NO_COST) == []
    assert len(cost_parts(cost_of(MEASURED, Prices(kwh=0.3, co2_g_per_kwh=350.0)))) == 3


def figures(root: Path, by: str, prices: Prices | None, *jobs: Job) -> Statistics:
    """Statistics of jobs that a store keeps."""
    kept_jobs(root, *(replace(job, id=new_id()) for job in jobs))
    database = open_to_write(StatePaths(root, HERE))
    try:
        return statistics(read_figures(database, None, grouping(by), prices=prices))
    finally:
        database.close()


def test_statistics_sum_energy_co2_and_money_by_group(tmp_path: Path) -> None:
    jobs = [
        replace(JOB, params={"n": value}, usage=replace(USAGE, energy_cpu_joules=joules))
        for value, joules in ((1, KWH), (1, 2 * KWH), ("x", None))
    ]
    prices = Prices(kwh=0.5, co2_g_per_kwh=100.0, currency="EUR")
    found = figures(tmp_path, "param:n", prices, *jobs, replace(MEASURED, status=Status.RUNNING), JOB)
    one = found.groups["1"].to_json("count", "total_duration")
    assert (one["total_energy_joules"], one["total_co2_grams"]) == (3 * KWH, pytest.approx(300.0))
    assert (one["total_cost"], one["currency"], one["jobs_with_energy"]) == (pytest.approx(1.5), "EUR", 2)
    other = found.groups["x"].to_json("count", "total_duration")
    assert (other["total_energy_joules"], other["total_cost"], other["jobs_with_energy"]) == (None, None, 0)
    assert found.overall.cost.with_energy == 2, "running jobs do not count"
    assert set(found.groups) == {"1", "x", None}


def test_jobs_are_grouped_by_user_and_by_the_month_of_their_start(tmp_path: Path) -> None:
    jobs = replace(JOB, user="ada", start_time=1_794_000_000.0), replace(JOB, user="bob", start_time=None)
    assert set(figures(tmp_path / "a", "user", None, *jobs).groups) == {"ada", "bob"}
    assert set(figures(tmp_path / "b", "month", None, *jobs).groups) == {"2026-11", None}
    assert set(figures(tmp_path / "c", "day", None, *jobs).groups) == {"2026-11-06", None}
    with pytest.raises(BadValue, match="param:KEY"):
        grouping("params")


def test_show_history_and_stats_tell_what_a_job_cost(home: Path) -> None:
    kept_jobs(home, replace(MEASURED, tags={"team": "blue"}))
    prices = ("--set", "cost.kwh=0.5", "--set", "cost.currency=EUR")
    shown = call(*prices, "show", "train").stdout
    assert "10.8 MJ (3.0 kWh), 1.1 kg CO₂; CPU 7.2 MJ: rapl, by share of CPU time; GPU 3.6 MJ: nvml" in shown
    assert "cost       1.50 EUR" in shown
    cost = json.loads(call(*prices, "show", "train", "--json").stdout)["cost"]
    assert (cost["energy_joules"], cost["money"], cost["energy_is_estimate"]) == (3 * KWH, 1.5, False)
    assert call(*prices, "history", "--columns", "energy,co2,cost").stdout.split() == [
        *("ENERGY", "CO2", "COST", "10.8", "MJ", "1.1", "kg", "1.50", "EUR")
    ]
    assert call(*prices, "history", "--columns", "energy,cost", "--format", "csv").stdout.split()[1] == "10800000.0,1.5"
    groups = json.loads(call(*prices, "stats", "--by", "tag:team", "--json").stdout)["by_tag:team"]
    assert (groups["blue"]["total_cost"], groups["blue"]["total_energy_kwh"]) == (1.5, 3.0)
    assert "1.50 EUR" in call(*prices, "stats", "--by", "month").stdout


def named(job: Job, name: str, usage: Usage | None = None) -> Job:
    return replace(job, id=new_id(), name=name, usage=usage or job.usage)


def names(*arguments: str) -> list[str]:
    """The names that `history` lists with prices and an estimate for each core."""
    prices = ("--set", "cost.kwh=0.5", "--set", "cost.watts_per_core=1000")
    answer = call(*prices, "history", "--columns", "name", *arguments)
    assert answer.stderr == ""
    return answer.stdout.split()[1:]


@pytest.fixture
def three(home: Path) -> None:
    """Jobs of 3 kWh, of an estimated 1 kWh, and without energy, the last first."""
    kept_jobs(home, named(JOB, "unknown", Usage()), named(MEASURED, "dear"), named(JOB, "estimated", HOUR_OF_CPU))


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("key", ["energy", "cost"])
def test_history_sorts_by_energy_and_cost_and_jobs_without_come_last(key: str) -> None:
    assert names("--sort", key) == ["dear", "estimated", "unknown"]
    assert names("--sort", key, "--reverse") == ["estimated", "dear", "unknown"]
    assert names("--sort", key, "--page-after", "dear") == ["estimated", "unknown"]
    assert names("--sort", key, "--page-after", "estimated") == ["unknown"]


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("cost>1", ["dear"]),
        ("cost:0.5..1.5", ["estimated", "dear"]),
        ("!cost>1", ["estimated", "unknown"]),
        ("energy>1kWh", ["dear"]),
        ("energy:3600kJ..", ["estimated", "dear"]),
        ("energy<0.5kWh", []),
    ],
)
def test_filters_compare_energy_and_cost_as_they_are_shown(word: str, expected: list[str]) -> None:
    assert names(word) == expected or (not expected and names(word)[:1] == ["matching"])


@pytest.mark.usefixtures("three")
def test_a_cost_without_a_price_is_said(home: Path) -> None:
    for arguments in (("history", "--sort", "cost"), ("history", "cost>1"), ("stats", "cost>1")):
        assert "no price is set" in call(*arguments).stderr
    assert call("history", "--sort", "energy").stderr == ""
    wrong = call("history", "cost>1EUR")
    assert (wrong.returncode, "without the currency" in wrong.stderr) == (2, True)


def test_costs_are_sorted_over_several_stores(home: Path, tmp_path: Path) -> None:
    kept_jobs(home, named(MEASURED, "dear"))
    kept_jobs(tmp_path / "other", named(JOB, "estimated", HOUR_OF_CPU))
    stores = [str(path) for place in (home, tmp_path / "other") for path in sorted(place.rglob("*.db"))]
    both = [word for store in stores for word in ("--store", store)]
    assert names("--sort", "cost", "--reverse", *both) == ["estimated", "dear"]
    assert names("--sort", "cost", "--page-after", "dear", *both) == ["estimated"]


def test_the_network_is_a_column_on_request(home: Path) -> None:
    kept_jobs(home, replace(JOB, usage=Usage(net_rx_bytes=2048, net_tx_bytes=None)))
    assert call("history", "--columns", "received,sent").stdout.split()[2:] == ["2.0", "KiB", "–"]


def test_the_record_that_run_writes_has_the_cost(home: Path, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    machine = ("--set", "cost.instance=box", "--set", "cost.prices=box=3600")
    call(*machine, "run", "--no-ui", "--quiet", "--record", str(record), "--", "true")
    written = json.loads(record.read_text())
    shown = json.loads(call(*machine, "show", "last", "--json").stdout)
    assert written["cost"] == shown["cost"]
    assert written["cost"]["money"] == pytest.approx(written["duration_seconds"])


def test_run_prints_the_cost_only_where_it_is_configured(home: Path) -> None:
    assert "  cost " not in call("run", "--no-ui", "--", "true").stderr
    answer = call("--set", "cost.instance=box", "--set", "cost.prices=box=3600", "run", "--no-ui", "--", "true")
    assert "  cost    " in answer.stderr
