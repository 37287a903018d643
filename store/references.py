"""Looks up the job that a word means: an id, an external id, `last`, `last:failed`, `@2`, `#15` or a name.

The order is the same for one store and for several; every verb, `--after` and the console use it.
"""

from __future__ import annotations

from jobtop.core.errors import AmbiguousJob, UnknownJob, did_you_mean, nearest_name
from jobtop.core.job_id import is_job_id
from jobtop.core.model import Status
from jobtop.core.units import number_of, printable
from jobtop.store.jobs import BEGIN_TIME, SHORTEST_ID_PREFIX, Query, stored_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jobtop.core.model import Job
    from jobtop.store.jobs import Jobs

    Found = tuple[Jobs, Job]  # a job with its store
    Reader = Callable[[Jobs], list[Job]]
    Ask = Callable[[Reader], list[Found]]  # asks every store

EXTERNAL_ID_SHOWN = 8  # characters of an external id that are enough
HIGHEST_PLACE = 999  # of `@2`
MOST_NAMED = 8
MOST_NAMES = 5
NEAREST_OF_JOBS = 1000  # the newest; an unknown word is compared with their names
MOST_COMPLETIONS = 30
FORMS = "a name, 4 or more characters of an id, last, last:failed, @2 or '#15'"
FORMS_HELP = """\b
Jobs: a job is named by one of these.
  train                    its name; the newest job with that name
  last  last:failed        the newest job; the newest one with a status
  @2                       the second newest job
  '#15'                    its number; needs quotes in a shell
  3f8a                     the first 4 or more characters of its id
  id:3f8a  name:train      only an id, only a name
"""


def look_up(word: str, ask: Ask, names: Callable[[], Iterable[str]], where: str) -> Found:
    """The job that a word means; AmbiguousJob and UnknownJob list candidates."""
    for found in _searches(word, ask):
        if len(found) > 1:
            raise _ambiguous_job(word, [job for _, job in found])
        if found:
            return found[0]
    raise _no_such_place(word, ask, where) or _unknown_job(word, names, where)


def recent_names(jobs: Jobs) -> list[str]:
    """The names of the newest jobs of a store, each once."""
    with jobs.database.reading() as connection:
        rows = connection.execute("SELECT name FROM jobs ORDER BY seq DESC LIMIT ?", (NEAREST_OF_JOBS,)).fetchall()
    return list(dict.fromkeys(row["name"] for row in rows if row["name"] and type(row["name"]) is str))


def completions(jobs: Jobs, begin: str) -> list[tuple[str, str]]:
    """Words for shell completion that begin so, each with a description: names, then ids, the newest first."""
    names = [(name, "its newest job") for name in recent_names(jobs) if name.startswith(begin)][:MOST_COMPLETIONS]
    return names + [(job_id[:8], name) for job_id, name in jobs.ids_with_prefix(begin)]


def last_words(begin: str) -> list[str]:
    """The words `last` and `last:STATUS` that begin so; the statuses only behind the colon."""
    words = ("last", *(f"last:{status}" for status in Status)) if begin.startswith("last") else ("last",)
    return [word for word in words if word.startswith(begin)]


def _searches(word: str, ask: Ask) -> Iterator[list[Found]]:
    """The jobs that a word may mean, one way of looking after the other; the first that finds any decides."""
    kind, colon, value = word.partition(":")
    if colon and kind == "name":
        yield _newest(ask(_with_name(value)))
    elif colon and kind == "id":
        yield from _by_any_id(value, ask)
        yield _with_prefix(value, ask)
    else:
        yield from _by_any_id(word, ask)
        yield from _by_place(word, ask)
        if not is_job_id(word.lower()):
            named = _newest(ask(_with_name(word)))
            others = {job.id: (store, job) for store, job in [*named, *_with_prefix(word, ask)]}
            yield list(others.values())


def _by_any_id(word: str, ask: Ask) -> Iterator[list[Found]]:
    """The job with this id, or with this external id: the last attempt of a retried one."""
    if is_job_id(word.lower()):
        yield ask(_where("id = ?", word.lower()))
    yield _last_attempts(ask(_where("external_id = CAST(? AS TEXT)", stored_text(word))))
    if len(word) == EXTERNAL_ID_SHOWN and isinstance(stored_text(word), str):
        begins = "external_id > ? AND external_id < ? AND substr(external_id, 1, length(?)) = ?"
        yield _last_attempts(ask(_where(begins, word, f"{word}\U0010ffff", word, word)))


def _by_place(word: str, ask: Ask) -> Iterator[list[Found]]:
    """The job of `last`, `last:failed`, `@2` or `#15`."""
    kind, colon, value = word.partition(":")
    if kind == "last":
        yield _newest(ask(_newest_reader(1, _status(value) if colon else None)))
    elif (place := _number(word, "@")) and place <= HIGHEST_PLACE:
        yield _newest(ask(_newest_reader(place)), place)
    elif seq := _number(word, "#"):
        yield ask(_where("seq = ?", seq))


def _where(condition: str, *values: str | bytes | int) -> Reader:
    return lambda jobs: jobs.read_where(condition, values)


def _with_prefix(word: str, ask: Ask) -> list[Found]:
    if len(word) < SHORTEST_ID_PREFIX or not word.isascii():
        return []
    return ask(_where("id >= ? AND id < ?", word.lower(), word.lower() + "g"))


def _with_name(name: str) -> Reader:
    # With a plus SQLite reads an index that has all these columns, and not the table.
    newest = f"SELECT seq FROM jobs WHERE +name = CAST(? AS TEXT) ORDER BY +{BEGIN_TIME} DESC, seq DESC LIMIT 1"
    return _where(f"seq IN ({newest})", stored_text(name))


def _newest_reader(places: int, status: str | None = None) -> Reader:
    query = Query(statuses=() if status is None else (status,), sort="begun", limit=places)
    return lambda jobs: jobs.select(query)


def _newest(found: list[Found], place: int = 1) -> list[Found]:
    """The job at a place in the order of `jobtop history`: the one that began last is the first."""
    ordered = sorted(found, key=lambda item: _begun(item[1]), reverse=True)
    return ordered[place - 1 : place]


def _begun(job: Job) -> float:
    begun = job.submitted_at if job.start_time is None else job.start_time
    return float("-inf") if begun is None else begun


def _last_attempts(found: list[Found]) -> list[Found]:
    """Without attempts that were retried, which have the same external id."""
    return [(store, job) for store, job in found if job.queue is None or job.queue.retried_by is None] or found


def _number(word: str, mark: str) -> int:
    """The number behind a mark; 0 if the word has another form."""
    digits = word.removeprefix(mark)
    return int(digits) if digits != word and digits.isascii() and digits.isdecimal() and len(digits) <= 18 else 0


def _status(word: str) -> str:
    if word not in set(Status):
        hint = did_you_mean(word, map(str, Status)) or f" (use {', '.join(map(str, Status))})"
        raise UnknownJob(f'last:{printable(word)}: "{printable(word)}" is not a status{hint}')
    return word


def _ambiguous_job(word: str, jobs: list[Job]) -> AmbiguousJob:
    several_hosts = len({job.host for job in jobs}) > 1
    candidates = ", ".join(
        f"{job.id[:13]} ({printable(job.name)})" + (f" on {printable(job.host)}" if several_hosts else "")
        for job in jobs[:MOST_NAMED]
    )
    more = ", …" if len(jobs) > MOST_NAMED else ""
    shown = printable(word)
    is_name = any(job.name == word for job in jobs)
    remedy = f" (write id:{shown} or name:{shown})" if is_name else ""
    return AmbiguousJob(f'"{shown}" fits several jobs: {candidates}{more}{remedy}')


def _no_such_place(word: str, ask: Ask, where: str) -> UnknownJob | None:
    """The error for `@99` with fewer jobs, or `#99` without such a number; None for another form."""
    if (place := _number(word, "@")) > HIGHEST_PLACE:
        return UnknownJob(f'"{word}" is not a job: only @1 to @{HIGHEST_PLACE} are (jobtop history lists jobs)')
    if place:
        number = number_of(len(ask(_newest_reader(place))), "job")
        place_text = f"only {number} in {where.removeprefix('any of ')}"
        return UnknownJob(f'"{word}" is not a job: {place_text} (jobtop history lists jobs)')
    if seq := _number(word, "#"):
        remedy = "jobtop history --columns seq,name lists numbers"
        return UnknownJob(f'"{word}" is not a job: no job in {where} has the number {seq} ({remedy})')
    return None


def _unknown_job(word: str, names: Callable[[], Iterable[str]], where: str) -> UnknownJob:
    shown = printable(word)
    wanted = word.removeprefix("name:").removeprefix("id:")
    if wanted == word and (problem := _filter_problem(word)) is not None:
        return UnknownJob(problem)
    if word.startswith("last:"):
        return UnknownJob(f"No job in {where} has the status {shown.removeprefix('last:')}")
    near = _nearest_names(wanted, names())
    if near:
        return UnknownJob(f'"{shown}" is not a job in {where}. Nearest names: {", ".join(map(printable, near))}')
    if len(wanted) < SHORTEST_ID_PREFIX:
        return UnknownJob(f'"{shown}" is not a job: give {FORMS} (jobtop history lists jobs)')
    return UnknownJob(f'"{shown}" is not a job in {where} (jobtop history lists jobs)')


def _filter_problem(word: str) -> str | None:
    """What is wrong with a word that looks like a filter; None if it does not."""
    from jobtop.core.query.keys import KEYS, find_key

    key, colon, _ = word.partition(":")
    if not colon or key == "last":
        return None
    if find_key(key) is not None:
        return f'"{printable(word)}" is a filter, and one job is needed: {FORMS} (jobtop history lists jobs)'
    nearest = nearest_name(key, KEYS)
    return f'"{printable(word)}" is not a job; if a filter is meant: did you mean {nearest}:?' if nearest else None


def _nearest_names(word: str, names: Iterable[str]) -> list[str]:
    """The names that contain a word, or else the name that is most similar."""
    names = list(dict.fromkeys(names))
    folded = word.casefold()
    containing = [name for name in names if folded and folded in name.casefold()]
    nearest = nearest_name(word, names)
    near = dict.fromkeys([*([] if nearest is None else [nearest]), *containing])
    return list(near)[:MOST_NAMES]
