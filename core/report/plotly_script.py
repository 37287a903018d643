"""Plotly's own JavaScript, from the package plotly; no other module imports it."""

from jobtop.core.errors import UsageError

REMEDY = "charts as HTML need plotly: pip install 'jobtop[plots]'"


def plotly_script() -> str:
    """The whole library as text, about 5 MB; UsageError if the package is not installed."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise UsageError(REMEDY) from None
    return str(get_plotlyjs())
