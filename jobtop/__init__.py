"""jobtop shows jobs and remembers them: the public names of the package, each imported when it is first used."""

__version__ = "0.1.0"

# A public name and the module it is in. `jobtop run` imports this file too, so it imports nothing.
_MODULES = {
    "BenchmarkRunner": "jobtop.benchmark",
    "ContainerResourceMonitor": "jobtop.resource_profiler",
    "JobMonitor": "jobtop.job_monitor",
    "ResourceMonitor": "jobtop.watching",
    "ResourceMonitorCallback": "jobtop.callback",
    "ResourceProfiler": "jobtop.resource_profiler",
    "TaskPipeline": "jobtop.task_pipeline",
    "get_monitor": "jobtop.job_monitor",
    "get_profiler": "jobtop.resource_profiler",
    "open_store": "jobtop.history",
    "run": "jobtop.running",
    "submit": "jobtop.running",
    "track": "jobtop.tracking",
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    # For type checkers and editors: a line `from jobtop.running import run as run` per name above.
    from jobtop.callback import ResourceMonitorCallback as ResourceMonitorCallback
    from jobtop.watching import ResourceMonitor as ResourceMonitor
else:  # a type checker that sees __getattr__ accepts every name
    __all__ = ("__version__", *_MODULES)  # noqa: PLE0604 - these are strings

    def __getattr__(name):
        """Import a public name when it is first used."""
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(__import__(module, fromlist=[name]), name)
        globals()[name] = value
        return value

    def __dir__():
        """Return the public names, imported or not."""
        return sorted({*globals(), *__all__})
