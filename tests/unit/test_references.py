"""The words that name a job: every form, their order, and what is said of a word that means none or several."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from jobtop.core.errors import AmbiguousJob, UnknownJob
from jobtop.core.job_id import JobId
from jobtop.core.model import Job, Queued, Status
from jobtop.core.paths import StatePaths
from jobtop.store.database import open_to_write
from jobtop.store.fleet import Fleet
from jobtop.store.jobs import Jobs
from jobtop.store.references import completions, last_words
from records import HERE, HOSTILE_TEXTS, assert_one_line, call, kept_jobs, made_job, running_job

IDS = [JobId(f"abcd000{number}-0000-4000-8000-000000000000") for number in range(9)]


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    with closing(open_to_write(StatePaths(tmp_path, HERE))) as database:
        yield Jobs(database)


def began(place: int, **values: object) -> Job:
    """A job with the id of its place that began so many seconds after the others."""
    return made_job(**{"id": IDS[place], "start_time": 1_700_000_000.0 + place, **values})


@pytest.fixture
def varied(jobs: Jobs) -> Jobs:
    """Jobs in an order of arrival that is not the order of their beginnings."""
    for job in (
        began(2, name="train"),
        began(4, name="eval", status=Status.FAILED),
        began(1, name="train", status=Status.FAILED),
        began(5, name="last", external_id="celery-task-77"),
        began(3, name="train"),
    ):
        jobs.insert(job)
    return jobs


@pytest.mark.parametrize(
    ("word", "place"),
    [
        (IDS[3], 3),
        (IDS[3].upper(), 3),
        (f"id:{IDS[3]}", 3),
        ("abcd0002", 2),
        ("id:abcd0002", 2),
        ("celery-task-77", 5),
        ("celery-t", 5),
        ("id:celery-t", 5),
        ("last", 5),
        ("name:last", 5),
        ("last:failed", 4),
        ("last:success", 5),
        ("@1", 5),
        ("@2", 4),
        ("@5", 1),
        ("#1", 2),
        ("#5", 3),
        ("train", 3),
        ("name:train", 3),
        ("eval", 4),
    ],
)
def test_each_form_of_a_word_finds_its_job(varied: Jobs, word: str, place: int) -> None:
    assert varied.find(word).id == IDS[place]


@pytest.mark.parametrize(
    "word", ["@6", "@0", "@", "#6", "#0", "#", "#x", "@999999", "last:", "last:queued", "name:", "id:", "id:eval", ""]
)
def test_a_form_without_a_job_is_unknown(varied: Jobs, word: str) -> None:
    with pytest.raises(UnknownJob):
        varied.find(word)


@pytest.mark.parametrize("word", ["name:abcd0001", "Train", "TRAIN", "train ", "celery-", "celery-ta"])
def test_names_are_exact_and_external_ids_are_not_cut_anywhere(varied: Jobs, word: str) -> None:
    with pytest.raises(UnknownJob):
        varied.find(word)


@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_any_name_finds_its_job(jobs: Jobs, text: str) -> None:
    job = jobs.insert(made_job(name=text))
    jobs.insert(made_job())
    assert jobs.find(text).id == jobs.find(f"name:{text}").id == job.id


def test_a_name_that_is_the_id_prefix_of_another_job_is_ambiguous_until_the_kind_is_written(jobs: Jobs) -> None:
    named = jobs.insert(began(1, id=JobId("12345678-0000-4000-8000-000000000000"), name="abcd"))
    other = jobs.insert(began(2, name="x"))
    with pytest.raises(AmbiguousJob, match=r"12345678.*abcd0002.*id:abcd.*name:abcd"):
        jobs.find("abcd")
    assert jobs.find("name:abcd").id == named.id
    assert jobs.find("id:abcd").id == other.id


def test_a_name_that_is_a_prefix_of_its_own_id_is_not_ambiguous(jobs: Jobs) -> None:
    job = jobs.insert(began(1, name="abcd"))
    assert jobs.find("abcd").id == job.id


def test_an_id_precedes_an_external_id_and_that_a_name(jobs: Jobs) -> None:
    first = jobs.insert(began(1, name="a"))
    second = jobs.insert(began(2, external_id=str(IDS[1]), name="b"))
    third = jobs.insert(began(3, external_id="b", name="last"))
    assert jobs.find(IDS[1]).id == first.id
    assert jobs.find("b").id == third.id
    assert jobs.find("name:b").id == second.id


def test_the_last_attempt_has_the_external_id_of_a_retried_job(jobs: Jobs) -> None:
    jobs.insert(began(1, external_id="task", queue=Queued(retried_by=str(IDS[2]))))
    jobs.insert(began(2, external_id="task"))
    assert jobs.find("task").id == IDS[2]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("trian", "train"),
        ("evl", "eval"),
        ("rain", "train"),
        ("last:faild", 'did you mean "failed"'),
        ("status:failed", "is a filter"),
        ("stauts:failed", "did you mean status"),
        ("last:queued", "queued"),
        ("ab", "4 or more characters"),
    ],
)
def test_an_unknown_word_is_answered_with_what_may_be_meant(varied: Jobs, word: str, said: str) -> None:
    with pytest.raises(UnknownJob, match=said) as caught:
        varied.find(word)
    assert word.removeprefix("last:") in str(caught.value)


def test_the_forms_hold_across_stores(tmp_path: Path) -> None:
    with (
        closing(open_to_write(StatePaths(tmp_path, "alpha"))) as alpha,
        closing(open_to_write(StatePaths(tmp_path, "beta"))) as beta,
    ):
        stores = Jobs(alpha), Jobs(beta)
        stores[0].insert(began(1, name="train", host="alpha"))
        stores[0].insert(began(4, name="eval", host="alpha", status=Status.FAILED))
        stores[1].insert(began(2, name="train", host="beta"))
        stores[1].insert(began(4, name="eval", host="alpha", status=Status.FAILED))
        stores[1].insert(began(3, name="old", host="beta"))
        fleet = Fleet({tmp_path / "a": lambda: stores[0], tmp_path / "b": lambda: stores[1]}, pytest.fail)
        words = {"last": 4, "last:success": 3, "@2": 3, "@3": 2, "@4": 1, "train": 2, "#3": 3, "name:eval": 4}
        assert {word: fleet.find(word)[1].id for word in words} == {word: IDS[place] for word, place in words.items()}
        with pytest.raises(AmbiguousJob, match=r"on beta.*on alpha|on alpha.*on beta"):
            fleet.find("#1")
        with pytest.raises(UnknownJob, match=r"old"):
            fleet.find("olds")
        with pytest.raises(UnknownJob, match=r"4 jobs in 2 stores"):
            fleet.find("@5")


def test_a_shell_completes_names_and_ids(varied: Jobs) -> None:
    assert [word for word, _ in completions(varied, "tr")] == ["train"]
    assert {word for word, _ in completions(varied, "abcd0")} == {job_id[:8] for job_id in IDS[1:6]}
    assert last_words("la") == ["last"]
    assert "last:failed" in last_words("last:")


def test_verbs_take_names(home: Path) -> None:
    kept_jobs(home, made_job(name="train", id=IDS[1]), running_job(name="serve"))
    assert IDS[1] in call("show", "train").stdout
    assert call("show", "last:success", "--json").stdout == call("show", "#1", "--json").stdout
    code, out, err = call("show", "trian")
    assert (code, out) == (2, "")
    assert_one_line(err, '"trian" is not a job', "train")


def test_a_verb_that_changes_jobs_means_the_same_job_as_one_that_reads(home: Path, tmp_path: Path) -> None:
    kept_jobs(home, began(1, name="train"))
    with closing(open_to_write(StatePaths(tmp_path / "other", "beta"))) as database:
        Jobs(database).insert(began(2, name="train", host="beta"))
        path = str(database.path)
    both = ("--store", str(home), "--store", path)
    assert IDS[2] in call("show", "train", *both).stdout
    code, _, err = call("pin", "train", *both)
    assert code == 2
    assert_one_line(err, "beta")
    assert call("pin", "train").returncode == 0
