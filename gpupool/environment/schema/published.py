"""The published JSON Schemas, made of `gpupool.environment.spec` and `gpupool.environment.catalog.gpu_file`
and never edited by hand.

`python -m gpupool.environment.schema.published environment` prints that of the environment file, `...
catalog` that of a GPU model, `... values` that of the chart's values; `make schema` writes them to
`gpupool/environment/schema/` and `charts/gpu-scheduler/`, and a test fails when one of them is stale.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from gpupool.environment import shipped
from gpupool.environment.catalog.gpu_file import GpuFile
from gpupool.environment.schema.chart_values import Values
from gpupool.environment.spec.environment import API_VERSION, Environment

_FOLDER = Path(__file__).parent
FILE = _FOLDER / "environment.schema.json"
CATALOG_FILE = _FOLDER / "catalog.schema.json"

VALUES_FILE = shipped.folder("charts") / "gpu-scheduler" / "values.schema.json"
_VERSIONS = {"values": "http://json-schema.org/draft-07/schema#"}
"""What Helm before 3.18 reads; a model is written alike in both."""

_SHAPES: dict[str, tuple[type[BaseModel], str, str]] = {
    "environment": (
        Environment,
        f"{API_VERSION.rpartition('/')[2]}/environment.schema.json",
        "gpupool environment",
    ),
    "catalog": (GpuFile, "catalog.schema.json", "GPU model"),
    "values": (Values, "gpu-scheduler-values.schema.json", "values of the chart gpu-scheduler"),
}
"""What a schema is of: the model, the end of the schema's address, its title."""


def address(of: str) -> str:
    """The schema's own address (`$id`), which the first line of a file may name."""
    return f"https://gpupool.dev/schema/{_SHAPES[of][1]}"


def json_schema(of: str) -> dict[str, Any]:
    """The schema of "environment", "catalog" (JSON Schema 2020-12) or "values" (draft 7). Each property has a
    description."""
    model, _, title = _SHAPES[of]
    head = {
        "$schema": _VERSIONS.get(of, "https://json-schema.org/draft/2020-12/schema"),
        "$id": address(of),
        "title": title,
    }
    return {**head, **untitled(model.model_json_schema(by_alias=True))}


def text(of: str) -> str:
    """The schema as the file holds it."""
    return json.dumps(json_schema(of), indent=2) + "\n"


def untitled(value: Any) -> Any:
    """Without the titles that pydantic makes of names: they say nothing, and editors show them first."""
    if isinstance(value, dict):
        return {
            key: untitled(inner)
            for key, inner in value.items()
            if not (key == "title" and isinstance(inner, str))
        }
    if isinstance(value, list):
        return [untitled(inner) for inner in value]
    return value


if __name__ == "__main__":
    print(text(sys.argv[1]), end="")
