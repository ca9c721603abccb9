"""Handlers loaded as Lambda loads them: by their file, each with loggers and metrics of its own."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from holdfast.runtime import observability

LAMBDAS = Path(__file__).parents[1] / "lambdas"


@contextmanager
def loaded(name: str) -> Iterator[ModuleType]:
    """The handler module of the function `name`."""
    observability.logger.cache_clear()
    observability.metrics.cache_clear()
    spec = importlib.util.spec_from_file_location(f"{name}_handler", LAMBDAS / name / "handler.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    observability.logger.cache_clear()
    observability.metrics.cache_clear()
