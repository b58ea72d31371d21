"""The job file of `gpupool jobs submit -f`: the fields of the API's requests, in YAML.

Only YAML is judged here; the queue judges the fields, and `gpupool.cli.jobs_asked` says at which place of
the file an error is. This module must not ask the queue.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpupool.findings import SpecError
from gpupool.spec.yaml_source import Source, parse_source, read_source

EXAMPLE = "container_image: python:3.12"


def read(file: Path) -> Source:
    """The file, a mapping; `-` is stdin. Raises SpecError with every finding."""
    source = parse_source("-", sys.stdin.buffer.read()) if str(file) == "-" else read_source(file)
    source.sound()
    if not isinstance(source.data, dict) or not source.data:
        message = "the file is empty" if not source.data else "the document is not a mapping"
        raise SpecError([source.finding((), message, f"write the fields of a job, such as {EXAMPLE}")])
    return source


def overridden(source: Source, options: Mapping[str, tuple[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """The fields of the file, and of the options that replace them; variables replace those of their name."""
    fields: dict[str, tuple[Any, ...]] = {name: ("", value, source) for name, value in source.data.items()}
    env = source.data.get("env")
    for name, (option, value) in options.items():
        if value is None and name in fields:
            continue
        fields[name] = (option, {**env, **value} if name == "env" and isinstance(env, dict) else value)
    return fields
