"""Where a stack's state is kept: never in a folder that goes before the stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.environment import project
from gpupool.infra.pulumi_plugins import env as pulumi_env
from gpupool.live.cluster.local_layout import Layout

VARIABLE = "PULUMI_BACKEND_URL"


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """The folder of a control plane, in a path that a URL spells otherwise."""
    layout = Layout(tmp_path / "here & there")
    layout.pulumi.mkdir(parents=True)
    layout.marker.touch()
    monkeypatch.setenv("GPUPOOL_LOCAL_DIR", str(layout.data))
    monkeypatch.delenv(VARIABLE, raising=False)
    return layout


def test_a_local_stack_goes_with_its_control_plane(local: Layout) -> None:
    assert pulumi_env.backend("local")[VARIABLE] == pulumi_env.file_backend(local.pulumi)


def test_no_other_does_in_a_shell_for_the_local_one(local: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """`gpupool local env` exports the backend for the plain pulumi command."""
    monkeypatch.setenv(VARIABLE, pulumi_env.backend("local")[VARIABLE])
    assert pulumi_env.backend("eks")[VARIABLE] == pulumi_env.file_backend(project.root())


@pytest.mark.parametrize("url", ["s3://states", "file:///srv/states?metadata=skip", "https://pulumi.example"])
def test_a_backend_of_the_user_wins(local: Layout, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv(VARIABLE, url)
    assert VARIABLE not in pulumi_env.backend("eks")
