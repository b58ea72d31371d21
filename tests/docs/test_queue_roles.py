"""docs/queue-roles.svg shows the loops that the service starts, and every loop of `gpupool.queue.roles`."""

from __future__ import annotations

import ast
import os
import xml.etree.ElementTree as ET
from pathlib import Path

from gpupool.queue.service import ROLES
from tests.docs.queue_roles import DOES, loops, svg

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "queue-roles.svg"


def test_the_picture_is_that_of_the_service() -> None:
    if os.environ.get("GPUPOOL_WRITE_GOLDEN"):
        PICTURE.write_text(svg(), encoding="utf-8")
    assert PICTURE.read_text(encoding="utf-8") == svg(), "make golden writes it again"
    assert "](queue-roles.svg)" in (ROOT / "docs" / "operate-queue.md").read_text(encoding="utf-8")
    ET.parse(PICTURE)


def test_it_has_every_role_and_every_loop() -> None:
    assert {loop.role for loop in loops()} == set(ROLES)
    assert {loop.name for loop in loops()} == set(DOES)
    derived = {
        node.name
        for path in (ROOT / "gpupool" / "queue" / "roles").glob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and "LeaderRole" in map(ast.unparse, node.bases)
    }
    assert {loop.name for loop in loops() if loop.leads} == derived
