"""What a run says before an engine is started: no cluster, no file."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.environment.plan.resolve import read_plan
from gpupool.infra import stack
from gpupool.infra.stack import StackError
from gpupool.live.cluster.kube_api import UnreachableError
from gpupool.live.cluster.kubeconfig import KubeconfigError
from gpupool.live.objects import sharing_changes
from gpupool.policy import gate as policy_gate


@pytest.mark.parametrize("verb", [stack.preview, stack.up, stack.refresh, stack.destroy])
def test_without_a_control_plane_nothing_begins(
    verb: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPOOL_LOCAL_DIR", str(tmp_path / "none"))
    with pytest.raises(KubeconfigError, match=r"there is none in .*none; start it with: gpupool local up"):
        verb("local" if verb is stack.destroy else stack.read("local"))  # type: ignore[operator]
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
        stack.preview(stack.read("local"))
    assert len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / "pulumi").exists()


def test_a_file_is_judged_once_for_preview_and_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPOOL_LOCAL_DIR", str(tmp_path / "none"))
    judged: list[str] = []
    monkeypatch.setattr(policy_gate, "passed", lambda environment, *_: judged.append(environment))
    desired = stack.read("local")
    for verb in (stack.preview, stack.up):
        with pytest.raises(KubeconfigError):
            verb(desired)  # type: ignore[operator]
    desired._judgement.result()
    assert judged == ["local"]


def test_destroy_without_its_file_names_the_way_out() -> None:
    with pytest.raises(StackError, match=r"no environment 'nosuch'[\s\S]*pulumi destroy -s NAME"):
        stack.destroy("nosuch")


def test_what_is_done_to_running_nodes_is_said_in_plain_words() -> None:
    plan = read_plan("local")
    changed = {pool.name: [] for pool in plan.pools} | {"notebooks": ["a", "b"], "inference-mig": ["c"]}
    said = list(sharing_changes._notes(plan, changed, {"a": 2, "c": 1}))
    assert [note.partition(" To ")[0] for note in said] == [
        "pool notebooks: `up` changes how GPUs are shared on 2 nodes at once, and 2 GPU pods run there.",
        "pool inference-mig: `up` makes Karpenter replace 1 node, and 1 GPU pod runs there.",
    ]
    after = "change one node at a time, after its jobs have ended: gpupool repartition local notebooks"
    assert said[0].partition(" To ")[2] == after
