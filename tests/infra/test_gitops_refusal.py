"""`up` and `destroy` leave to Argo CD and Flux what they deliver, and say how to go on."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpupool.cli.app import app
from gpupool.environment.plan.resolve import read_plan
from gpupool.infra import gitops_refusal, stack
from gpupool.live.cluster.kubeconfig import KubeconfigError

EDGE = Path(__file__).parents[1] / "golden" / "delivery" / "edge-argocd.yaml"


def test_up_says_what_to_do_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(gitops_refusal.VARIABLE, raising=False)
    with pytest.raises(gitops_refusal.DeliveredError) as caught:
        stack.up(stack.read(str(EDGE)))
    assert "edge-argocd is delivered by Argo CD from git@git.example.com:ml/platform.git" in str(caught.value)
    assert "gpupool render edge-argocd -o rendered/edge" in str(caught.value)
    assert "gpupool up edge-argocd --despite-gitops" in str(caught.value)


def test_up_asks_before_it_previews() -> None:
    """A preview needs a cluster; that this is the wrong way is known without one."""
    done = CliRunner().invoke(app, ["up", str(EDGE)])
    assert isinstance(done.exception, gitops_refusal.DeliveredError)


def test_destroy_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack from before Argo CD still lists what Argo CD delivers now."""
    monkeypatch.delenv(gitops_refusal.VARIABLE, raising=False)
    done = CliRunner().invoke(app, ["destroy", str(EDGE), "--yes"])
    assert isinstance(done.exception, gitops_refusal.DeliveredError)
    assert "would recreate what is deleted here" in str(done.exception)
    assert "pulumi stack rm edge-argocd --force" in str(done.exception)
    assert "gpupool destroy edge-argocd --despite-gitops" in str(done.exception)


def test_up_goes_on_where_it_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as the cluster, and there is none."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("GPUPOOL_LOCAL_DIR", str(tmp_path / "local"))
    with pytest.raises(KubeconfigError):
        stack.up(stack.read(str(EDGE)), despite_gitops=True)
    with pytest.raises(KubeconfigError):
        stack.destroy(str(EDGE), despite_gitops=True)


def test_the_plain_command_line_has_a_variable_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(gitops_refusal.VARIABLE, "1")
    gitops_refusal.require_ours(read_plan(str(EDGE)))


def test_what_pulumi_delivers_is_ours() -> None:
    gitops_refusal.require_ours(read_plan("prod"))
