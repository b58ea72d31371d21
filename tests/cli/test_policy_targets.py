"""Which targets are environments, which are manifests, and what is neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.environment.plan.policy_files import SHIPPED
from gpupool.findings import UsageError
from gpupool.policy.targets import default_policies, policies_folder, policy_files, sort_targets

ENVIRONMENT = "apiVersion: gpupool.dev/v1alpha1\nkind: Environment\nmetadata: {name: x}\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments" / "prod.yaml").write_text(ENVIRONMENT)
    (tmp_path / "prod").mkdir()
    (tmp_path / "k8s" / "deep").mkdir(parents=True)
    (tmp_path / "k8s" / "pod.yaml").write_text(POD)
    (tmp_path / "elsewhere.yaml").write_text("# ours\n" + ENVIRONMENT)
    (tmp_path / "crd.yaml").write_text("apiVersion: example.com/v1\nkind: Environment\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_targets_of_all_sorts_may_be_mixed(project: Path) -> None:
    targets = sort_targets(["prod", "k8s", "elsewhere.yaml", "crd.yaml", "./prod", "-"])
    assert targets.environments == (project / "environments" / "prod.yaml", Path("elsewhere.yaml"))
    assert targets.manifests == (Path("k8s"), Path("crd.yaml"), Path("prod"))
    assert targets.stdin


def test_a_name_is_an_environment_from_anywhere_in_the_project(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project / "k8s" / "deep")
    assert sort_targets(["prod"]).environments == (project / "environments" / "prod.yaml",)


@pytest.mark.parametrize("target", ["staging", "no/such/folder", "missing.yaml"])
def test_what_is_nowhere_is_wrong_use(project: Path, target: str) -> None:
    with pytest.raises(UsageError, match=rf"{target}: no such .*prod"):
        sort_targets([target])


def test_policies_of_a_folder_without_fixtures(project: Path) -> None:
    guards = project / "guards"
    for name in (
        "a.yaml",
        "team/b.yml",
        "fixtures/a/bad.yaml",
        "team/fixtures/b/good.yaml",
        ".ci/c.yaml",
        "readme.md",
    ):
        path = guards / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(POD)
    assert [str(path.relative_to(guards)) for path in policy_files(guards)] == ["a.yaml", "team/b.yml"]
    assert policy_files(guards / "a.yaml") == [guards / "a.yaml"]


def test_a_projects_policies_add_to_the_shipped_ones(project: Path) -> None:
    assert default_policies() == sorted(SHIPPED.glob("*.yaml"), key=lambda path: path.name)
    assert policies_folder() == SHIPPED
    own = project / "policies" / "own.yaml"
    own.parent.mkdir()
    own.write_text(POD)
    assert own in default_policies()
    assert len(default_policies()) == len(list(SHIPPED.glob("*.yaml"))) + 1
    assert policies_folder() == own.parent
