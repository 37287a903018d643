"""What Tab makes of half a word in a real bash."""

import sys
from pathlib import Path

from records import kept_jobs, made_job
from support import Jobtop
from terminal import terminal


def test_bash_completes_the_key_of_a_filter_and_its_value_without_a_blank_between(jobtop: Jobtop) -> None:
    kept_jobs(jobtop.state, made_job())
    with terminal(jobtop) as shell:
        shell.enter(f"PATH={Path(sys.executable).parent}:$PATH; source <(jobtop completion bash); clear")
        shell.back_at_prompt()
        shell.type("jobtop history stat\t")
        shell.shows("jobtop history status:")
        shell.type("fa\t")
        shell.shows("jobtop history status:failed")


def test_bash_completes_names_of_jobs_and_filters_for_a_verb_that_acts(jobtop: Jobtop) -> None:
    kept_jobs(jobtop.state, made_job(name="resnet-sweep"))
    with terminal(jobtop) as shell:
        shell.enter(f"PATH={Path(sys.executable).parent}:$PATH; source <(jobtop completion bash); clear")
        shell.back_at_prompt()
        shell.type("jobtop show resn\t")
        shell.shows("jobtop show resnet-sweep")
        shell.press("C-u")
        shell.type("jobtop stop stat\t")
        shell.shows("jobtop stop status:")
        shell.type("ru\t")
        shell.shows("jobtop stop status:running")
