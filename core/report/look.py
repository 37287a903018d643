"""The look of pages and figures: the console's palette, darkened where a light background needs it."""

INK, SECONDARY, GREY, GRID = "#1c2330", "#5b6472", "#9aa3b0", "#e6e9ee"
LIMIT = "#5b6472"
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"
# Okabe–Ito: blue, orange, green, purple, vermilion, sky blue, and a grey; yellow is too light for lines on white.
SERIES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#7D8796")
DASHES = ("solid", "dot", "dashdot")  # "dash" is for limits
MARK_COLORS = {"bad": "#D55E00", "warning": "#E69F00", "good": "#009E73", "plain": "#7D8796"}
MARK_SYMBOLS = {"bad": "x", "warning": "triangle-up", "good": "circle", "plain": "diamond"}


def series_style(number: int) -> tuple[str, str]:
    """The colour and the dash of the nth series; colours repeat with another dash."""
    return SERIES[number % len(SERIES)], DASHES[number // len(SERIES) % len(DASHES)]


CSS = f"""
:root {{ color-scheme: light; }}
* {{ box-sizing: border-box; }}
body {{ margin: 0 auto; max-width: 1180px; padding: 20px 24px 48px; background: #fff; color: {INK};
  font: 15px/1.5 {FONT}; }}
h1 {{ font-size: 24px; line-height: 1.25; margin: 0 0 2px; overflow-wrap: anywhere; }}
h2 {{ font-size: 17px; margin: 30px 0 8px; padding-top: 4px; break-after: avoid; }}
h3 {{ font-size: 15px; margin: 20px 0 4px; break-after: avoid; overflow-wrap: anywhere; }}
p {{ margin: 4px 0; max-width: 80ch; overflow-wrap: anywhere; }}
.about {{ color: {SECONDARY}; margin-bottom: 12px; }}
.hint {{ color: {SECONDARY}; font-size: 13px; }}
.figure {{ width: 100%; margin: 6px 0 18px; }}
.grid {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); gap: 0 24px; }}
.tools button {{ font: inherit; font-size: 13px; color: {INK}; background: #f4f6f9; border: 1px solid {GRID};
  border-radius: 6px; padding: 4px 10px; margin: 0 6px 6px 0; cursor: pointer; }}
.tools button[aria-pressed=true] {{ background: #0072B2; border-color: #0072B2; color: #fff; }}
.good {{ color: #00714f; }} .bad {{ color: #b34700; }} .warning {{ color: #8a5a00; }} .plain {{ color: {SECONDARY}; }}
.cards {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 10px; margin: 14px 0; }}
.card {{ border: 1px solid {GRID}; border-radius: 8px; padding: 9px 12px; break-inside: avoid; }}
.card b {{ display: block; font-size: 19px; font-weight: 650; line-height: 1.3; overflow-wrap: anywhere; }}
.card span {{ color: {SECONDARY}; font-size: 13px; }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; font-size: 14px; }}
th, td {{ text-align: left; padding: 5px 14px 5px 0; border-bottom: 1px solid {GRID}; vertical-align: top; }}
th {{ color: {SECONDARY}; font-weight: 600; font-size: 13px; }}
td {{ overflow-wrap: anywhere; }} td.number, th.number {{ text-align: right; white-space: nowrap; }}
td:first-child {{ min-width: 7em; }} td.word {{ white-space: nowrap; }}
table.facts th {{ width: 9.5em; white-space: nowrap; }}
tr {{ break-inside: avoid; }}
pre {{ background: #f7f8fa; border: 1px solid {GRID}; border-radius: 8px; padding: 10px 12px; font-size: 12.5px;
  overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; }}
code {{ font-size: 0.93em; overflow-wrap: anywhere; }}
ul {{ margin: 6px 0; padding-left: 20px; }} li {{ margin: 3px 0; overflow-wrap: anywhere; max-width: 85ch; }}
svg.chart {{ display: block; width: 100%; height: auto; margin: 8px 0; break-inside: avoid; }}
svg.narrow {{ display: none; }}
.legend span {{ display: inline-block; margin: 0 16px 2px 0; font-size: 13px; overflow-wrap: anywhere; }}
.legend i {{ display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 6px;
  print-color-adjust: exact; }}
a {{ color: #0072B2; }}
footer {{ margin-top: 36px; color: {SECONDARY}; font-size: 13px; }}
@media (max-width: 640px) {{
  body {{ padding: 14px 14px 32px; }} h1 {{ font-size: 20px; }}
  svg.wide {{ display: none; }} svg.narrow {{ display: block; }}
  .cards {{ grid-template-columns: repeat(2, 1fr); }}
  table.facts th {{ width: 7em; white-space: normal; }}
}}
@media print {{
  body {{ max-width: none; padding: 0; font-size: 11pt; }} .tools, .hint {{ display: none; }}
  svg.wide {{ display: block; }} svg.narrow {{ display: none; }}
  pre {{ white-space: pre-wrap; }} a {{ color: inherit; text-decoration: none; }}
  .modebar-container {{ display: none; }}
}}
"""
