"""What a run says before an engine is started: no cluster, no file."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.cluster.kube_api import UnreachableError
from gpupool.cluster.kubeconfig import KubeconfigError
from infra import stack
from infra.stack import StackError


@pytest.mark.parametrize("verb", [stack.preview, stack.up, stack.refresh, stack.destroy])
def test_without_a_control_plane_nothing_begins(
    verb: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPOOL_LOCAL_DIR", str(tmp_path / "none"))
    with pytest.raises(KubeconfigError, match=r"none is at .*none; start it with: gpupool local up"):
        verb("local")  # type: ignore[operator]
    assert not (tmp_path / "none").exists()


KUBECONFIG = """
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: prod-eu, context: {cluster: c, user: u}}, {name: x, context: {cluster: c, user: u}}]
current-context: x
"""


def test_a_control_plane_that_is_dead_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    monkeypatch.setenv("GPUPOOL_LOCAL_DIR", str(tmp_path))
    with pytest.raises(UnreachableError, match="does not answer; `gpupool local status`") as caught:
        stack.preview("local")
    assert len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / "pulumi").exists()


def test_destroy_without_its_file_names_the_way_out() -> None:
    with pytest.raises(StackError, match=r"no environment 'nosuch'[\s\S]*pulumi destroy -s NAME"):
        stack.destroy("nosuch")
