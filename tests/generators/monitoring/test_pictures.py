"""Every panel has a picture in the documentation: the viewer that draws them knows its type."""

from __future__ import annotations

import re
from pathlib import Path

from gpupool.generators.monitoring import boards
from tests.generators.monitoring.environments import everything

ROOT = Path(__file__).parents[3]


def test_the_viewer_draws_each_type_of_panel() -> None:
    viewer = (ROOT / "tests" / "pictures" / "viewer" / "viewer.jsx").read_text()
    (table,) = re.findall(r"const KINDS = \{(.*?)\};", viewer)
    known = {name.strip("' ") for name in re.findall(r"([\w'-]+): \w+", table)}
    assert {panel["type"] for board in boards.boards(everything()) for panel in board["panels"]} - {
        "row"
    } == known


def test_each_dashboard_has_its_picture_on_the_page() -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text()
    for board in boards.boards(everything()):
        picture = f"pictures/dashboard-{board['uid'].rpartition('-')[2]}.png"
        assert f"]({picture})" in page
        assert (ROOT / "docs" / picture).stat().st_size < 500_000


def test_tables_show_labels_that_their_queries_have() -> None:
    for board in boards.boards(everything()):
        for panel in board["panels"]:
            for step in panel.get("transformations", ()):
                labels = set(re.findall(r"\w+", panel["targets"][0]["expr"])) | {"Value"}
                assert set(step["options"]["renameByName"]) <= labels
