"""What an interrupted run leaves behind is recognised."""

from __future__ import annotations

import pytest

from infra.recovery import ProtectedError, has_hooks, locks, losses, pending, refuse_losses, without_pending

NAMESPACE = "urn:pulumi:prod::gpupool::kubernetes:core/v1:Namespace::Namespace/team-x"
POOL = "urn:pulumi:prod::gpupool::kubernetes:karpenter.sh/v1:NodePool::NodePool/a"
STATE = {
    "manifest": {},
    "resources": [{"urn": NAMESPACE, "protect": True}, {"urn": POOL}],
    "pending_operations": [{"type": "creating", "resource": {"urn": POOL}}],
}


def test_pending_operations_are_told_and_taken_out() -> None:
    assert pending(STATE) == ["creating NodePool/a"]
    clean = without_pending(STATE)
    assert pending(clean) == []
    assert clean["resources"] == STATE["resources"]


def test_only_protected_things_that_go_are_losses() -> None:
    assert losses(STATE, ["NodePool/a"]) == {"Namespace/team-x": NAMESPACE}
    assert losses(STATE, ["Namespace/team-x"]) == {}
    with pytest.raises(ProtectedError, match="gpupool up prod --allow-delete Namespace/team-x"):
        refuse_losses(losses(STATE, []), "prod")
    refuse_losses([], "prod")


def test_hooks_are_seen() -> None:
    assert not has_hooks(STATE)
    assert has_hooks({"resources": [{"urn": POOL, "resourceHooks": {"beforeDelete": ["x"]}}]})


def test_other_backends_have_no_lock_files() -> None:
    assert locks("s3://bucket", "gpupool", "prod") == []
