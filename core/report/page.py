"""An HTML page with figures of Plotly: everything inside one file, or the library in a file beside it. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape

from jobtop.core.record import as_dict, record
from jobtop.core.report.figures import Figure
from jobtop.core.report.look import CSS
from jobtop.core.units import printable

SHARED_SCRIPT = "plotly.min.js"
# In a script, HTML knows `</script` and `<!--`; JavaScript once ended lines at U+2028, which JSON in ASCII has escaped.
UNSAFE_IN_SCRIPTS = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
# Whatever a text on a page says, the page loads nothing but the library beside it.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'self' file:; style-src 'unsafe-inline'; img-src data: blob:;"
    " base-uri 'none'; form-action 'none'"
)
HINT = (
    "Drag to zoom, double-click to zoom out; click a name in the legend to hide it. The buttons at the top right of a"
    " chart pan, zoom, and save it as PNG or SVG."
)

SCRIPT = """
const page = JSON.parse(document.getElementById('figures').textContent);
const isTouch = matchMedia('(pointer: coarse)').matches, isNarrow = innerWidth < 640;
const icon = {width: 24, height: 24, path: 'M5 20h14v-2H5v2zM19 9h-4V3H9v6H5l7 7 7-7z'};
const nodes = page.figures.map((figure, number) => {
  const node = document.getElementById('figure' + number), layout = figure.layout;
  layout.height = figure.height;
  if (isTouch) layout.dragmode = false;
  if (isNarrow) {
    layout.margin.l = 44; layout.margin.r = 8; layout.font.size = 11;
    if (figure.data.length > 12) layout.showlegend = false;
  }
  const image = (format, scale) => ({format, scale, filename: page.name, width: 1200, height: figure.height});
  Plotly.newPlot(node, figure.data, layout, {
    responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: '',
    toImageButtonOptions: image('png', 2),
    modeBarButtonsToRemove: ['select2d', 'lasso2d'],
    modeBarButtonsToAdd: [{name: 'Download plot as an SVG', title: 'Download plot as an SVG', icon,
      click: graph => Plotly.downloadImage(graph, image('svg', 1))}],
  });
  return node;
});
function useClock(isWall) {
  page.figures.forEach((figure, number) => {
    if (!figure.starts) return;
    const shifted = page.times[number].map((times, index) => times.map(x => x + (isWall ? figure.starts[index] : 0)));
    const lines = figure.layout.shapes || [], start = isWall ? figure.starts[0] : 0;
    Plotly.update(nodes[number], {x: shifted}, {
      'xaxis.autorange': true, 'xaxis.tickformatstops': isWall ? [] : page.forms[number],
      'xaxis.hoverformat': isWall ? '%Y-%m-%d %H:%M:%S' : page.hoverforms[number],
      shapes: lines.map((line, index) => ({...line, x0: page.lines[number][index] + start,
        x1: page.lines[number][index] + start})),
    });
  });
  for (const button of document.querySelectorAll('[data-clock]'))
    button.setAttribute('aria-pressed', String((button.dataset.clock === 'wall') === isWall));
}
page.times = page.figures.map(figure => figure.data.map(trace => trace.x));  // Plotly.update changes the figures
page.forms = page.figures.map(figure => (figure.layout.xaxis || {}).tickformatstops);
page.hoverforms = page.figures.map(figure => (figure.layout.xaxis || {}).hoverformat);
page.lines = page.figures.map(figure => (figure.layout.shapes || []).map(line => line.x0));
for (const button of document.querySelectorAll('[data-clock]'))
  button.addEventListener('click', () => useClock(button.dataset.clock === 'wall'));
addEventListener('beforeprint', () => nodes.forEach(node => Plotly.relayout(node, {width: 680})));
addEventListener('afterprint', () => nodes.forEach(node => Plotly.relayout(node, {autosize: true, width: null})));
"""


@record
class Page:
    """A page of figures: its title, one line about it, the name of saved pictures, and what each figure shows."""

    title: str
    about: str
    name: str
    figures: Sequence[tuple[str, Figure]]
    is_grid: bool = False


def page_html(page: Page, library: str | None) -> str:
    """The page; with a library, that is inside, else it is loaded from the file beside the page."""
    figures = [as_dict(figure) for _, figure in page.figures]
    data = script_json({"name": page.name, "figures": figures})
    has_clock = any(figure.starts for _, figure in page.figures)
    parts = "".join(
        f'<div class="figure" id="figure{number}" role="img" aria-label="{shown(about)}"></div>\n'
        for number, (about, _) in enumerate(page.figures)
    )
    if page.is_grid:
        parts = "".join(
            f'<section><h2>{shown(about)}</h2>\n<div class="figure" id="figure{number}" role="img"'
            f' aria-label="{shown(about)}"></div></section>\n'
            for number, (about, _) in enumerate(page.figures)
        )
        parts = f'<div class="grid">\n{parts}</div>\n'
    source = f'<script src="{SHARED_SCRIPT}"></script>' if library is None else f"<script>{library}</script>"
    body = (
        f"<h1>{shown(page.title)}</h1>\n<p class='about'>{shown(page.about)}</p>\n"
        f"{CLOCK if has_clock else ''}{parts}<p class='hint'>{HINT}</p>\n"
        f'<script type="application/json" id="figures">{data}</script>\n{source}\n<script>{SCRIPT}</script>\n'
    )
    return document(page.title, body)


CLOCK = """<div class="tools" role="group" aria-label="Time axis">
<button data-clock="start" aria-pressed="true">time since the start</button
><button data-clock="wall" aria-pressed="false">time of day</button>
</div>
"""


def document(title: str, body: str) -> str:
    """A complete HTML document; it loads nothing from the network."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n<link rel="icon" href="data:,">\n'
        f"<title>{shown(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )


def shown(text: str) -> str:
    """A text from outside as one harmless line of HTML."""
    return escape(printable(text))


def script_json(value: object) -> str:
    """JSON that can stand inside a script element: no text in it can end the script."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).translate(UNSAFE_IN_SCRIPTS)
