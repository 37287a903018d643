"""Made-up machines: one to load configuration on, and the files of one that the doctor examines."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from jobtop.core.alerts.model import BUILT_IN, Rule
from jobtop.core.alerts.rule_set import RuleSet, load_rule_set, rule_notices
from jobtop.core.config import Config, load
from jobtop.core.config_files import ProjectChanges, trust_project
from jobtop.core.doctor.checks import Finding, MachineFiles
from jobtop.core.errors import ConfigError, ExitCode

HOOK = """
[[alert]]
name = "busy"
metric = "cpu.percent"
above = 90
actions = ["webhook:https://example.org"]
"""


@dataclass
class Machine:
    """A made-up machine: a root with `etc`, a home and a project directory."""

    root: Path
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.project.mkdir()
        self.environ["HOME"] = str(self.root / "home")

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def state(self) -> Path:
        return self.root / "home/.local/state/jobtop"

    @property
    def project_file(self) -> Path:
        return self.project / "jobtop.toml"

    @property
    def user_file(self) -> Path:
        return self.root / "home/.config/jobtop/config.toml"

    @property
    def system_file(self) -> Path:
        return self.root / "etc/jobtop/config.toml"

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def load(self, *cli_sets: str) -> Config:
        return load(cli_sets, self.environ, self.project, self.root)

    def rules(self) -> RuleSet:
        """All alert rules, those of jobtop too."""
        return load_rule_set(self.load())

    def own_rules(self) -> list[Rule]:
        """The alert rules of files."""
        return [rule for rule in self.rules().rules if rule.origin != BUILT_IN]

    def all_notices(self) -> tuple[str, ...]:
        """The notices of the files, and that about wrong rules."""
        loaded = self.load()
        return (*loaded.notices, *rule_notices(loaded))

    def problem(self, *cli_sets: str) -> str:
        with pytest.raises(ConfigError) as caught:
            self.load(*cli_sets)
        assert caught.value.exit_code is ExitCode.USAGE
        assert str(caught.value).isprintable()
        return str(caught.value)

    def trust(self) -> ProjectChanges:
        return trust_project(self.project_file, self.environ, str(self.root))


def put(machine: MachineFiles, path: str, text: str = "") -> None:
    """Write a file of a machine."""
    file = Path(machine.path(path))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def states(findings: list[Finding]) -> dict[str, str]:
    """The state of each finding, by its name."""
    return {finding.name: str(finding.state) for finding in findings}
