"""Lists inside Lists: every object in them is found, with its own place."""

from __future__ import annotations

import json
from typing import Any

from vapcheck import from_bodies, read_text

NESTED = """apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: a}
- apiVersion: v1
  kind: List
  items:
  - apiVersion: v1
    kind: PodList
    items:
    - metadata:
        name: b
      spec: {}
  - text
- apiVersion: v1
  kind: Pod
  metadata: {name: c}
"""


def test_every_object_is_found_with_its_place() -> None:
    for text in (NESTED, NESTED.replace("name: a", "name: !!str a")):
        documents, findings = read_text(text, "f")
        assert [(one.body["metadata"]["name"], one.line) for one in documents] == [
            ("a", 4),
            ("b", 13),
            ("c", 17),
        ]
        assert documents[1].body["kind"] == "Pod"
        assert documents[1].position("metadata.name") == (14, 9)
        assert [(found.line, found.message) for found in findings] == [
            (16, "item 1 of the List is no object")
        ]


def nested(levels: int) -> dict[str, Any]:
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
    for _ in range(levels):
        body = {"apiVersion": "v1", "kind": "List", "items": [body]}
    return body


def test_depth_is_bounded() -> None:
    documents, findings = read_text(json.dumps(nested(16)), "f")
    assert (len(documents), findings) == (1, [])
    documents, findings = read_text(json.dumps(nested(17)), "f")
    assert documents == []
    assert "more than 16 levels" in findings[0].message


def test_objects_that_were_never_text() -> None:
    assert [one.item for one in from_bodies([nested(2)], "r")] == [("items", 0, "items", 0)]
