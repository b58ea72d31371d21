"""What an interrupted run leaves behind is recognised."""

from __future__ import annotations

import pytest

from gpupool.findings import UsageError
from gpupool.infra.recovery import consent, has_hooks, losses, pending, require_going, without_pending

NAMESPACE = "urn:pulumi:prod::gpupool::kubernetes:core/v1:Namespace::Namespace/team-x"
POOL = "urn:pulumi:prod::gpupool::kubernetes:karpenter.sh/v1:NodePool::NodePool/a"
STATE = {
    "manifest": {},
    "resources": [{"urn": NAMESPACE, "protect": True}, {"urn": POOL}],
    "pending_operations": [{"type": "creating", "resource": {"urn": POOL}}],
}


def test_pending_operations_are_reported_and_taken_out() -> None:
    assert pending(STATE) == ["creating NodePool/a"]
    clean = without_pending(STATE)
    assert pending(clean) == []
    assert clean["resources"] == STATE["resources"]


def test_only_protected_things_that_go_are_losses() -> None:
    assert losses(STATE, ["NodePool/a"]) == {"Namespace/team-x": NAMESPACE}
    assert losses(STATE, ["Namespace/team-x"]) == {}
    reported = consent(losses(STATE, []), "prod")
    assert reported is not None
    assert "gpupool up prod --allow-delete Namespace/team-x" in reported
    assert consent([], "prod") is None


def test_consent_to_what_does_not_go_is_refused() -> None:
    kept = ["NodePool/a"]
    require_going(["Namespace/team-x"], STATE, kept)
    with pytest.raises(UsageError, match=r"nonsense: .* it would delete Namespace/team-x"):
        require_going(["nonsense"], STATE, kept)
    with pytest.raises(UsageError, match="nothing protected would be deleted"):
        require_going(["Namespace/team-x"], STATE, ["Namespace/team-x", *kept])
    unprotected = {"resources": [{"urn": NAMESPACE}]}
    require_going(["Namespace/team-x"], unprotected, [])  # a run that was stopped is repeated


def test_hooks_are_seen() -> None:
    assert not has_hooks(STATE)
    assert has_hooks({"resources": [{"urn": POOL, "resourceHooks": {"beforeDelete": ["x"]}}]})
