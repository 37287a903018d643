"""jobtop shows jobs and remembers them: the public names of the package, each imported when it is first used."""

__version__ = "0.1.0"

# A public name and the module it is in. `jobtop run` imports this file too, so it imports nothing.
_MODULES = {
    "AmbiguousJob": "jobtop.core.errors",
    "BadValue": "jobtop.core.errors",
    "BenchmarkRunner": "jobtop.benchmark",
    "Block": "jobtop.tracking",
    "ConfigError": "jobtop.core.errors",
    "ContainerResourceMonitor": "jobtop.resource_profiler",
    "DetachedJob": "jobtop.detached",
    "EngineError": "jobtop.core.errors",
    "JobFailed": "jobtop.records",
    "JobList": "jobtop.records",
    "JobMonitor": "jobtop.job_monitor",
    "JobOptions": "jobtop.options",
    "JobRecord": "jobtop.records",
    "JobTimeout": "jobtop.records",
    "JobtopError": "jobtop.core.errors",
    "Limits": "jobtop.core.model",
    "ResourceMonitor": "jobtop.watching",
    "ResourceMonitorCallback": "jobtop.callback",
    "ResourceProfiler": "jobtop.resource_profiler",
    "Series": "jobtop.records",
    "StartError": "jobtop.core.errors",
    "Store": "jobtop.history",
    "StoreError": "jobtop.core.errors",
    "TaskPipeline": "jobtop.task_pipeline",
    "UnknownJob": "jobtop.core.errors",
    "Usage": "jobtop.core.model",
    "UsageError": "jobtop.core.errors",
    "get_monitor": "jobtop.job_monitor",
    "get_profiler": "jobtop.resource_profiler",
    "open_store": "jobtop.history",
    "run": "jobtop.running",
    "submit": "jobtop.running",
    "track": "jobtop.tracking",
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    # For type checkers and editors: the same names once more.
    from jobtop.benchmark import BenchmarkRunner as BenchmarkRunner
    from jobtop.callback import ResourceMonitorCallback as ResourceMonitorCallback
    from jobtop.core.errors import AmbiguousJob as AmbiguousJob
    from jobtop.core.errors import BadValue as BadValue
    from jobtop.core.errors import ConfigError as ConfigError
    from jobtop.core.errors import EngineError as EngineError
    from jobtop.core.errors import JobtopError as JobtopError
    from jobtop.core.errors import StartError as StartError
    from jobtop.core.errors import StoreError as StoreError
    from jobtop.core.errors import UnknownJob as UnknownJob
    from jobtop.core.errors import UsageError as UsageError
    from jobtop.core.model import Limits as Limits
    from jobtop.core.model import Usage as Usage
    from jobtop.detached import DetachedJob as DetachedJob
    from jobtop.history import Store as Store
    from jobtop.history import open_store as open_store
    from jobtop.job_monitor import JobMonitor as JobMonitor
    from jobtop.job_monitor import get_monitor as get_monitor
    from jobtop.options import JobOptions as JobOptions
    from jobtop.records import JobFailed as JobFailed
    from jobtop.records import JobList as JobList
    from jobtop.records import JobRecord as JobRecord
    from jobtop.records import JobTimeout as JobTimeout
    from jobtop.records import Series as Series
    from jobtop.resource_profiler import ContainerResourceMonitor as ContainerResourceMonitor
    from jobtop.resource_profiler import ResourceProfiler as ResourceProfiler
    from jobtop.resource_profiler import get_profiler as get_profiler
    from jobtop.running import run as run
    from jobtop.running import submit as submit
    from jobtop.task_pipeline import TaskPipeline as TaskPipeline
    from jobtop.tracking import Block as Block
    from jobtop.tracking import track as track
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
