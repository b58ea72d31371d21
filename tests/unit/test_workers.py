"""Tests are spread over workers without two of them sharing what only one may use at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import TOGETHER, group

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", TOGETHER)
def test_every_group_names_what_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_a_file_is_in_the_group_of_its_folder_or_in_its_own() -> None:
    assert group("tests/cluster/pools/test_capacity.py") == group("tests/cluster/pools/test_changes.py")
    assert group("tests/unit/test_load.py") == "tests/unit/test_load.py"
