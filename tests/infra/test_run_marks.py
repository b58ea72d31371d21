"""Marks of runs that did not save the state, and where one save at the end is safe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpupool.generators.manifest import Bundle, HelmRelease, Manifest
from gpupool.infra.run_marks import MarkError, Marks, found_again

CHART = HelmRelease("karpenter", "kube-system", "karpenter", "oci://charts.example/k", "1.14.1", {})
POLICY = Manifest(
    {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}},
    patch=True,
)
POOL = Manifest({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"}})


def marks(folder: Path) -> Marks:
    return Marks(f"{folder.as_uri()}?metadata=skip", "gpupool", "trial")


def save(folder: Path) -> None:
    """As the engine does: a new file in the place of the old one."""
    state = folder / ".pulumi" / "stacks" / "gpupool" / "trial.json"
    state.parent.mkdir(parents=True, exist_ok=True)
    fresh = state.with_name("fresh")
    fresh.write_text("{}")
    fresh.replace(state)


def state(*rows: tuple[str, str]) -> dict[str, Any]:
    return {
        "resources": [
            {"type": kind, "urn": f"urn:pulumi:trial::gpupool::{kind}::{name}"} for kind, name in rows
        ]
    }


def test_a_mark_stays_until_the_state_is_saved(tmp_path: Path) -> None:
    save(tmp_path)
    killed = marks(tmp_path)
    killed.begin("up", "here")
    killed.end(whole=True)  # the engine was killed: the state is what it was

    second = marks(tmp_path)
    assert len(second.left) == 1
    assert second.same_cluster("here")
    assert not second.same_cluster("elsewhere")
    second.begin("up", "here")
    (tmp_path / ".pulumi" / "stacks" / "gpupool" / "trial.json.bak").write_text("{}")
    save(tmp_path)
    second.end(whole=False)  # it failed, so not all that the first had done was looked at
    assert marks(tmp_path).left == second.left

    third = marks(tmp_path)
    third.begin("up", "here")
    save(tmp_path)
    third.end(whole=True)
    assert marks(tmp_path).left == ()


def test_a_backup_is_no_save(tmp_path: Path) -> None:
    save(tmp_path)
    run = marks(tmp_path)
    run.begin("up", None)
    (tmp_path / ".pulumi" / "stacks" / "gpupool" / "trial.json.bak").write_text("{}")
    run.end(whole=True)
    assert marks(tmp_path).left


def test_a_mark_that_was_being_written_is_one(tmp_path: Path) -> None:
    folder = tmp_path / ".pulumi" / "unrecorded" / "gpupool" / "trial"
    folder.mkdir(parents=True)
    (folder / "0.json").touch()
    assert marks(tmp_path).left
    assert not marks(tmp_path).same_cluster("here")


def test_where_no_mark_can_be_written_nothing_is_begun(tmp_path: Path) -> None:
    (tmp_path / ".pulumi").write_text("a file in the way")
    with pytest.raises(MarkError, match=r"\.pulumi/unrecorded/.*: Not a directory; .*Nothing was changed"):
        marks(tmp_path).begin("up", None)


@pytest.mark.parametrize("url", ["s3://bucket", "https://api.pulumi.com", "", "postgres://db"])
def test_other_backends_keep_no_marks(url: str) -> None:
    assert not Marks(url, "gpupool", "trial").possible


def test_one_save_is_for_what_labels_find_again() -> None:
    plain = Bundle("trial", (POOL,), ())
    owned = ("kubernetes:karpenter.sh/v1:NodePool", "NodePool/a")
    assert found_again("up", plain, {}, chosen=False)
    assert found_again("up", plain, state(owned), chosen=False)
    assert found_again("destroy", plain, state(owned), chosen=False)
    assert not found_again("up", plain, {}, chosen=True)
    for bundle, row in (
        (Bundle("trial", (POOL,), (CHART,)), ("kubernetes:helm.sh/v3:Release", "Release/karpenter")),
        (
            Bundle("trial", (POOL, POLICY), ()),
            ("kubernetes:nvidia.com/v1:ClusterPolicyPatch", "ClusterPolicy/cluster-policy"),
        ),
    ):
        assert not found_again("up", bundle, state(owned), chosen=False), "to be made"
        assert found_again("up", bundle, state(owned, row), chosen=False), "there already"
        assert not found_again("up", plain, state(owned, row), chosen=False), "to go"
        assert not found_again("destroy", bundle, state(owned, row), chosen=False)
        assert found_again("refresh", bundle, {}, chosen=False)
