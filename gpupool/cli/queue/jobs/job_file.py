"""The job file of `gpupool jobs submit -f`: the fields of the API's requests, in YAML.

Only YAML is judged here; the queue judges the fields, and `gpupool.cli.queue.jobs.connection` says at which
place of the file an error is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpupool.environment.spec.yaml_scalars import Unclear
from gpupool.environment.spec.yaml_source import Loc, YamlSource, parse_source, read_source
from gpupool.findings import SpecError

EXAMPLE = "container_image: python:3.12"
DISPUTED = "this is a number, date or truth value to some readers of YAML, and something else to others"
CLEAR = "put text in quotes, and write numbers in plain digits, truth values as true or false"


def read(file: Path) -> YamlSource:
    """The file, a mapping; `-` is stdin. Raises SpecError with every finding."""
    source = parse_source("-", sys.stdin.buffer.read()) if str(file) == "-" else read_source(file)
    source.sound()
    if not isinstance(source.data, dict) or not source.data:
        message = "the file is empty" if not source.data else "the document is not a mapping"
        raise SpecError([source.finding((), message, f"write the fields of a job, such as {EXAMPLE}")])
    unclear = [loc for loc, value in _scalars(source.data) if isinstance(value, Unclear)]
    if unclear:  # it has no JSON; what it is is not said, since variables may be secret
        raise SpecError([source.finding(loc, DISPUTED, CLEAR) for loc in unclear])
    return source


def _scalars(data: Any, loc: Loc = ()) -> Iterator[tuple[Loc, Any]]:
    """Each value that is no list or mapping, with its place."""
    if isinstance(data, dict | list):
        for part, inner in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _scalars(inner, (*loc, part))
    else:
        yield loc, data


def overridden(source: YamlSource, options: Mapping[str, tuple[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """The fields of the file, and of the options that replace them; variables replace those of their name."""
    fields: dict[str, tuple[Any, ...]] = {name: ("", value, source) for name, value in source.data.items()}
    env = source.data.get("env")
    for name, (option, value) in options.items():
        if value is None and name in fields:
            continue
        fields[name] = (option, {**env, **value} if name == "env" and isinstance(env, dict) else value)
    return fields
