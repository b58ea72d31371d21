"""No message shows a regular expression: each pattern of a field has words."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from gpupool.catalog import gpu_file
from gpupool.queue.api import openapi
from gpupool.queue.api.requests import WANTED
from gpupool.spec import messages, promotion
from gpupool.spec.environment import Environment


def patterns(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("pattern"), str):
            yield part["pattern"]
        yield from part.get("patternProperties", ())  # of the keys of a mapping
        for inner in part.values():
            yield from patterns(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from patterns(inner)


def models() -> Iterator[type[BaseModel]]:
    yield Environment
    for module in (gpu_file, promotion):
        for _, kind in inspect.getmembers(module, inspect.isclass):
            if issubclass(kind, BaseModel) and kind.__module__ == module.__name__:
                yield kind


@pytest.mark.parametrize("model", list(models()), ids=lambda model: model.__name__)
def test_fields_of_files(model: type[BaseModel]) -> None:
    shown = {
        pattern for pattern in patterns(model.model_json_schema()) if messages._wanted(pattern) == pattern
    }
    assert not shown


def test_fields_of_the_api() -> None:
    found = set(patterns(json.loads(openapi.document())))
    assert len(found) >= 8
    assert found == set(WANTED)
