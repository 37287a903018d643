"""Any text is stored exactly and printed harmless; secrets in arguments are seen nowhere but in the spec."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from records import HERE, HOSTILE_TEXTS, call, holds_controls
from running import nothing_is_left
from support import Jobtop

__all__ = ["nothing_is_left"]

SECRET = "s3cr3tTh1ng"
TOKEN = "ghp_" + "a1B2c3D4e5" * 3


@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_any_text_is_kept_exactly_and_printed_harmless(jobtop: Jobtop, home: Path, text: str) -> None:
    named = ("--name", text, "--note", text, "--tool", text, "--external-id", text)
    pairs = ("--tag", f"t={text}", "--tag", f"{text.replace('=', '')}=v", "--param", f"p={text}", "--env", f"E={text}")
    command = ("sh", "-c", 'test "$E" = "$0" && exit 3', text)
    done = jobtop("run", *named, *pairs, "--record", "record.json", "--", *command)
    assert done.returncode == 3, done.stderr
    assert not holds_controls(done.stderr)
    record = json.loads((jobtop.home / "record.json").read_bytes())
    (kept,) = json.loads(call("history", "--json").stdout)
    assert record == kept
    for shape in (record, json.loads(call("show", text, "--json").stdout)):
        assert {shape[key] for key in ("name", "note", "tool", "external_id")} == {text}
        assert shape["tags"] == {"t": text, text.replace("=", ""): "v"}
        assert shape["params"] == {"p": text}
        assert shape["command"] == list(command)
    for args in (("history",), ("show", record["id"]), ("logs", record["id"])):
        answer = call(*args)
        assert answer.returncode == 0
        assert answer.stderr == ("" if args[0] != "logs" else f"jobtop: job {record['id'][:8]} wrote no output\n")
        assert not holds_controls(answer.stdout)
    (row,) = csv.DictReader(io.StringIO(jobtop("history", "--format", "csv").stdout, newline=""))
    assert row["id"] == record["id"]
    assert json.loads(row["tags"]) == record["tags"]
    assert not holds_controls((home / "jobtop.log").read_text())
    assert [json.loads(line) for line in call("history", "--format", "jsonl", "--name", "*").stdout.splitlines()] == [
        kept
    ]


def test_a_bad_name_does_not_break_the_rows_of_others(jobtop: Jobtop, home: Path) -> None:
    for name in ("plain", HOSTILE_TEXTS["newlines"], HOSTILE_TEXTS["long"], "last"):
        assert jobtop("run", "--quiet", "--name", name, "--", "true").returncode == 0
    lines = call("history").stdout.splitlines()
    assert len(lines) == 5
    assert len({line.index("✓") for line in lines[1:]}) == 1
    assert max(map(len, lines)) < 120


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("0.1", 0.1),
        ("3", 3),
        ("-3", -3),
        ("1e5", 1e5),
        ("true", True),
        ("1.10", "1.10"),
        ("007", "007"),
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("1e999", "1e999"),
        ("-inf", "-inf"),
        ("inf", "inf"),
        ("nan", "nan"),
        ("null", "null"),
        ("[1]", "[1]"),
        ("", ""),
        ("9" * 400, None),
    ],
)
def test_a_parameter_is_a_number_only_where_nothing_is_lost(given: str, kept: Any) -> None:
    from jobtop.core.run.request import typed

    value = typed(given)
    shown = json.loads(json.dumps(value), parse_constant=pytest.fail)
    if kept is not None:
        assert (type(value), value) == (type(kept), kept)
    assert str(shown).lower() == given.lower() or float(given) == shown


def files_holding(state: Path, text: str) -> list[str]:
    """The files below the state directory with this text in them, however they are encoded inside."""
    forms = {text.encode(), text.encode("utf-16-le"), text.encode().hex().encode()}
    return [
        str(path.relative_to(state))
        for path in sorted(state.rglob("*"))
        if path.is_file() and any(form in path.read_bytes() for form in forms)
    ]


@pytest.mark.parametrize(
    "command",
    [
        ("true", "--token", SECRET),
        ("true", f"--password={SECRET}"),
        ("true", f"API_KEY={SECRET}"),
        ("true", f"https://ada:{SECRET}@example.org/x"),
        ("true", "-H", f"Authorization: Bearer {SECRET}"),
        ("sh", "-c", f"true --api-key {SECRET}"),
        ("sh", "--password", SECRET),
        ("no-such-command", "--token", SECRET),
        ("true", TOKEN),
    ],
    ids=str,
)
def test_a_secret_in_the_arguments_is_in_the_spec_alone(jobtop: Jobtop, home: Path, command: tuple[str, ...]) -> None:
    secret = TOKEN if TOKEN in command else SECRET
    params = ("--param", f"password={secret}", "--env", f"MY_TOKEN={secret}")
    done = jobtop("run", *params, "--record", "record.json", "--", *command)
    said = [line for line in done.stderr.splitlines() if "Illegal option" not in line]
    assert secret not in "\n".join(said)
    record = json.loads((jobtop.home / "record.json").read_bytes())
    assert secret not in json.dumps(record)
    assert "***" in json.dumps(record["command"])
    assert record["params"] == {"password": "***"}
    for args in (("history",), ("show", record["id"]), *(("history", "--format", style) for style in ("jsonl", "csv"))):
        assert secret not in call(*args).stdout
    spec = home / "specs" / f"{record['id']}.json"
    assert files_holding(home, secret) == [f"specs/{spec.name}"]
    assert spec.stat().st_mode & 0o777 == 0o600
    assert json.loads(spec.read_bytes())["command"] == list(command)
    assert json.loads(spec.read_bytes())["env"]["MY_TOKEN"] == secret


def test_what_the_user_calls_secret_is_redacted_everywhere(jobtop: Jobtop, home: Path) -> None:
    hidden = {"JOBTOP_RUN_REDACT": "plain[0-9]+"}
    done = jobtop("run", "--param", "x=plain123", "--", "true", "a-plain123", env=hidden)
    assert done.returncode == 0
    (job,) = json.loads(call("history", "--json").stdout)
    assert (job["command"], job["params"]) == (["true", "a-***"], {"x": "***"})
    assert files_holding(home, "plain123") == [f"specs/{job['id']}.json"]


def test_a_secret_is_not_kept_beside_the_store_either(jobtop: Jobtop) -> None:
    (jobtop.state / f"{HERE}.db").mkdir(parents=True)
    assert jobtop("run", "--quiet", "--", "true", "--token", SECRET).returncode == 0
    (spec,) = (jobtop.state / "specs").glob("*.json")
    assert len(list((jobtop.state / "unrecorded").iterdir())) == 1
    assert files_holding(jobtop.state, SECRET) == [f"specs/{spec.name}"]


def test_the_output_of_a_job_is_not_changed(jobtop: Jobtop) -> None:
    done = jobtop("run", "--quiet", "--external-id", "x", "--", "echo", "--token", SECRET)
    assert done.stdout == f"--token {SECRET}\n"
    assert jobtop("logs", "x").stdout == f"--token {SECRET}\n"
