"""`jobtop rerun ID` and `jobtop run --like ID`: an earlier job again, as it was and with changes."""

import json
from pathlib import Path
from typing import Any

import pytest

from running import nothing_is_left, show
from support import Jobtop, wait_for
from terminal import terminal

__all__ = ["nothing_is_left"]
pytestmark = pytest.mark.usefixtures("nothing_is_left")
SCRIPT = "import os, sys\nprint(os.getcwd(), os.environ.get('A'), *sys.argv[1:])\n"
KEPT = ("name", "tool", "cwd", "params", "tags", "note", "limits", "command")


@pytest.fixture
def first(jobtop: Jobtop) -> dict[str, Any]:
    """A job that has ended: `python3 train.py --lr 0.1 --epochs 3`, with everything that can be asked for."""
    (place := Path(jobtop.home) / "place").mkdir()
    (place / "train.py").write_text(SCRIPT)
    asked = "--name first --tag a=b --param lr=0.1 --param seed=7 --note why --memory 1G --timeout 1m --interval 0.5"
    done = jobtop(
        "run", "--external-id", "first", "--cwd", str(place), *asked.split(),
        *("--", "python3", "train.py", "--lr", "0.1", "--epochs", "3"), env={"A": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return show(jobtop, "first")


def newest(jobtop: Jobtop) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(jobtop("history", "--json").stdout)[0]
    return record


def test_a_job_runs_again_as_it_was(jobtop: Jobtop, first: dict[str, Any]) -> None:
    done = jobtop("rerun", first["id"][:8])
    assert (done.returncode, done.stdout) == (0, f"{first['cwd']} 1 --lr 0.1 --epochs 3\n")
    again = newest(jobtop)
    assert again["id"] != first["id"]
    assert {key: again[key] for key in KEPT} == {key: first[key] for key in KEPT}
    assert (again["monitor"]["interval_seconds"], again["external_id"]) == (0.5, None)


def test_a_parameter_is_changed_in_the_record_and_in_the_command(jobtop: Jobtop, first: dict[str, Any]) -> None:
    done = jobtop("rerun", first["id"], "--param", "lr=0.2", "--tag", "c=d", "--memory", "2G", "--name", "second")
    assert done.stdout.endswith(" --lr 0.2 --epochs 3\n")
    assert "python3 train.py --lr 0.2 --epochs 3" in done.stderr
    again = newest(jobtop)
    assert (again["params"], again["tags"], again["name"]) == ({"lr": 0.2, "seed": 7}, {"a": "b", "c": "d"}, "second")
    assert again["limits"] == first["limits"] | {"memory_bytes": 2 << 30}


def test_a_parameter_that_the_command_does_not_have_is_only_recorded(jobtop: Jobtop, first: dict[str, Any]) -> None:
    done = jobtop("rerun", first["id"], "--quiet", "--param", "seed=8")
    assert done.stdout.endswith(" --lr 0.1 --epochs 3\n")
    assert len(done.stderr.splitlines()) == 1
    assert "seed" in done.stderr
    assert newest(jobtop)["params"] == {"lr": 0.1, "seed": 8}


def test_words_after_two_dashes_are_the_arguments_of_the_same_script(jobtop: Jobtop, first: dict[str, Any]) -> None:
    assert jobtop("rerun", first["id"], "--", "--lr", "0.5").stdout == f"{first['cwd']} 1 --lr 0.5\n"
    assert newest(jobtop)["params"] == {"lr": 0.5, "seed": 7}
    assert jobtop("rerun", first["id"], "--", "x").stdout == f"{first['cwd']} 1 x\n"
    assert newest(jobtop)["params"] == {"seed": 7}, "the old rate is not that of this run"


def test_run_like_a_job_takes_everything_but_the_command(jobtop: Jobtop, first: dict[str, Any]) -> None:
    done = jobtop("run", "--like", first["id"], "--env", "B=2", "--", "sh", "-c", "echo $PWD $A $B; exit 3")
    assert (done.returncode, done.stdout) == (3, f"{first['cwd']} 1 2\n")
    again = newest(jobtop)
    assert (again["name"], again["tool"], again["tags"], again["note"]) == ("first", "sh", first["tags"], "why")
    assert again["limits"] == first["limits"]


@pytest.mark.parametrize("verb", ["run", "submit"])
def test_an_option_in_place_of_the_command_is_refused_and_nothing_runs(
    jobtop: Jobtop, first: dict[str, Any], verb: str
) -> None:
    refused = jobtop(verb, "--like", "first", "--", "--lr", "5")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "jobtop rerun first -- --lr 5" in refused.stderr
    assert newest(jobtop)["id"] == first["id"]


def test_a_name_that_followed_from_the_command_follows_from_the_new_one(jobtop: Jobtop) -> None:
    jobtop("run", "--external-id", "x", "--", "true")
    jobtop("run", "--like", "x", "--", "echo", "hi")
    assert (newest(jobtop)["name"], newest(jobtop)["tool"]) == ("echo", "echo")


def test_a_job_runs_again_detached_and_queued(jobtop: Jobtop, first: dict[str, Any]) -> None:
    detached = jobtop("rerun", first["id"], "--detach").stdout.strip()
    queued = jobtop("submit", "--like", first["id"], "--param", "lr=0.3").stdout.strip()
    assert jobtop("wait", detached, queued).returncode == 0
    wait_for(lambda: jobtop("logs", queued).stdout == f"{first['cwd']} 1 --lr 0.3 --epochs 3\n")
    assert (show(jobtop, detached)["tags"], show(jobtop, queued)["params"]["lr"]) == (first["tags"], 0.3)


def test_a_shell_line_has_parameters_and_no_arguments(jobtop: Jobtop) -> None:
    jobtop("run", "--external-id", "line", "--shell", "--", "echo --lr 1 | cat")
    assert jobtop("rerun", "line", "--param", "lr=2").stdout == "--lr 2\n"
    refused = jobtop("rerun", "line", "--", "x")
    assert (refused.returncode, "--like" in refused.stderr) == (2, True)


def test_what_cannot_run_again_is_refused_with_the_remedy(jobtop: Jobtop, first: dict[str, Any]) -> None:
    assert jobtop("rerun", "none-such").returncode == 2
    wrong = jobtop("rerun", first["id"], "--lr", "3")
    assert (wrong.returncode, "follow --" in wrong.stderr) == (2, True)
    (Path(first["cwd"]) / "train.py").unlink()
    Path(first["cwd"]).rmdir()
    gone = jobtop("rerun", first["id"])
    assert (gone.returncode, "--cwd" in gone.stderr) == (2, True)
    for spec in Path(jobtop.home).rglob(f"specs/{first['id']}.json"):
        spec.unlink()
    unkept = jobtop("rerun", first["id"])
    assert (unkept.returncode, "store.spec_days" in unkept.stderr) == (2, True)


def test_at_a_terminal_it_opens_the_console_and_leaves_output_and_exit_code(jobtop: Jobtop) -> None:
    (go := Path(jobtop.home) / "go").touch()
    line = f"until [ -e {go} ]; do sleep 0.05; done; echo 'lr is' --lr 1; exit 3"
    jobtop("run", "--external-id", "line", "--shell", "--", line)
    go.unlink()
    with terminal(jobtop) as shell:
        shell.enter("JOBTOP_RUN_UI=auto $J rerun line --param lr=2; echo code $?")
        shell.shows("● running")
        go.touch()
        shown = shell.shows("code 3")
    assert "lr is --lr 2" in shown
    assert newest(jobtop)["exit_code"] == 3
