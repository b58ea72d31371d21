"""Where the user's project is, and what is refused as one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gpupool.environment import project, shipped
from gpupool.findings import GpupoolError
from gpupool.infra import engine, session
from gpupool.live.cluster.local_layout import default_folder


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the working directory somewhere in it."""
    monkeypatch.delenv("GPUPOOL_LOCAL_DIR", raising=False)
    (tmp_path / "Pulumi.yaml").write_text("name: gpupool\nruntime: python\n")
    (tmp_path / "environments" / "more").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "environments" / "more")
    return tmp_path


def test_the_nearest_folder_with_a_pulumi_yaml(own: Path) -> None:
    assert project.root() == own
    assert default_folder() == own / ".gpupool" / "local"


def test_without_one_it_is_the_checkout_and_without_that_the_working_directory(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own / "Pulumi.yaml").unlink()
    assert project.root() == shipped.library()
    monkeypatch.setattr(shipped, "library", lambda: own / "site-packages")
    assert project.root() == Path.cwd()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, r"no Pulumi\.yaml here or above; `gpupool init` creates a project"),
        ("name: other\n", r"Pulumi\.yaml: name is 'other' and must be gpupool"),
        ("- name\n", r"Pulumi\.yaml: name is None and must be gpupool"),
        ("name: [\n", r"Pulumi\.yaml: can't be read: "),
    ],
)
def test_what_is_no_project_of_ours_is_reported(
    own: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, text: str
) -> None:
    monkeypatch.setattr(shipped, "library", lambda: own / "site-packages")
    (own / "Pulumi.yaml").unlink()
    if content is not None:
        (own / "Pulumi.yaml").write_text(content)
    with pytest.raises(engine.EngineError, match=text):
        session.opened("dev", "local")


def test_what_gpupool_starts_imports_nothing_of_the_project(own: Path) -> None:
    package = Path.cwd() / "gpupool"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('of the project')\n")
    command, variables = (
        shipped.command("gpupool.environment.shipped", "policies"),
        {**os.environ, **shipped.variables()},
    )
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(shipped.folder("policies")), done.stderr


def test_the_own_folder_is_closed_and_no_other_folder_is_touched(tmp_path: Path) -> None:
    """Also where an earlier release left it open."""
    tmp_path.chmod(0o755)
    for own in (tmp_path / "new" / project.OWN, tmp_path / "old" / project.OWN):
        if own.parent.name == "old":
            (own / "queue").mkdir(parents=True)
            own.chmod(0o755)
        project.make_private(own / "queue" / "nats")
        assert own.stat().st_mode & 0o777 == 0o700
        assert (own / "queue" / "nats").stat().st_mode & 0o777 == 0o700
    assert tmp_path.stat().st_mode & 0o777 == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of another account")
def test_a_folder_of_another_account_is_not_used(tmp_path: Path) -> None:
    """Links in it would lead what is written there elsewhere."""
    folder = tmp_path / "queue"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    with pytest.raises(GpupoolError, match="belongs to account 65534, not to yours"):
        project.make_private(folder)
    os.chown(folder, os.geteuid(), os.getegid())
    folder.chmod(0o777)
    project.make_private(folder)
    assert not folder.stat().st_mode & 0o022
