"""The data files of kinds: what differs in an older minor, and fields that it drops."""

from __future__ import annotations

import json
from pathlib import Path

from gpupool.local.kinds_from_cluster import write
from vapcheck.server.schema import merged

NEWEST = {
    "core.v1": {"Pod": {"new": "string", "alpha": "~string", "on": "?integer", "kept": "string"}},
    "apps.v1": {"Set": {"a": "string"}},
}
OLDER = {
    "core.v1": {"Pod": {"alpha": "~string", "on": "~?integer", "kept": "string", "old": "~string"}},
    "gone.v1": {"Thing": {"a": "string"}},
}


def test_an_older_minor_is_the_newest_with_its_differences(tmp_path: Path) -> None:
    (tmp_path / "stale.v1.json").write_text("{}")
    written = write(NEWEST, {"1.1": OLDER}, tmp_path)
    assert set(written) == set(tmp_path.iterdir())
    newest = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in NEWEST}
    assert newest["core.v1"]["Pod"]["alpha"] == "string", "what the newest drops too is kept everywhere"
    differences = json.loads((tmp_path / "1.1.json").read_text())
    assert merged(newest, differences) == {
        "core.v1": {"Pod": {"alpha": "string", "on": "~?integer", "kept": "string", "old": "string"}},
        "gone.v1": {"Thing": {"a": "string"}},
    }
    assert "kept" not in json.dumps(differences)


def test_writing_again_changes_nothing(tmp_path: Path) -> None:
    first = {path: path.read_bytes() for path in write(NEWEST, {"1.1": OLDER}, tmp_path)}
    assert {path: path.read_bytes() for path in write(NEWEST, {"1.1": OLDER}, tmp_path)} == first
