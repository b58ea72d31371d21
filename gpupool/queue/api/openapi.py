"""Writes the API's OpenAPI document: `python -m gpupool.queue.api.openapi > docs/queue-openapi.json`.

With the argument `job` it writes the JSON Schema of job files (`gpupool jobs submit -f`), as `make schema`
does.

Tests compare those files with what the code says. No database is needed.
"""

from __future__ import annotations

import json
import sys
from typing import cast

from gpupool.environment.schema.published import untitled
from gpupool.queue.api.app import create_app
from gpupool.queue.api.requests import JobRequest
from gpupool.queue.domain.current import Current
from gpupool.queue.store.database import Database


def document() -> str:
    """The OpenAPI 3.1 document as text."""

    def no_plan() -> Current:
        raise NotImplementedError("the document is the same for every Plan")

    app = create_app(no_plan, cast(Database, None))
    return json.dumps(app.openapi(), indent=2, ensure_ascii=False) + "\n"


def job_schema() -> str:
    """The JSON Schema of job files as text: the request of a submission."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://gpupool.dev/schema/job.schema.json",
    }
    schema = untitled(JobRequest.model_json_schema()) | {"title": "gpupool job"}
    return json.dumps(head | schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(job_schema() if sys.argv[1:] == ["job"] else document())
