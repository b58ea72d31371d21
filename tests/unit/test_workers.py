"""Tests are spread over workers without two of them sharing what only one may use at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import FIRST, TOGETHER, group

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", [*TOGETHER, *FIRST])
def test_every_folder_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_a_file_is_in_the_group_of_its_folder_or_in_its_own() -> None:
    assert group("tests/cluster/drift/test_objects.py") == group("tests/cluster/drift/test_repairs.py")
    assert group("tests/unit/spec/test_load.py") == "tests/unit/spec/test_load.py"
