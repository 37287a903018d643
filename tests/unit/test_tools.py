"""`[[tool]]` tables: what they may say, the command they make of a script, and when `--tool` calls one."""

import json
from pathlib import Path
from typing import Any

import pytest
from machines import Machine

from jobtop.core.config import ToolTable
from jobtop.core.errors import BadValue, ConfigError, UsageError
from jobtop.core.job_id import NO_ID
from jobtop.core.model import Limits
from jobtop.core.record import replace
from jobtop.core.run.containers.order import ContainerOrder
from jobtop.core.run.request import Request, prepare
from jobtop.core.run.tools import MOST_PARAMS_BYTES, Tool, find_tool, parse_tool, required_tool, tool_command
from jobtop.core.text.shell_text import shell_text
from jobtop.lifecycle.queue import Queue
from jobtop.lifecycle.tools import handed_params, with_changed_params, with_tool
from records import assert_one_line, call

FENICSX = """
[[tool]]
name = "fenicsx"
command = ["echo", "{script}", "mesh={mesh}"]
benchmark = "bench/poisson.py"
"""


def parsed(**fields: Any) -> Tool:
    """The tool of a table with these fields, in /etc/x.toml."""
    return parse_tool(ToolTable("a", fields, "/etc/x.toml", "/etc/x.toml: tool.a"), {"HOME": "/home/ada"})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"comand": ["a"]}, ("tool.a.comand", 'did you mean "command"')),
        ({}, ("tool.a", "command", "image")),
        ({"command": "python {script}"}, ("tool.a.command", "list")),
        ({"command": []}, ("tool.a.command", "empty")),
        ({"command": ["a", 1]}, ("tool.a.command", "text")),
        ({"command": ["a", "{my file}"]}, ("tool.a.command", "{my file}")),
        ({"command": ["a", "{}"]}, ("tool.a.command", "{}")),
        ({"image": "two words"}, ("tool.a.image", "image")),
        ({"command": ["a"], "volumes": ["/a:/b"]}, ("tool.a.volumes", "image")),
        ({"command": ["a"], "benchmark": 3}, ("tool.a.benchmark", "text")),
    ],
)
def test_a_wrong_table_names_the_field_and_what_is_wrong(fields: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(**fields)
    assert [word for word in words if word not in str(caught.value)] == []


def test_a_benchmark_is_looked_for_beside_the_file_that_names_it() -> None:
    assert parsed(image="a", benchmark="b/c.py").benchmark == "/etc/b/c.py"
    assert parsed(image="a", benchmark="~/c.py").benchmark == "/home/ada/c.py"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("python", "{script}"), ("python", "s.py")),
        (("python",), ("python", "s.py")),
        (("lmp", "-var", "m", "{mesh}", "-in={script}"), ("lmp", "-var", "m", "64", "-in=s.py")),
        (("a", "{params}", "{script}"), ("a", '{"mesh": 64, "name": "{script}", "on": true}', "s.py")),
        (("a", "{{mesh}}", "{name}", "{on}"), ("a", "{mesh}", "{script}", "true", "s.py")),
    ],
)
def test_marks_in_a_command_become_the_script_and_the_parameters(
    command: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert tool_command(Tool("a", command), "s.py", {"mesh": 64, "name": "{script}", "on": True}) == words


def test_a_parameter_that_the_command_needs_is_asked_for_by_name() -> None:
    with pytest.raises(BadValue, match="mesh"):
        tool_command(Tool("a", ("{mesh}",)), "s.py", {})


@pytest.mark.parametrize("params", [{"a": Path("b")}, {"a": float("nan")}, {"a": "x" * MOST_PARAMS_BYTES}])
def test_params_that_the_environment_cannot_carry_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(BadValue, match="params"):
        tool_command(Tool("a", ("x",)), "s.py", params)


def test_the_strongest_file_has_the_last_word_about_a_tool(machine: Machine) -> None:
    machine.write(machine.system_file, '[[tool]]\nname = "a"\nimage = "x"\n[[tool]]\nname = "b"\nimage = "x"\n')
    machine.write(machine.user_file, '[[tool]]\nname = "a"\ncommand = ["y"]\n')
    config = machine.load()
    found = find_tool(config, "a", machine.environ)
    assert found is not None
    assert (found.command, found.image, found.origin) == (("y",), None, str(machine.user_file))
    assert required_tool(config, "b", machine.environ).image == "x"
    with pytest.raises(ConfigError, match=r"config\.toml"):
        required_tool(config, "c", machine.environ)


def test_the_file_of_a_project_has_tools_only_when_it_is_trusted(machine: Machine) -> None:
    machine.write(machine.project_file, FENICSX)
    config = machine.load()
    assert (config.tools, [key for key, *_ in config.ignored]) == ((), ["tool"])
    with pytest.raises(ConfigError, match="jobtop config trust"):
        required_tool(config, "fenicsx", machine.environ)
    assert "[[tool]] fenicsx" in machine.trust().settings
    assert [tool.name for tool in machine.load().tools] == ["fenicsx"]


def test_a_file_with_a_wrong_tool_is_not_trusted(machine: Machine) -> None:
    machine.write(machine.project_file, FENICSX.replace("command", "comand"))
    with pytest.raises(ConfigError, match=r"tool\.fenicsx\.comand.*command"):
        machine.trust()


@pytest.fixture
def script(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A script in the current directory; the tool fenicsx runs it. Jobs stay queued: no agent comes."""
    configuration = tmp_path / ".config/jobtop/config.toml"
    configuration.parent.mkdir(parents=True)
    configuration.write_text(FENICSX, encoding="utf-8")
    monkeypatch.setattr(Queue, "call_agent", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "poisson.py").touch()
    return "poisson.py"


def queued(*words: str) -> dict[str, Any]:
    """The job that `submit` queued."""
    code, out, err = call("submit", *words)
    assert (code, err) == (0, "")
    record: dict[str, Any] = json.loads(call("show", out.strip(), "--json").stdout)
    return record


@pytest.mark.parametrize(
    "words",
    [
        ("--tool", "fenicsx", "poisson.py", "--param", "mesh=64"),
        ("--tool", "fenicsx", "--param", "mesh=64", "poisson.py"),
        ("fenicsx", "poisson.py", "--param=mesh=64"),
        ("--param", "mesh=1", "fenicsx", "poisson.py", "--param", "mesh=64", "--group", "g"),
    ],
)
def test_a_script_without_two_dashes_is_run_by_the_tool(script: str, words: tuple[str, ...]) -> None:
    job = queued(*words)
    assert (job["tool"], job["script"], job["name"]) == ("fenicsx", script, "poisson")
    assert (job["command"], job["params"]) == (["echo", script, "mesh=64"], {"mesh": 64})
    assert (job["queue"]["group"] == "g") == ("--group" in words)


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("--tool", "fenicsx", "--", "poisson.py"), ["poisson.py"]),
        (("--tool", "other", "poisson.py"), ["poisson.py"]),
        (("echo", "poisson.py"), ["echo", "poisson.py"]),
    ],
)
def test_a_command_or_an_unknown_tool_leaves_the_tool_a_label(
    script: str, words: tuple[str, ...], command: list[str]
) -> None:
    job = queued("--force", *words)
    assert (job["tool"], job["command"]) == (words[1] if words[0] == "--tool" else "echo", command)


def test_a_program_keeps_its_meaning_even_if_a_tool_has_its_name(script: str, tmp_path: Path) -> None:
    (tmp_path / ".config/jobtop/config.toml").write_text('[[tool]]\nname = "echo"\ncommand = ["cat"]\n')
    assert queued("echo", script)["command"] == ["echo", script]
    assert queued("--tool", "echo", script)["command"] == ["cat", script]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--tool", "fenicsx", "nothing.py", "--param", "mesh=1"), ("nothing.py", "-- COMMAND")),
        (("--tool", "fenicsx", "python3", "poisson.py"), ("one script", "-- COMMAND")),
        (("fenicsx", "--param", "mesh=1"), ("one script", "no script")),
        (("--tool", "fenicsx", "poisson.py"), ("mesh", "--param")),
        (("--tool", "fenicsx", "poisson.py", "--mesh", "3"), ("--mesh", "--param")),
        (("--tool", "fenicsx", "--shell", "poisson.py"), ("--shell",)),
    ],
)
def test_a_call_of_a_tool_that_cannot_work_queues_nothing(
    script: str, words: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    code, out, err = call("submit", *words)
    assert (code, out) == (2, "")
    assert_one_line(err, *expected)
    assert call("history", "--json").stdout in ("[]\n", "")


def test_a_script_that_an_earlier_job_writes_may_be_queued_by_force(script: str) -> None:
    job = queued("--force", "fenicsx", "later.py", "--param", "mesh=1")
    assert (job["script"], job["queue"]["is_forced"]) == ("later.py", True)


def test_config_shows_the_tools_and_what_is_wrong_with_them(script: str, tmp_path: Path) -> None:
    file = tmp_path / ".config/jobtop/config.toml"
    file.write_text(FENICSX + '[[tool]]\nname = "bad"\nimge = "x"\n')
    code, out, err = call("config", "--json")
    rows = {row["key"]: row for row in json.loads(out)}
    assert (code, rows["tool.fenicsx"]["origin"]) == (0, str(file))
    assert "{script}" in rows["tool.fenicsx"]["value"]
    assert_one_line(err, "tool.bad.imge", '"image"')


def test_a_script_of_an_image_finds_its_directory_and_its_parameters_in_the_container(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    tool = Tool("a", ("{script}",), image="x:1", volumes=("data:/data",))
    request = Request((), str(tmp_path), params={"n": 1}, env={"B": "2"}, limits=Limits(memory_bytes=1 << 30))
    made = with_tool(request, tool, "a.py", {})
    assert made.container == ContainerOrder(
        image="x:1",
        volumes=("data:/data", f"{tmp_path}:{tmp_path}"),
        workdir=str(tmp_path),
        env={"JOBTOP_PARAMS": '{"n": 1}', "B": "2"},
    )
    assert (made.kind, made.command, made.env, made.limits.enforced) == ("container", ("a.py",), {}, True)


def test_an_image_that_is_given_replaces_that_of_the_tool_and_a_script_elsewhere_is_mounted(tmp_path: Path) -> None:
    bench = tmp_path / "bench/b.py"
    bench.parent.mkdir()
    bench.touch()
    request = Request((), "/", container=ContainerOrder("y", volumes=("/a:/",), workdir="/w"))
    made = with_tool(replace(request, cwd="/nowhere"), Tool("a", ("python",), image="x"), str(bench), {})
    assert made.container is not None
    assert (made.container.image, made.container.workdir) == ("y", "/w")
    assert made.container.volumes == ("/a:/",), "a volume that has everything needs no other one"
    request = replace(request, cwd="/nowhere", container=None)
    made = with_tool(request, Tool("a", ("python",), image="x"), str(bench), {})
    assert made.container is not None
    assert made.container.volumes == ("/nowhere:/nowhere", f"{bench.parent}:{bench.parent}:ro")


def test_a_script_may_be_a_path_of_the_image_but_not_a_missing_file_of_here(tmp_path: Path) -> None:
    request = Request((), str(tmp_path))
    assert with_tool(request, Tool("a", ("x",), image="i"), "/opt/in_image.py", {}).script == "/opt/in_image.py"
    with pytest.raises(UsageError, match=r"nothing\.py"):
        with_tool(request, Tool("a", ("x",), image="i"), "nothing.py", {})


def test_a_secret_parameter_is_hidden_in_the_command_that_has_its_value(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    params = {"api_key": "s3cr3t-value", "mesh": 3}
    request = Request((), str(tmp_path), params=params)
    made = with_tool(request, Tool("a", ("login", "{api_key}", "{params}")), "a.py", {})
    job, spec = prepare(made, NO_ID, "h", machine.load())
    assert "s3cr3t" not in shell_text(job.command) + json.dumps(job.params)
    assert spec.command[1] == "s3cr3t-value"
    assert json.loads(spec.env["JOBTOP_PARAMS"]) == params


def test_changed_parameters_reach_the_environment_and_the_command_of_the_tool(tmp_path: Path) -> None:
    (tmp_path / "a.sh").touch()
    tool = Tool("a", ("lmp", "{mesh}", "{script}"))
    before = with_tool(Request((), str(tmp_path), params={"mesh": 1}), tool, "a.sh", {})
    changed = with_changed_params(before, tool, {"mesh": 2})
    assert (changed.command, handed_params(changed)) == (("lmp", "2", "a.sh"), {"mesh": 2})
    other = with_changed_params(before, Tool("a", ("lammps", "{script}")), {"mesh": 2})
    assert (other.command, handed_params(other)) == (before.command, {"mesh": 2}), "the tool is another by now"
    assert handed_params(Request(("a",), "/")) is None
