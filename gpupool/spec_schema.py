"""The published JSON Schema of the environment file, made of `gpupool.spec` and never edited by hand.

`python -m gpupool.spec_schema` prints it; `make schema` writes it to
`gpupool/schema/environment.schema.json`, and a test fails when that file is stale.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpupool.spec import API_VERSION, Environment

FILE = Path(__file__).parent / "schema" / "environment.schema.json"


def json_schema() -> dict[str, Any]:
    """The schema, JSON Schema 2020-12; every property has a description."""
    schema = _untitled(Environment.model_json_schema(by_alias=True))
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://gpupool.dev/schema/{API_VERSION.rpartition('/')[2]}/environment.schema.json",
        "title": "gpupool environment",
    }
    return {**head, **schema}


def text() -> str:
    """The schema as the file holds it."""
    return json.dumps(json_schema(), indent=2) + "\n"


def _untitled(value: Any) -> Any:
    """Without the titles that pydantic makes of names: they say nothing, and editors show them first."""
    if isinstance(value, dict):
        return {
            key: _untitled(inner)
            for key, inner in value.items()
            if not (key == "title" and isinstance(inner, str))
        }
    if isinstance(value, list):
        return [_untitled(inner) for inner in value]
    return value


if __name__ == "__main__":
    print(text(), end="")
