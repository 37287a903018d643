"""The documentation says what is true: generated parts are fresh, links lead somewhere, commands parse."""

import itertools
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click
import pytest

from jobtop.cli.main import VERBS
from jobtop.cli.main import jobtop as face
from jobtop.core.analysis.cost import NO_COST
from jobtop.core.analysis.statistics import statistics
from jobtop.core.config import MEASUREMENTS, SETTINGS
from jobtop.core.errors import ExitCode
from jobtop.core.job_id import NO_ID
from jobtop.core.metrics import CATALOGUE, Scope, metrics_of
from jobtop.core.model import Job, Status
from support import ROOMS, ROOT, Jobtop

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
PREFIXES = ("exec", "nohup", "srun", "sudo", "time", "if", "then", "$")
OPERATORS = frozenset("|;&()<>")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def fenced_blocks(page: Path) -> Iterator[tuple[str, str]]:
    """The language and the content of each fenced block."""
    return ((found[1], found[2]) for found in re.finditer(r"(?ms)^```(\w*)\n(.*?)^```$", text_of(page)))


def typed_lines(page: Path) -> Iterator[str]:
    """What a reader would type: the lines of `sh` blocks, and those behind a prompt in `console` blocks."""
    for language, block in fenced_blocks(page):
        for line in block.replace("\\\n", " ").splitlines():
            if language == "sh":
                yield line
            elif language == "console" and line.startswith("$ "):
                yield line.removeprefix("$ ")


def simple_commands(line: str) -> Iterator[list[str]]:
    """The commands of a line of shell, `$(…)` included, without redirections; variables count as 1."""
    line = re.sub(r"\$\{\w+\}|\$\w+", "1", line)
    words: list[str] = []
    lexer = shlex.shlex(line.replace('"$(', "$(").replace(')"', ")"), posix=True, punctuation_chars=True)
    lexer.wordchars += ":"
    for word in lexer:
        if set(word) <= OPERATORS:
            yield words
            words = []
        else:
            words.append(word)
    yield words


def jobtop_calls(line: str) -> Iterator[list[str]]:
    """The words after `jobtop` of every call in a line."""
    for words in simple_commands(line):
        rest = list(itertools.dropwhile(lambda word: word in PREFIXES or re.match(r"\w+=", word), words))
        if rest[:1] == ["jobtop"]:
            yield rest[1:]


def parse(command: click.Command, name: str, words: Sequence[str], parent: click.Context | None = None) -> None:
    """Parse as click does, down to the last verb, and run nothing; raises UsageError for what is wrong."""
    own = list(words)
    below: list[str] = []
    if isinstance(command, click.Group):
        at = first_argument(command, own)
        own, below = own[:at], own[at:]
    try:
        context = command.make_context(name, own, parent)
    except click.exceptions.Exit:  # --help and --version
        return
    if below and isinstance(command, click.Group):
        inner = command.get_command(context, below[0])
        if inner is None:
            raise click.UsageError(f"there is no verb {below[0]}")
        parse(inner, below[0], below[1:], context)


def first_argument(group: click.Group, words: Sequence[str]) -> int:
    """Where the options of a group end."""
    takes_value = {name for option in group.params if not getattr(option, "is_flag", True) for name in option.opts}
    index = 0
    while index < len(words) and words[index].startswith("-"):
        index += 2 if words[index] in takes_value else 1
    return index


CALLS = [(page.name, call) for page in PAGES for line in typed_lines(page) for call in jobtop_calls(line)]


def anchors(page: Path) -> set[str]:
    """The places within a page that a link can lead to, as GitHub names them."""
    titles = re.findall(r"(?m)^#+ (.+)$", re.sub(r"(?ms)^```.*?^```$", "", text_of(page)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def first_cells(page: Path) -> set[str]:
    """What the first cells of the tables name, in backticks."""
    rows = re.findall(r"(?m)^\| (`[^|]*`) \|", text_of(page))
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def flat_keys(shape: dict[str, object], nested: Iterable[str]) -> Iterator[str]:
    for key, value in shape.items():
        yield key
        if key in nested:
            assert isinstance(value, dict)
            yield from (f"{key}.{inner}" for inner in value)


def test_the_generated_parts_are_fresh() -> None:
    command = [sys.executable, str(ROOT / "tools/docs.py"), "--check"]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr


def test_a_stale_page_is_named(tmp_path: Path) -> None:
    for room in ROOMS:
        (tmp_path / room).symlink_to(ROOT / room)
    for page in (*(ROOT / "tools").glob("*.py"), *(ROOT / "docs").glob("*.md")):
        copy = tmp_path / page.relative_to(ROOT)
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(text_of(page).replace("| `--detach` |", "| `--detached` |"), encoding="utf-8")
    command = [sys.executable, str(tmp_path / "tools/docs.py"), "--check"]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert (finished.returncode, finished.stderr) == (1, "stale: docs/verbs.md; run tools/docs.py\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(file), f"{page.name}: {target}"


@pytest.mark.parametrize(("page", "call"), CALLS, ids=[f"{page}: {' '.join(call)[:60]}" for page, call in CALLS])
def test_every_command_line_parses(page: str, call: list[str]) -> None:
    parse(face, "jobtop", call)


def test_command_lines_that_are_wrong_do_not_parse() -> None:
    for wrong in (["run", "--detatch", "--", "true"], ["histroy"], ["history", "--limit", "x"], ["config", "trusted"]):
        with pytest.raises(click.UsageError):
            parse(face, "jobtop", wrong)


def test_the_pages_call_every_verb() -> None:
    assert {call[0] for _, call in CALLS if call} >= set(VERBS)


def test_command_lines_are_found_within_a_line_of_shell() -> None:
    line = 'id=$(jobtop run --detach -- a); if jobtop wait "$id"; then b | jobtop history > "$x"; fi  # jobtop rm'
    assert list(jobtop_calls(line)) == [["run", "--detach", "--", "a"], ["wait", "1"], ["history"]]


def test_the_readme_names_the_two_commands_of_a_newcomer() -> None:
    lines = {line.split("#")[0].strip() for line in typed_lines(ROOT / "README.md")}
    assert {"make run", "make test"} <= lines


def test_the_readme_names_every_page_and_every_room() -> None:
    readme = text_of(ROOT / "README.md")
    wanted = [f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")] + ["core", "store", "tui", "cli", "jobtop"]
    assert [name for name in wanted if f"]({name})" not in readme] == []


def test_every_key_of_a_job_is_explained_and_no_other() -> None:
    job = Job(id=NO_ID, name="", command=(), host="", user="", cwd="", status=Status.RUNNING)
    keys = set(flat_keys(job.to_json(), ("limits", "resource_usage", "monitor")))
    page = text_of(ROOT / "docs/history.md").partition("### A job")[2].partition("## Where it is kept")[0]
    explained = set(re.findall(r"(?m)^\| `([^`]+)` \|", page))
    assert explained == keys


def test_every_key_of_the_statistics_is_explained_and_no_other() -> None:
    assert first_cells(ROOT / "docs/stats.md") == set(statistics([]).to_json("tool", None))


def test_every_setting_is_read_by_the_code_or_marked_as_without_effect() -> None:
    sources = "\n".join(
        text_of(path) for room in ROOMS for path in (ROOT / room).rglob("*.py") if path != ROOT / "core/config.py"
    )
    for setting in SETTINGS:
        assert setting.is_used == (f'"{setting.key}"' in sources), setting.key
    lines = [line for line in sources.splitlines() if "without" in line]
    names = {name for line in lines for name in re.findall(r'"(\w+)" (?:not )?in ', line)}
    assert names == {name for name, what in MEASUREMENTS.items() if what is not None}


def test_every_metric_is_listed_and_every_kind_and_fold_explained() -> None:
    folds = {str(metric.fold) for metric in metrics_of(Scope.JOB)}
    words = {str(metric.kind) for metric in CATALOGUE} | folds
    assert first_cells(ROOT / "docs/metrics.md") == {metric.key for metric in CATALOGUE} | words


def test_every_status_is_explained() -> None:
    assert first_cells(ROOT / "docs/history.md") >= set(map(str, Status))


def test_every_exit_code_of_our_own_is_explained() -> None:
    codes = set(re.findall(r"(?m)^\| (\d+) \|", text_of(ROOT / "docs/run.md")))
    own = {code for code in ExitCode if code not in (ExitCode.OK, ExitCode.BAD_ANSWER)}
    assert codes == {str(int(code)) for code in own}


def test_everything_the_doctor_looks_at_is_explained(jobtop: Jobtop) -> None:
    names = jobtop("doctor", "--format", "csv").stdout.splitlines()
    found = {line.split(",")[2] for line in names[1:]}
    assert found
    assert found <= first_cells(ROOT / "docs/troubleshooting.md")


def test_the_picture_shows_nothing_of_the_machine_it_was_made_on() -> None:
    words = re.findall(r">([^<]+)</text>", text_of(ROOT / "screenshots/run.svg"))
    assert "jobtop" in words
    assert [word for word in words if word.startswith("/")] == []


def test_every_key_of_a_cost_is_explained_and_no_other() -> None:
    page = text_of(ROOT / "docs/cost.md").partition("## As JSON")[2]
    assert set(re.findall(r"(?m)^\| `([^`]+)` \|", page)) == set(NO_COST.to_json())
