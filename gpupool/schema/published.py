"""The published JSON Schemas, made of `gpupool.spec` and `gpupool.catalog.gpu_file` and never edited by hand.

`python -m gpupool.schema.published environment` prints that of the environment file, `... catalog` that of a
GPU model; `make schema` writes both to `gpupool/schema/`, and a test fails when one of them is stale.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from gpupool.catalog.gpu_file import GpuFile
from gpupool.spec.environment import API_VERSION, Environment

_FOLDER = Path(__file__).parent
FILE = _FOLDER / "environment.schema.json"
CATALOG_FILE = _FOLDER / "catalog.schema.json"

_SHAPES: dict[str, tuple[type[BaseModel], str, str]] = {
    "environment": (
        Environment,
        f"{API_VERSION.rpartition('/')[2]}/environment.schema.json",
        "gpupool environment",
    ),
    "catalog": (GpuFile, "catalog.schema.json", "GPU model"),
}
"""What a schema is of: the model, the end of the schema's address, its title."""


def json_schema(of: str) -> dict[str, Any]:
    """The schema, JSON Schema 2020-12, of "environment" or "catalog"; every property has a description."""
    model, address, title = _SHAPES[of]
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://gpupool.dev/schema/{address}",
        "title": title,
    }
    return {**head, **_untitled(model.model_json_schema(by_alias=True))}


def text(of: str) -> str:
    """The schema as the file holds it."""
    return json.dumps(json_schema(of), indent=2) + "\n"


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
    print(text(sys.argv[1]), end="")
