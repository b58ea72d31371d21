"""Writes the API's OpenAPI document: `python -m gpupool.queue.api.openapi > docs/queue-openapi.json`.

A test compares that file with what the code says. No database is needed.
"""

from __future__ import annotations

import json
import sys
from typing import cast

from gpupool.queue.api.app import create_app
from gpupool.queue.plan_source import Current
from gpupool.queue.store.database import Database


def document() -> str:
    """The OpenAPI 3.1 document as text."""

    def no_plan() -> Current:
        raise NotImplementedError("the document is the same for every Plan")

    app = create_app(no_plan, cast(Database, None))
    return json.dumps(app.openapi(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(document())
