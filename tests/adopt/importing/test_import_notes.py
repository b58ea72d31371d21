"""Whose cluster an imported one is, and what of its own file no object shows."""

from __future__ import annotations

from gpupool.adopt.importing import notes as import_notes

KEPT = """
metadata: {name: local}
pools:
  - {name: a, gpu: t4, description: for notebooks, fallbackTo: [b], nodes: {max: 2, warm: 1}}
priorities:
  - {name: research, value: 100, preemptible: true}
tenants:
  - {name: vision, weight: 2, pools: {a: {gpus: 1}}}
"""
WRITTEN = """
metadata: {name: mine}
pools:
  - {name: a, gpu: t4, nodes: {max: 2}}
priorities:
  - {name: research, value: 100}
tenants:
  - {name: vision, pools: {a: {slices: 4}}}
"""


def _object(environment: str | None) -> dict[str, object]:
    labels = {"app.kubernetes.io/managed-by": "gpupool", "gpupool.dev/environment": environment}
    return {"kind": "NodePool", "metadata": {"name": "a", "labels": labels if environment else {}}}


def test_owners_are_those_whose_labels_are_there() -> None:
    assert import_notes.owners([_object("local"), _object(None), _object("local")]) == ["local"]


def test_another_environments_cluster_is_reported_with_everything_that_is_lost() -> None:
    first, *lost = import_notes.notes("context x", "mine", ["local"], KEPT, WRITTEN)
    assert "belong to environment local" in first.what
    assert first.remediation == "`gpupool import local` reads the file stored in the cluster"
    assert [(entry.path, entry.value) for entry in lost] == [
        ("pools[a].description", '"for notebooks"'),
        ("pools[a].fallbackTo", '["b"]'),
        ("pools[a].nodes.warm", "1"),
        ("priorities[research].preemptible", "true"),
        ("tenants[vision].weight", "2"),
    ]


def test_without_a_kept_file_it_is_one_entry() -> None:
    (only,) = import_notes.notes("context x", "local", ["local"], None, WRITTEN)
    assert "descriptions" in only.what
    assert "preemptible" in only.what
    assert only.object == "environment local"


def test_nothing_is_reported_for_a_cluster_made_by_hand() -> None:
    assert list(import_notes.notes("context x", "mine", [], None, WRITTEN)) == []


def test_a_day_that_is_lost_is_shown_as_it_is_written() -> None:
    kept = f"{KEPT}promotion: {{exceptions: [{{until: 2027-03-31}}]}}\n"
    *_, last = import_notes.notes("context x", "local", ["local"], kept, WRITTEN)
    assert last.path == "promotion"
    assert last.value == '{"exceptions": [{"until": "2027-03-31"}]}'
