"""Whose folder it is: `local up` and `local down` leave alone what a control plane has not made."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpupool.cli.local import app
from gpupool.local.control_plane import ControlPlane
from gpupool.local.instance import Instance
from gpupool.programs.failures import LocalError


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder of the user's that has nothing to do with us."""
    folder = tmp_path / "thesis"
    (folder / "logs").mkdir(parents=True)
    (folder / "chapter1").write_text("years of work")
    (folder / "state.json").write_text('{"ports": {"api": 1}, "components": {}}')
    folder.chmod(0o755)
    return folder


def untouched(folder: Path) -> bool:
    names = sorted(path.name for path in folder.iterdir())
    return names == ["chapter1", "logs", "state.json"] and stat.S_IMODE(folder.stat().st_mode) == 0o755


@pytest.mark.parametrize("by_variable", [False, True])
def test_down_and_status_leave_somebody_elses_folder_alone(
    foreign: Path, by_variable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [] if by_variable else ["--dir", str(foreign)]
    if by_variable:
        monkeypatch.setenv("GPUPOOL_LOCAL_DIR", str(foreign))
    done = CliRunner().invoke(app, ["down", *arguments])
    assert done.exit_code == 0
    assert "nothing to stop" in done.output
    assert "left unchanged" in done.output
    assert "no control plane" in CliRunner().invoke(app, ["status", *arguments]).output
    assert untouched(foreign)


def test_up_refuses_a_folder_that_holds_other_things(foreign: Path) -> None:
    with pytest.raises(
        LocalError, match=r"thesis: contains files .* would delete .*--dir or GPUPOOL_LOCAL_DIR"
    ):
        ControlPlane(foreign).up()
    with (
        pytest.raises(LocalError, match="contains files"),
        Instance.locked(ControlPlane(foreign).layout, True),
    ):
        pass
    assert untouched(foreign)


def test_down_of_nothing_is_fine_and_makes_nothing(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["down", "--dir", str(tmp_path / "none")])
    assert done.exit_code == 0
    assert "nothing to stop" in done.output
    assert not (tmp_path / "none").exists()


def test_a_claimed_folder_is_private_and_goes_with_all_that_is_in_it(tmp_path: Path) -> None:
    plane = ControlPlane(tmp_path / "local")
    with Instance.locked(plane.layout, make=True):
        assert stat.S_IMODE(plane.layout.data.stat().st_mode) == 0o700
    (plane.layout.data / "logs").mkdir()
    (plane.layout.data / "logs" / "etcd.log").write_text("a line")
    (plane.layout.data / "elsewhere").symlink_to(tmp_path)
    assert plane.down()
    assert not plane.layout.data.exists()
    assert tmp_path.exists()


def test_an_empty_folder_can_be_claimed(tmp_path: Path) -> None:
    with Instance.locked(ControlPlane(tmp_path).layout, make=True):
        assert ControlPlane(tmp_path).layout.owned


@pytest.mark.parametrize("where", ["/proc/gpupool", "a-file", "a-file/below"])
def test_a_folder_that_cannot_be_is_said_plainly(tmp_path: Path, where: str) -> None:
    (tmp_path / "a-file").write_text("")
    layout = ControlPlane(tmp_path / where).layout
    with pytest.raises(LocalError, match=r"can't be the data folder .*--dir"), Instance.locked(layout, True):
        pass
