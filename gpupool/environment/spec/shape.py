"""Other YAML files than environments, each with a pydantic model of its own: read by the same reader, and
what is wrong with them said at its place in the same words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from gpupool.environment.spec.messages import describe
from gpupool.environment.spec.yaml_source import Loc, Unread, YamlSource, read_source
from gpupool.findings import Finding, SpecError

Shape = TypeVar("Shape", bound=BaseModel)


def read_as(path: Path, shape: type[Shape], remediation: str) -> Shape:
    """The file at `path`; `remediation`: what to write where it is no mapping. Raises SpecError with all that
    is wrong."""
    source = read_source(path)
    findings = [*source.findings, *shape_findings(source, shape, remediation)]
    if findings:
        raise SpecError(findings)
    return shape.model_validate(source.data)


def shape_findings(source: YamlSource, shape: type[BaseModel], remediation: str) -> Iterator[Finding]:
    """What breaks the types of the fields, each where it stands."""
    if not isinstance(source.data, dict):
        what = "the file is empty" if source.data is None else "the document is not a mapping"
        yield source.finding((), what, remediation)
        return
    try:
        shape.model_validate(source.data)
    except ValidationError as error:
        for item in error.errors(include_url=False):
            loc: Loc = tuple(part for part in item["loc"] if part != "[key]")
            if not isinstance(item["input"], Unread):
                yield source.finding(loc, *describe(item, loc, source, shape))
