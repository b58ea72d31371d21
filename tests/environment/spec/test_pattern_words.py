"""No message shows a regular expression: each pattern of a field has words."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from gpupool.environment.catalog import gpu_file
from gpupool.environment.spec import messages, promotion
from gpupool.environment.spec.environment import Environment
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.yaml_source import parse_source
from gpupool.queue.api import openapi
from gpupool.queue.api.requests import WANTED
from tests.environment_files import environment_data, text_of


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
    without = [
        f"{kind.__name__}.{name}: {pattern}"
        for kind in (model, *parts(model))
        for name, field in kind.model_fields.items()
        for pattern, hint in messages._forms(field, keys=True)
        if not hint
    ]
    assert not without


def parts(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """The models that a model's fields have, and those of these."""
    for field in model.model_fields.values():
        waiting = [field.annotation]
        while waiting:
            annotation = waiting.pop()
            waiting += get_args(annotation)
            if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
                yield annotation
                yield from parts(annotation)


def test_every_pattern_of_the_file_is_looked_at() -> None:
    """The schema's patterns are those of the types."""
    models: tuple[type[BaseModel], ...] = (Environment, *parts(Environment))
    seen = {
        pattern
        for kind in models
        for field in kind.model_fields.values()
        for pattern, _ in messages._forms(field, keys=True)
    }
    assert set(patterns(Environment.model_json_schema())) == seen


@pytest.mark.parametrize(
    ("field", "value", "hint"),
    [
        ("policies.limits.registries", ["Registry.example.com"], "registry.example.com/team"),
        ("queue.chart", {"repository": "oci://a/b", "image": "a b"}, "an image such as"),
        ("monitoring.assertion.pushgateway", "pushgateway:9091", "http://pushgateway.monitoring:9091"),
        ("queue.alerts.smtp.to", ["ada"], "an e-mail address"),
    ],
)
def test_the_hint_is_the_fields_own(field: str, value: object, hint: str) -> None:
    data = environment_data("static", pools=[])
    *path, last = field.split(".")
    inner = data
    for part in path:
        inner = inner.setdefault(part, {})
    inner[last] = value
    findings = check_shape(parse_source("trial.yaml", text_of(data).encode())).findings
    assert [finding for finding in findings if hint in finding.remediation], findings


def test_fields_of_the_api() -> None:
    found = set(patterns(json.loads(openapi.document())))
    assert len(found) >= 8
    assert found == set(WANTED)
