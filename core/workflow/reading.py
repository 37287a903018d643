"""Turns the document of a workflow file into a workflow, or into the list of all its mistakes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jobtop.core.errors import BadValue, ConfigError, did_you_mean
from jobtop.core.model import RetryRule
from jobtop.core.patterns import compile_pattern
from jobtop.core.record import record, replace
from jobtop.core.units import printable
from jobtop.core.workflow import fields
from jobtop.core.workflow.checking import Checker
from jobtop.core.workflow.document import Document, read_document
from jobtop.core.workflow.expansion import Expanded, expand
from jobtop.core.workflow.model import (
    Action,
    MonitorSettings,
    Place,
    Problem,
    Requirements,
    UserData,
    Workflow,
    WorkflowFile,
    WorkflowJob,
)
from jobtop.core.workflow.ordering import ordered
from jobtop.core.workflow.references import references_in

MOST_JOBS = 100_000
DEFAULT_RUNTIME_SECONDS = 3600.0
LONGEST_CIRCLE = 8
NEEDED = {"num_cpus": "cpus", "memory": "memory_bytes", "num_gpus": "gpus", "num_nodes": "nodes"}


@record
class Loaded:
    """A file that was read: the workflow, or what is wrong with it."""

    path: str
    workflow: Workflow | None = None
    problems: tuple[Problem, ...] = ()

    def sentences(self) -> list[str]:
        return [problem.sentence(printable(self.path)) for problem in self.problems]


def load(path: str, directory: str | None = None) -> Loaded:
    """Read and check a file. With a directory, files that are read and that no job writes have to be there."""
    try:
        document = read_document(path)
    except ConfigError as error:
        text = str(error).removeprefix(f"{printable(path)}:").strip()
        line, _, rest = text.partition(":")
        if line.isdigit():
            return Loaded(path, None, (Problem(rest.strip(), line=int(line)),))
        return Loaded(path, None, (Problem(text),))
    return check(document, directory)


def check(document: Document, directory: str | None = None) -> Loaded:
    reader = Reader(Checker(document))
    workflow = reader.read()
    if workflow is not None and directory is not None:
        blame_missing_files(reader.checker, workflow, directory)
    problems = tuple(sorted(reader.checker.problems, key=lambda problem: problem.line or 0))
    return Loaded(document.path, None if problems else workflow, problems)


class Reader:
    """Reads one document; what is wrong goes to the checker, and the rest is still read."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.shared: dict[str, Any] = {}
        self.requirements: dict[str, Requirements] = {}
        self.handlers: dict[str, tuple[RetryRule, ...]] = {}
        self.files: dict[str, WorkflowFile] = {}
        self.data: dict[str, UserData] = {}

    def read(self) -> Workflow | None:
        document = self.checker.document
        top = self.checker.table(document.value, (), fields.WORKFLOW, ("name", "jobs"))
        if top is None:
            return None
        self._warn(top)
        self.shared = top.get("parameters", {})
        self._read_requirements(top.get("resource_requirements", ()))
        self._read_handlers(top.get("failure_handlers", ()))
        self.checker.entries(top.get("slurm_schedulers", ()), ("slurm_schedulers",), fields.SCHEDULER, ())
        self._read_files(top.get("files", ()))
        self._read_data(top.get("user_data", ()))
        jobs = self._read_jobs(top.get("jobs", ()))
        return Workflow(
            name=top.get("name", ""),
            jobs=jobs,
            files=self.files,
            user_data=self.data,
            actions=self._actions(top.get("actions", ()), jobs),
            monitor=self._monitor(top.get("resource_monitor")),
            sort_method=top.get("jobs_sort_method", "none"),
            description=top.get("description"),
            project=top.get("project"),
            user=top.get("user"),
            warnings=tuple(self.checker.warnings),
        )

    def _warn(self, top: Mapping[str, Any]) -> None:
        unused = [key for key in (*fields.SERVER_ONLY, "slurm_schedulers") if key in top]
        if unused:
            self.checker.warnings.append(f"without effect here: {', '.join(unused)}")

    def _read_requirements(self, values: Iterable[Any]) -> None:
        place: Place = ("resource_requirements",)
        for here, entry in self.checker.entries(values, place, fields.REQUIREMENTS, ("name",)):
            if entry["name"] in self.requirements:
                self.checker.blame(here, f'there are other requirements "{printable(entry["name"])}"')
            self.requirements[entry["name"]] = requirements_of(entry, DEFAULT_RUNTIME_SECONDS)

    def _read_handlers(self, values: Iterable[Any]) -> None:
        for here, entry in self.checker.entries(values, ("failure_handlers",), fields.HANDLER, ("name", "rules")):
            rules = []
            for place, rule in self.checker.entries(entry["rules"], (*here, "rules"), fields.RULE, ()):
                said = self.checker.value_at(place)
                if "exit_codes" not in said and not rule.get("match_all_exit_codes"):
                    self.checker.blame(place, "needs exit_codes, or match_all_exit_codes: true")
                codes = () if rule.get("match_all_exit_codes") else rule.get("exit_codes", ())
                rules.append(RetryRule(codes, rule.get("recovery_script"), rule.get("max_retries", 3)))
            if entry["name"] in self.handlers:
                self.checker.blame(here, f'there is another failure handler "{printable(entry["name"])}"')
            self.handlers[entry["name"]] = tuple(rules)

    def _read_files(self, values: Iterable[Any]) -> None:
        entries = self.checker.entries(values, ("files",), fields.FILE, ("name", "path"))
        for name, each in expand(entries, self.shared, self.checker, "file").items():
            try:
                self.files[name] = WorkflowFile(name, each.text("path"))
            except BadValue as error:
                self.checker.blame((*each.place, "path"), str(error))

    def _read_data(self, values: Iterable[Any]) -> None:
        entries = self.checker.entries(values, ("user_data",), fields.USER_DATA, ("name",))
        for name, each in expand(entries, self.shared, self.checker, "user data").items():
            self.data[name] = UserData(name, each.entry.get("data"), each.entry.get("is_ephemeral", False))

    def _read_jobs(self, values: Iterable[Any]) -> dict[str, WorkflowJob]:
        entries = self.checker.entries(values, ("jobs",), fields.JOB, ("name", "command"))
        expanded = expand(entries, self.shared, self.checker, "job")
        if len(expanded) > MOST_JOBS:
            self.checker.blame(("jobs",), f"{len(expanded):,} jobs are too many; {MOST_JOBS:,} are the most")
            return {}
        jobs: dict[str, WorkflowJob] = {}
        for name, each in expanded.items():
            try:
                jobs[name] = self._job(each)
            except BadValue as error:
                self.checker.blame((*each.place, "command"), str(error))
        if not jobs and not self.checker.problems:
            self.checker.blame(("jobs",), "there are no jobs")
        return self._ordered(self._connected(jobs, expanded))

    def _job(self, each: Expanded) -> WorkflowJob:
        entry, place = each.entry, each.place
        command = each.text("command")
        if entry.get("invocation_script"):
            command = f"{each.text('invocation_script')} {command}"
        said = references_in(command)
        return WorkflowJob(
            name=each.name,
            command=command,
            requirements=self._requirements(entry, place),
            failure_rules=self._handler(entry, place),
            cancel_on_failure=entry.get("cancel_on_blocking_job_failure", True),
            params=dict(each.combinations[0]) if len(each.combinations) == 1 else {},
            inputs=self._named(each, "input_file", self.files, said.inputs, "file"),
            outputs=self._named(each, "output_file", self.files, said.outputs, "file"),
            data_inputs=self._named(each, "input_user_data", self.data, said.data_inputs, "user data"),
            data_outputs=self._named(each, "output_user_data", self.data, said.data_outputs, "user data"),
            tags=entry.get("tags", {}),
            env=entry.get("env", {}),
            priority=entry.get("priority", 0),
            image=entry.get("image"),
            timeout_seconds=entry.get("timeout"),
            retries=entry.get("retries", 0),
            place=place,
            line=self.checker.document.line(place),
        )

    def _requirements(self, entry: Mapping[str, Any], place: Place) -> Requirements | None:
        said, here = entry.get("resource_requirements"), (*place, "resource_requirements")
        found: Requirements | None = None
        if isinstance(said, dict):
            table = self.checker.table(said, here, fields.ASKED)
            found = requirements_of(table or {}, None)
        elif isinstance(said, str):
            found = self.requirements.get(said)
            if found is None:
                hint = did_you_mean(said, self.requirements)
                self.checker.blame(here, f'there are no requirements "{printable(said)}"{hint}')
        elif said is not None:
            self.checker.blame(here, "has to be a name, or a table")
        own = {key: entry[key] for key in fields.ASKED if key in entry}
        if not own:
            return found
        inline = requirements_of(own, None)
        names = [*(NEEDED[key] for key in own if key in NEEDED), *(["runtime_seconds"] if "runtime" in own else [])]
        return replace(found or Requirements(""), **{name: getattr(inline, name) for name in names})

    def _handler(self, entry: Mapping[str, Any], place: Place) -> tuple[RetryRule, ...]:
        name = entry.get("failure_handler")
        if name is not None and name not in self.handlers:
            hint = did_you_mean(name, self.handlers)
            text = f'there is no failure handler "{printable(name)}"{hint}'
            self.checker.blame((*place, "failure_handler"), text)
        return self.handlers.get(name or "", ())

    def _named(
        self, each: Expanded, key: str, known: Mapping[str, Any], said: Iterable[str], what: str
    ) -> tuple[str, ...]:
        """The files or the user data that a job reads or writes: by name, by pattern, and in its command."""
        names_key = f"{key}s" if key.endswith("file") else key
        found = dict.fromkeys(each.words(names_key))
        for name in (*found, *said):
            if name not in known:
                place = names_key if name in found else "command"
                hint = did_you_mean(name, known)
                self.checker.blame((*each.place, place), f'there is no {what} "{printable(name)}"{hint}')
        found |= dict.fromkeys(said)
        for pattern in each.words(f"{key}_regexes"):
            found |= dict.fromkeys(self._matching(pattern, known, (*each.place, f"{key}_regexes")))
        return tuple(name for name in found if name in known)

    def _matching(self, pattern: str, names: Iterable[str], place: Place) -> list[str]:
        try:
            program = compile_pattern(pattern)
        except BadValue as error:
            self.checker.blame(place, f'"{printable(pattern[:80])}" {error}')
            return []
        matching = [name for name in names if any(program.matches_at(name))]
        if not matching:
            self.checker.warnings.append(f'{self.checker.name_of(place)}: "{printable(pattern[:80])}" matches nothing')
        return matching

    def _connected(self, jobs: dict[str, WorkflowJob], expanded: Mapping[str, Expanded]) -> dict[str, WorkflowJob]:
        """The jobs with all that must succeed before each: by name, by pattern, and what writes what it reads."""
        writers: dict[tuple[str, str], list[str]] = {}
        for job in jobs.values():
            for written in (*(("file", name) for name in job.outputs), *(("data", name) for name in job.data_outputs)):
                writers.setdefault(written, []).append(job.name)
        patterns: dict[str, list[str]] = {}
        found = {}
        for name, job in jobs.items():
            needed = dict.fromkeys(self._before(expanded[name], jobs, expanded))
            for pattern in expanded[name].words("depends_on_regexes"):
                if pattern not in patterns:
                    patterns[pattern] = self._matching(pattern, jobs, (*job.place, "depends_on_regexes"))
                needed |= dict.fromkeys(patterns[pattern])
            for read in (*(("file", each) for each in job.inputs), *(("data", each) for each in job.data_inputs)):
                needed |= dict.fromkeys(writers.get(read, ()))
            needed.pop(name, None)
            found[name] = replace(job, after=tuple(needed))
        return found

    def _before(
        self, each: Expanded, jobs: Mapping[str, WorkflowJob], expanded: Mapping[str, Expanded]
    ) -> Iterator[str]:
        """The jobs that `depends_on` names."""
        place = (*each.place, "depends_on")
        for other in each.words("depends_on"):
            if other == each.name:
                self.checker.blame(place, "it depends on itself")
            elif other in jobs:
                yield other
            elif other not in expanded:
                hint = did_you_mean(other, jobs)
                self.checker.blame(place, f'there is no job "{printable(other)}"{hint}')

    def _ordered(self, jobs: dict[str, WorkflowJob]) -> dict[str, WorkflowJob]:
        order, circle = ordered({name: job.after for name, job in jobs.items()})
        if circle:
            shown = circle if len(circle) <= LONGEST_CIRCLE else [*circle[: LONGEST_CIRCLE - 1], "…", circle[-1]]
            words = " → ".join(map(printable, shown))
            self.checker.blame(jobs[circle[0]].place, f"it waits for itself: {words}")
            return jobs
        return {name: jobs[name] for name in order}

    def _actions(self, values: Iterable[Any], jobs: Mapping[str, WorkflowJob]) -> tuple[Action, ...]:
        found = []
        for here, entry in self.checker.entries(values, ("actions",), fields.ACTION, ("trigger_type", "action_type")):
            if entry["action_type"] == "schedule_nodes":
                self.checker.warnings.append("without effect here: an action of the type schedule_nodes")
                continue
            if not entry.get("commands"):
                self.checker.blame(here, 'the key "commands" is missing')
            named = dict.fromkeys(entry.get("jobs", ()))
            for name in named:
                if name not in jobs:
                    hint = did_you_mean(name, jobs)
                    self.checker.blame((*here, "jobs"), f'there is no job "{printable(name)}"{hint}')
            for pattern in entry.get("job_name_regexes", ()):
                named |= dict.fromkeys(self._matching(pattern, jobs, (*here, "job_name_regexes")))
            is_of_jobs = entry["trigger_type"].startswith("on_jobs")
            chosen = tuple(name for name in named if name in jobs) if is_of_jobs else ()
            if is_of_jobs and not entry.get("jobs") and not entry.get("job_name_regexes"):
                chosen = tuple(jobs)
            found.append(Action(entry["trigger_type"], tuple(entry.get("commands", ())), chosen, here))
        return tuple(found)

    def _monitor(self, value: Any) -> MonitorSettings:
        if value is None:
            return MonitorSettings()
        table = self.checker.table(value, ("resource_monitor",), fields.MONITOR) or {}
        return MonitorSettings(
            table.get("enabled", True),
            table.get("granularity", "summary"),
            table.get("sample_interval_seconds", 5.0),
            table.get("generate_plots", False),
        )


def requirements_of(entry: Mapping[str, Any], runtime_seconds: float | None) -> Requirements:
    known = {field: entry[key] for key, field in NEEDED.items() if key in entry}
    known["gpus"] = known.get("gpus") or None
    return Requirements(entry.get("name", ""), **known, runtime_seconds=entry.get("runtime", runtime_seconds))


def blame_missing_files(checker: Checker, workflow: Workflow, directory: str) -> None:
    """A file that a job reads and no job writes has to be there before the workflow starts."""
    written = {name for job in workflow.jobs.values() for name in job.outputs}
    told: set[str] = set()
    for job in workflow.jobs.values():
        for name in job.inputs:
            path = workflow.files[name].path
            if name in written or name in told or os.path.exists(os.path.join(directory, path)):
                continue
            told.add(name)
            checker.blame(
                job.place, f'the file "{printable(name)}" is not there, and no job writes it: {printable(path)}'
            )
