"""`report.html`: one page about a job or a set of jobs that reads well on a screen, on a phone and on paper.

Its charts are drawn without a script, so that it is small enough for a mail; it links to the pages of Plotly beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobtop import __version__
from jobtop.core.clock import local
from jobtop.core.report.content import JobContent, shortened
from jobtop.core.report.job_report import job_sections
from jobtop.core.report.page import document, shown
from jobtop.core.report.set_report import set_sections
from jobtop.core.units import number_of


def report_html(
    title: str | None, contents: Sequence[JobContent], files: Mapping[str, str], others: Sequence[str], now: float
) -> str:
    """The report; `files` has the page of each job by its id, `others` are the pages about all of them."""
    is_single = len(contents) == 1
    if is_single:
        title = shortened(contents[0].job.name, 120)
    title = title or number_of(len(contents), "job")
    body = job_sections(contents[0]) if is_single else set_sections(contents, files)
    pages = [*(files.values() if is_single else ()), *others]
    links = ", ".join(f'<a href="{shown(page)}">{shown(page)}</a>' for page in pages)
    more = f"<p>Charts to zoom into: {links}</p>\n" if links else ""
    footer = f"<footer>{more}<p>Written by jobtop {shown(__version__)}, {shown(local(now))}.</p></footer>\n"
    return document(title, f"<h1>{shown(title)}</h1>\n{body}{footer}")
