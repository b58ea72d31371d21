"""Tests are spread over workers without two of them sharing what only one may use at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import selection
from tests.conftest import CONTRACTS, FIRST, TOGETHER, group

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", [*TOGETHER, *FIRST])
def test_every_folder_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_a_file_is_in_the_group_of_its_folder_or_in_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "EVERYTHING", True)
    assert group("tests/cluster/drift/test_objects.py") == group("tests/cluster/drift/test_repairs.py")
    assert group("tests/environment/spec/test_load.py::test_1") == "tests/environment/spec/test_load.py"


def test_contracts_share_a_control_plane_and_other_programs_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "EVERYTHING", False)
    groups = {group(test) for test in selection.CONTRACTS if test.startswith("tests/cluster/")}
    assert groups == {CONTRACTS}
    assert group("tests/queue/api/test_jobs.py::test_1") == "tests/queue/api/test_jobs.py"
