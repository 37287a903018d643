"""Words that name one job and words of a filter, and the verbs that act on all jobs of a filter."""

import json
from pathlib import Path

import pytest

from jobtop.core.errors import UsageError
from jobtop.core.model import Status
from jobtop.core.query.selection import read_selection
from records import assert_one_line, call, kept_jobs, made_job, numbered_id

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    "words",
    [
        *(("train",), ("3f2a", "last"), ("last:failed",), ("@2", "#15"), ("id:3f2a",)),
        *(("docker:build",), ("a b",), ('"status:failed"',), ("id:3f2a", "last")),
    ],
)
def test_words_that_name_jobs(words: tuple[str, ...]) -> None:
    selection = read_selection(words, (), NOW)
    assert (selection.references, selection.filter) == (words, None)


@pytest.mark.parametrize(
    ("words", "filters", "text"),
    [
        (("tag:nightly",), (), "tag:nightly"),
        (("name:train*",), (), "name:train*"),
        (("name:train", "status:failed"), (), "name:train status:failed"),
        (("mem>4G",), (), "mem>4G"),
        (("!status:failed", "param.lr:0.3"), (), "!status:failed param.lr:0.3"),
        (("tag:a since:7d",), (), "tag:a since:7d"),
        ((), ("name:train",), "name:train"),
        ((), ("solver",), "solver"),
        (("name:a",), ("since:7d",), "since:7d name:a"),
    ],
)
def test_words_of_a_filter(words: tuple[str, ...], filters: tuple[str, ...], text: str) -> None:
    selection = read_selection(words, filters, NOW)
    assert (selection.references, selection.text) == ((), text)
    assert selection.filter is not None


@pytest.mark.parametrize(
    ("words", "filters"), [(("train", "status:failed"), ()), (("tag:x", "last"), ()), (("train",), ("tag:x",))]
)
def test_names_and_a_filter_are_not_mixed(words: tuple[str, ...], filters: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="filter"):
        read_selection(words, filters, NOW)


@pytest.fixture
def three(home: Path) -> list[str]:
    """Ended jobs with the tag `old`, the last with another name, and one without the tag."""
    jobs = [
        made_job(id=numbered_id(index + 1), name=name, tags={} if name == "other" else {"old": ""})
        for index, name in enumerate(("a", "a", "b", "other"))
    ]
    return [job.id for job in kept_jobs(home, *jobs)]


def names_left() -> list[str]:
    return sorted(record["name"] for record in json.loads(call("history", "--all", "--json").stdout))


def test_a_filter_needs_a_yes_where_no_terminal_can_ask(three: list[str]) -> None:
    code, out, err = call("rm", "tag:old")
    assert (code, out) == (2, "")
    assert [name in err for name in ("  a ", "  b ", "other")] == [True, True, False]
    assert_one_line(err.splitlines(keepends=True)[-1], "3 jobs", "--yes")
    assert names_left() == ["a", "a", "b", "other"]


def test_with_a_yes_all_jobs_of_the_filter_are_changed_and_named(three: list[str]) -> None:
    code, out, err = call("rm", "tag:old", "name:a", "--yes")
    assert (code, sorted(out.splitlines()), err) == (0, [f"deleted a {job_id[:8]}" for job_id in three[:2]], "")
    assert names_left() == ["b", "other"]


def test_a_name_is_one_job(three: list[str]) -> None:
    assert call("rm", "a").stdout.startswith("deleted a ")
    assert names_left() == ["a", "b", "other"]
    assert call("rm", "--filter", "name:a", "--yes").returncode == 0
    assert names_left() == ["b", "other"]


@pytest.mark.parametrize(
    "verb", ["stop", "kill", "pause", "resume", "rm", "pin", "unpin", "retry", "wait", "plot", "export"]
)
def test_a_filter_without_matching_jobs_is_an_error_in_one_line(three: list[str], verb: str) -> None:
    code, out, err = call(verb, "tag:nosuch")
    assert (code, out) == (2, "")
    assert_one_line(err, "tag:nosuch")


@pytest.mark.parametrize("verb", ["stop", "rm", "pin", "wait", "plot", "export", "history", "stats", "queue", "prune"])
def test_every_verb_refuses_a_word_that_can_never_match(three: list[str], verb: str) -> None:
    code, out, err = call(verb, "status:faild")
    assert (code, out) == (2, "")
    assert_one_line(err, '"faild"', '"failed"')


def test_a_name_is_one_job_and_a_filter_by_name_is_all_of_them(three: list[str]) -> None:
    assert read_selection(("name:a",), (), NOW).filter is not None
    assert call("pin", "name:a").returncode == 2
    assert call("pin", "name:a", "--yes").stdout.count("pinned") == 2


def test_wait_takes_a_name_for_its_newest_job_and_a_filter_for_all_of_them(home: Path) -> None:
    failed = made_job(name="a", status=Status.FAILED, exit_code=1)
    kept_jobs(home, failed, made_job(name="a"))
    assert [call("wait", *words).returncode for words in (["a"], ["name:a"], ["--filter", "name:a"])] == [0, 1, 1]


def test_pinned_jobs_are_kept_by_a_filter_and_pinned_ones_are_not_pinned_again(three: list[str]) -> None:
    assert call("pin", "#1").stdout == f"pinned a {three[0][:8]}\n"
    assert call("pin", "tag:old", "--yes").stdout.count("pinned") == 2
    assert call("rm", "a").returncode == 2
    assert call("unpin", "b").stdout == f"unpinned b {three[2][:8]}\n"
    done = call("rm", "tag:old", "--yes")
    assert (done.returncode, done.stdout) == (0, f"deleted b {three[2][:8]}\n")
    assert_one_line(done.stderr, "pinned")


def test_stats_export_and_queue_take_a_filter(home: Path) -> None:
    kept_jobs(
        home,
        made_job(name="a", tags={"nightly": ""}),
        made_job(name="b", status=Status.FAILED, exit_code=1),
        made_job(name="c", tags={"nightly": ""}),
    )
    assert json.loads(call("stats", "tag:nightly", "--json").stdout)["total_jobs"] == 2
    none = call("stats", "tag:none").stdout
    assert "No matching jobs" in none
    rows = call("export", "tag:nightly", "--format", "nextflow").stdout.splitlines()
    assert len(rows) == 3
    assert len(call("export", "--format", "nextflow").stdout.splitlines()) == 4
    assert call("wait", "tag:nightly").returncode == 0
    assert call("wait", "--filter", "name:*").returncode == 1
    assert "No matching queued jobs" in call("queue", "tag:nightly").stdout


def test_a_job_waits_for_the_others_of_a_filter_and_not_for_itself(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me, _ = kept_jobs(home, made_job(name="me", status=Status.FAILED), made_job(name="other"))
    monkeypatch.setenv("JOBTOP_JOB_ID", me.id)
    assert call("wait", "user:ada").returncode == 0
    assert call("wait", "me").returncode == 2


def test_plot_draws_every_job_of_a_filter(three: list[str], tmp_path: Path) -> None:
    drawn = call("plot", "tag:old").stdout
    assert all(job_id[:8] in drawn for job_id in three[:3])
    assert call("plot", "tag:old", "--svg", str(tmp_path / "x.svg")).returncode == 0
    assert all(job_id[:8] in (tmp_path / "x.svg").read_text() for job_id in three[:3])


def test_options_take_the_values_of_the_filter(home: Path) -> None:
    kept_jobs(
        home,
        made_job(name="a", status=Status.FAILED),
        made_job(name="b", status=Status.TIMEOUT),
        made_job(name="c", start_time=NOW),
    )
    for words in (("--status", "failed,timeout"), ("--status", "failed", "--status", "timeout")):
        assert [record["name"] for record in json.loads(call("history", "--json", *words).stdout)] == ["b", "a"]
    since = json.loads(call("history", "--json", "--since", "2025-01-02").stdout)
    assert [record["name"] for record in since] == ["c"]
    assert since == json.loads(call("history", "--json", "since:2025-01-02").stdout)
    assert json.loads(call("stats", "--json", "--since", "2025-01-02T10:00").stdout)["total_jobs"] == 1


@pytest.mark.parametrize("verb", ["history", "stats", "queue", "stop", "rm", "export", "wait", "plot", "retry"])
def test_help_describes_the_language(home: Path, verb: str) -> None:
    text = call(verb, "--help").stdout
    assert "status:failed,timeout" in text
    assert "mem:4G.." in text
