"""Two states of real repositories, read without touching them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gpupool.findings import UsageError
from gpupool.review.report.git_states import ProjectFiles, project_folder, snapshots

PLAIN = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments],
        check=True,
        capture_output=True,
        text=True,
        env=PLAIN,
    )
    return done.stdout.strip()


def write(folder: Path, **files: str) -> None:
    for name, content in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(f"{path.name}.yaml").write_text(content, encoding="utf-8")


def commit(folder: Path, message: str = "x") -> str:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with two environments and a policy."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    write(folder, environments__dev="dev 1", environments__prod="prod 1", policies__own="policy 1")
    write(folder, environments__sub__deep="not read", other="not read")
    commit(folder)
    return folder


def both(
    folder: Path, base: str, head: str | None = None, merge_base: bool = False
) -> tuple[ProjectFiles, ProjectFiles]:
    with snapshots(folder / "environments", base, head, merge_base=merge_base) as found:
        return found


def test_a_commit_and_the_working_tree(project: Path) -> None:
    first = git(project, "rev-parse", "HEAD")
    write(project, environments__dev="dev 2", environments__new="new")
    (project / "environments" / "prod.yaml").unlink()
    base, head = both(project, "main")
    assert dict(base.environments) == {"dev": b"dev 1", "prod": b"prod 1"}
    assert dict(head.environments) == {"dev": b"dev 2", "new": b"new"}
    assert (base.state.commit, base.state.dirty) == (first, False)
    assert (head.state.name, head.state.commit, head.state.dirty) == ("working tree", first, True)


def test_nothing_is_touched(project: Path) -> None:
    write(project, environments__dev="dev 2")
    git(project, "add", "environments/dev.yaml")
    write(project, environments__dev="dev 3")
    before = git(project, "status", "--porcelain")
    index = (project / ".git" / "index").read_bytes()
    # Same content, another time: what makes `git status` write the index again.
    os.utime(project / "environments" / "prod.yaml", (1_000_000_000, 1_000_000_000))
    both(project, "main")
    both(project, "main", "main")
    assert (project / ".git" / "index").read_bytes() == index
    assert git(project, "status", "--porcelain") == before
    assert git(project, "stash", "list") == ""


def test_two_commits(project: Path) -> None:
    git(project, "tag", "v1")
    write(project, environments__dev="dev 2", policies__own="policy 2")
    second = commit(project)
    write(project, environments__dev="not committed")
    with snapshots(project / "environments", "v1", "main") as (base, head):
        assert (base.environments["dev"], head.environments["dev"]) == (b"dev 1", b"dev 2")
        assert head.state.commit == second
        assert not head.state.dirty
        assert (base.root / "policies" / "own.yaml").read_text() == "policy 1"
        assert (head.root / "policies" / "own.yaml").read_text() == "policy 2"
        assert base.path("dev") == base.root / "environments" / "dev.yaml"
        written = base.root
    assert not written.exists()


def test_the_same_policies_are_one_folder(project: Path) -> None:
    write(project, environments__dev="dev 2")
    base, head = both(project, "main")
    assert base.root == head.root == project


def test_a_project_below_the_repository(project: Path) -> None:
    write(project, teams__ml__environments__prod="prod 1", teams__ml__policies__p="p 1")
    commit(project)
    write(project, teams__ml__environments__prod="prod 2")
    base, head = both(project / "teams" / "ml", "main")
    assert (dict(base.environments), dict(head.environments)) == ({"prod": b"prod 1"}, {"prod": b"prod 2"})
    assert set(base.policies) == {"p.yaml"}


def test_links_are_followed_and_dead_ones_left_out(project: Path) -> None:
    (project / "environments" / "linked.yaml").symlink_to("prod.yaml")
    (project / "environments" / "dead.yaml").symlink_to("nowhere.yaml")
    commit(project)
    base, head = both(project, "main")
    assert dict(base.environments) == dict(head.environments)
    assert base.environments["linked"] == b"prod 1"
    assert "dead" not in base.environments


def test_a_folder_that_is_a_link(project: Path) -> None:
    (project / "environments").rename(project / "real")
    (project / "shown").symlink_to("real")
    (project / "environments").symlink_to("shown")
    commit(project)
    write(project, real__dev="dev 2")
    base, head = both(project, "main")
    assert dict(base.environments) == {"dev": b"dev 1", "prod": b"prod 1"}
    assert dict(head.environments) == {"dev": b"dev 2", "prod": b"prod 1"}


@pytest.mark.parametrize("committed", [True, False])
def test_a_project_that_was_moved(project: Path, committed: bool) -> None:
    """In one commit, or in the working tree so far."""
    git(project, "checkout", "-q", "-b", "move")
    (project / "infra" / "gpu").mkdir(parents=True)
    git(project, "mv", "environments", "policies", "infra/gpu/")
    if committed:
        commit(project)
    write(project, infra__gpu__environments__dev="dev 2")
    base, head = both(project / "infra" / "gpu", "main")
    assert dict(base.environments) == {"dev": b"dev 1", "prod": b"prod 1"}
    assert set(base.policies) == {"own.yaml"}
    assert dict(head.environments) == {"dev": b"dev 2", "prod": b"prod 1"}
    if committed:
        base, head = both(project / "infra" / "gpu", "main", "move")
        assert base.environments == head.environments


def test_a_base_without_environments(project: Path) -> None:
    git(project, "checkout", "-q", "--orphan", "empty")
    git(project, "rm", "-rfq", ".")
    write(project, readme="nothing")
    commit(project)
    git(project, "checkout", "-q", "main")
    base, head = both(project, "empty")
    assert not base.environments
    assert set(head.environments) == {"dev", "prod"}


def test_where_a_branch_left_another(project: Path) -> None:
    first = git(project, "rev-parse", "HEAD")
    git(project, "checkout", "-q", "-b", "change")
    write(project, environments__dev="dev 2")
    commit(project)
    git(project, "checkout", "-q", "main")
    write(project, environments__prod="prod 2")
    commit(project)
    git(project, "checkout", "-q", "change")
    tip, _ = both(project, "main")
    fork, _ = both(project, "main", merge_base=True)
    assert tip.environments["prod"] == b"prod 2"
    assert fork.environments["prod"] == b"prod 1"
    assert (fork.state.name, fork.state.commit) == ("merge base with main", first)


@pytest.mark.parametrize("ref", ["nowhere", "-rf", "--help", "main:environments", "HEAD~99", ""])
def test_a_ref_that_is_none(project: Path, ref: str) -> None:
    with pytest.raises(UsageError, match="no commit, branch or tag of that name here"):
        both(project, ref)


def test_a_shallow_clone_says_so(project: Path, tmp_path: Path) -> None:
    first = git(project, "rev-parse", "HEAD")
    write(project, environments__dev="dev 2")
    commit(project)
    git(tmp_path, "clone", "-q", "--depth=1", project.as_uri(), "shallow")
    with pytest.raises(UsageError, match=r"which is shallow; fetch the history \(git fetch --unshallow"):
        both(tmp_path / "shallow", first)


def test_no_repository(tmp_path: Path) -> None:
    write(tmp_path, environments__dev="dev")
    with pytest.raises(UsageError, match=r"not the working tree of a Git repository \(.*run it in a clone"):
        both(tmp_path, "main")


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    write(tmp_path, environments__dev="dev")
    with pytest.raises(UsageError, match="no commit, branch or tag"):
        both(tmp_path, "HEAD")


def test_no_git(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UsageError, match="no git on the PATH; install it"):
        both(project, "main")


def test_environments_are_named_or_given_as_paths(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    folder = project / "environments"
    assert project_folder([]) == (folder, [])
    assert project_folder(["dev", "gone"]) == (folder, ["dev", "gone"])
    assert project_folder(["environments/dev.yaml", "environments/gone.yaml"]) == (folder, ["dev", "gone"])
    for wrong in (["dev", "environments/dev.yaml"], ["a/dev.yaml", "b/dev.yaml"], ["environments/dev.yml"]):
        with pytest.raises(UsageError, match=r"one folder|must end in \.yaml"):
            project_folder(wrong)
