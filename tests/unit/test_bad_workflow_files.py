"""Broken workflow files: each has one clear message with the line and the key, and none is slow to refuse."""

import time
import tracemalloc
from pathlib import Path

import pytest

from jobtop.core.errors import ExitCode
from jobtop.core.workflow.reading import load
from records import call

HEAD = "name: w\n"
JOB = HEAD + "jobs:\n  - name: a\n    command: x\n"  # the next line is the fifth
NINES = "9" * 5000  # more digits than Python reads
# The name of the file, its text, the line that is named (None: no line), and a word of the message.
BROKEN: list[tuple[str, str, int | None, str]] = [
    ("empty.yaml", "", None, "table"),
    ("list.yaml", "- a\n", 1, "table"),
    ("text.yaml", "hello\n", 1, "table"),
    ("tab.yaml", "name: w\njobs:\n\t- name: a\n", 3, "token"),
    ("colon.yaml", "name: w: x\n", 1, "mapping"),
    ("unclosed.yaml", "name: [w\n", 2, "expected"),
    ("twice.yaml", "name: w\nname: v\n", 2, "twice"),
    ("alias.yaml", "name: *who\n", 1, "alias"),
    ("itself.yaml", "name: w\njobs: &a [*a]\n", 2, "nested"),
    ("two.yaml", "name: w\n---\nname: v\n", 2, "one document"),
    ("key.yaml", "name: w\n? [a]\n: b\n", 2, "key"),
    ("comma.json", '{"name": "w",\n "jobs": [,]}', 2, "Expecting"),
    ("twice.json", '{"name": "w", "name": "v"}', None, "twice"),
    ("nan.json5", "{name: 'w', jobs: [", 1, "nexpected"),
    ("deep.json", "[" * 100_000, None, "deep"),
    ("bad.toml", "name = \n", None, "line 1"),
    ("flow.txt", JOB, None, ".yaml"),
    ("flow", JOB, None, ".yaml"),
    ("noname.yaml", "jobs:\n  - {name: a, command: x}\n", 1, '"name" is missing'),
    ("nojobs.yaml", HEAD, 1, '"jobs" is missing'),
    ("emptyjobs.yaml", HEAD + "jobs: []\n", 2, "no jobs"),
    ("jobsmap.yaml", HEAD + "jobs: {a: b}\n", 2, "list"),
    ("topkey.yaml", HEAD + "jobz: []\njobs: [{name: a, command: x}]\n", 2, 'did you mean "jobs"'),
    ("jobkey.yaml", JOB + "    depend_on: [b]\n", 5, 'did you mean "depends_on"'),
    ("nocommand.yaml", HEAD + "jobs:\n  - name: a\n", 3, '"command" is missing'),
    ("emptyname.yaml", HEAD + 'jobs:\n  - name: ""\n    command: x\n', 3, "empty"),
    ("jobtext.yaml", HEAD + "jobs:\n  - a\n", 3, "table"),
    ("samename.yaml", JOB + "  - {name: a, command: y}\n", 5, "another job"),
    ("unknown.yaml", HEAD + "jobs:\n  - {name: prepare, command: x}\n  - {name: b, command: y, depends_on: [prepar]}\n",
     4, 'did you mean "prepare"'),
    ("self.yaml", JOB + "    depends_on: [a]\n", 5, "itself"),
    ("circle.yaml", JOB + "    depends_on: [c]\n  - {name: b, command: y, depends_on: [a]}\n"
     "  - {name: c, command: z, depends_on: [b]}\n", 3, "a → c → b → a"),
    ("regex.yaml", JOB + '    depends_on_regexes: ["("]\n', 5, "regular expression"),
    ("file.yaml", JOB + "    input_files: [data]\n", 5, 'no file "data"'),
    ("infile.yaml", HEAD + "jobs:\n  - name: a\n    command: cat ${files.input.data}\n", 4, 'no file "data"'),
    ("userdata.yaml", JOB + "    input_user_data: [u]\n", 5, "no user data"),
    ("need.yaml", JOB + "    resource_requirements: big\n", 5, "no requirements"),
    ("memory.yaml", HEAD + "resource_requirements:\n  - {name: r, memory: 2x}\njobs: [{name: a, command: x}]\n",
     3, "not a size"),
    ("runtime.yaml", JOB + "    runtime: PT5X\n", 5, "PT30M"),
    ("cpus.yaml", JOB + "    num_cpus: 0\n", 5, "more than 0"),
    ("handler.yaml", JOB + "    failure_handler: h\n", 5, "no failure handler"),
    ("rule.yaml", JOB + "failure_handlers:\n  - name: h\n    rules: [{max_retries: 1}]\n", 7, "exit_codes"),
    ("codes.yaml", JOB + "failure_handlers:\n  - name: h\n    rules: [{exit_codes: [300]}]\n", 7, "0 to 255"),
    ("trigger.yaml", JOB + "actions:\n  - {trigger_type: sometimes, action_type: run_commands, commands: [x]}\n",
     6, "on_workflow_start"),
    ("commands.yaml", JOB + "actions:\n  - {trigger_type: on_workflow_start, action_type: run_commands}\n",
     6, "commands"),
    ("monitor.yaml", JOB + "resource_monitor: {granularity: fine}\n", 5, "summary"),
    ("interval.yaml", JOB + "resource_monitor:\n  sample_interval_seconds: 0\n", 6, "at least"),
    ("parameter.yaml", JOB + "    use_parameters: [lr]\n", 5, "no parameter"),
    ("range.yaml", JOB + '    parameters:\n      i: "1:x"\n', 6, "no range"),
    ("backward.yaml", JOB + '    parameters:\n      i: "5:1"\n', 6, "empty range"),
    ("zip.yaml", JOB + "    parameter_mode: zip\n    parameters: {i: [1, 2], j: [1]}\n", 3, "same length"),
    ("huge.yaml", JOB + '    parameters:\n      i: "1:9999999999"\n', 6, "the most"),
    ("product.yaml", JOB + '    parameters: {i: "1:1000", j: "1:1000"}\n', 3, "combinations"),
    ("format.yaml", HEAD + 'jobs:\n  - name: "a_{i:zz}"\n    command: x\n    parameters: {i: "1:2"}\n', 3, "format"),
    ("differs.yaml", HEAD + 'jobs:\n  - name: a\n    command: "x {i}"\n    parameters: {i: "1:2"}\n', 4, "{i}"),
    ("digits.yaml", JOB + f"    priority: {NINES}\n", 5, "too large"),
    ("hexadecimal.yaml", JOB + f"    priority: 0x{'f' * 9000}\n", 5, "too large"),
    ("digits.json", f'{{"name": "w", "user": {NINES}}}', None, "too large"),
    ("digits.json5", f"{{name: 'w', user: {NINES}}}", None, "too large"),
    ("digits.toml", f'name = "w"\nuser = {NINES}\n', None, "too large"),
    ("hexadecimal.toml", f'name = "w"\nuser = [{{a = 0x{"f" * 9000}}}]\n', None, "too large"),
    ("endless.yaml", JOB + '    parameters:\n      i: "-1e308:1e308"\n', 6, "the most"),
    ("largest.yaml", JOB + f'    parameters:\n      i: "1:1{"0" * 400}"\n', 6, "no range"),
    ("listed.yaml", JOB + f'    parameters:\n      i: "[0x{"f" * 9000}]"\n', 6, "too large"),
    ("variable.yaml", JOB + '    env: {"A=B": c}\n', 5, "A=B"),
    ("tomlline.toml", 'name = "w"\n[[jobs]]\nname = "a"\ncommand = "x"\npriorty = 3\n', 5, "priority"),
    ("jsonline.json", '{"name": "w",\n "jobs": [\n  {"name": "a",\n   "command": "x",\n   "depend": []}]}',
     5, "depends_on"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "line", "word"), BROKEN, ids=[row[0] for row in BROKEN])
def test_a_broken_file_has_one_clear_message(
    home: Path, tmp_path: Path, name: str, text: str, line: int | None, word: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    found = load(str(path))
    assert found.workflow is None
    assert len(found.problems) == 1, found.sentences()
    assert word in found.problems[0].text
    assert found.problems[0].line == line, found.sentences()
    answer = call("workflow", "validate", str(path))
    assert (answer.returncode, answer.stdout) == (ExitCode.USAGE, "")
    assert answer.stderr.count("\n") == 1
    assert answer.stderr.startswith(f"{path}:" if line is None else f"{path}:{line}: ")


def test_all_mistakes_are_named_at_once_in_the_order_of_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "many.yaml"
    path.write_text(JOB + "    depends_on: [x, y]\n    tmeout: 5\nresource_monitor: 7\n")
    assert [problem.line for problem in load(str(path)).problems] == [5, 5, 6, 7]


def test_bombs_and_large_files_are_refused_quickly(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    bomb, large, merged = tmp_path / "bomb.yaml", tmp_path / "large.yaml", tmp_path / "merge.yaml"
    bomb.write_text("\n".join(lines))
    merged.write_text("\n".join(["m0: &m0 {k: v}"] + [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 10)}]}}"
                                                      for n in range(1, 12)]))  # fmt: skip
    with large.open("wb") as file:
        file.truncate(50 << 20)
    for path, word in ((bomb, "values"), (merged, "values"), (large, "larger")):
        began = time.process_time()
        found = load(str(path))
        assert time.process_time() - began < 20
        assert word in found.problems[0].text


def test_a_long_text_in_a_file_needs_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    said = "x" * (3 << 20) + "\\n" * (1 << 20)
    path.write_text(f'{{"name": "w", "description": "{said}", "jobs": [{{"name": "a", "command": "true"}}]}}')
    tracemalloc.start()
    try:
        assert load(str(path)).workflow is not None
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "p.yaml")
    assert "regular file" in load(str(tmp_path / "p.yaml")).problems[0].text


def test_hostile_names_are_printed_harmlessly(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "hostile.yaml"
    path.write_text(JOB + '    depends_on: ["\\e[31mred\\a"]\n')
    answer = call("workflow", "validate", str(path))
    assert "\x1b" not in answer.stderr
    assert "\\x1b[31mred" in answer.stderr


def test_what_this_host_does_not_have_is_a_mistake_unless_another_host_is_meant(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_text(JOB + "    memory: 9000t\n")
    answer = call("workflow", "validate", str(path))
    assert answer.returncode == ExitCode.USAGE
    assert answer.stderr.startswith(f"{path}:3: jobs.a: ")
    assert "this host has" in answer.stderr
    assert call("workflow", "validate", "--any-host", str(path)).returncode == 0


def test_a_file_that_no_job_writes_has_to_be_there(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "files.yaml"
    path.write_text(f"name: w\nfiles: [{{name: f, path: {tmp_path}/raw}}]\n"
                    "jobs: [{name: a, command: x, input_files: [f]}]\n")  # fmt: skip
    assert "no job writes it" in call("workflow", "validate", str(path)).stderr
    (tmp_path / "raw").touch()
    assert call("workflow", "validate", str(path)).returncode == 0
