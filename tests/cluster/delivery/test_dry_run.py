"""`render --check --cluster`: what the cluster would refuse, and that nothing changes by asking."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

from tests.cluster.delivery.conftest import ENVIRONMENT, Trial

# A webhook or a quota of another tool's, as a policy of the cluster's own.
_POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-models}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - {apiGroups: [karpenter.sh], apiVersions: [v1], resources: [nodepools], operations: [CREATE, UPDATE]}
  validations:
    - {expression: "object.metadata.name != 'models'", message: no models here}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-models}
spec: {policyName: no-models, validationActions: [Deny]}
"""


def test_the_cluster_is_asked_and_stays_as_it_is(trial: Trial, gitops_kinds: Any) -> None:
    trial.deliver_by("argocd")
    trial.render()
    options = ("--check", "--cluster", "-o", str(trial.rendering))
    printed = trial.gpupool("render", *options)
    assert "can't be tried" in printed
    assert "would accept the others" in printed
    assert gitops_kinds.api.get("karpenter.sh/v1", "NodePool", "models") is None
    trial.kubectl("apply", "-f", "-", text=_POLICY)
    try:

        def refused() -> bool:
            return "NodePool models: the cluster would refuse it" in trial.gpupool("render", *options, code=1)

        gitops_kinds.wait("the policy is in force", refused)
    finally:
        trial.kubectl("delete", "-f", "-", text=_POLICY)


def test_a_change_to_pools_tenants_and_policies_at_once_is_accepted(trial: Trial) -> None:
    """Though what is in the cluster judges by the parameters before."""
    trial.deliver_by("pulumi")
    trial.gpupool("up", "--yes")
    try:
        data = deepcopy(ENVIRONMENT)
        data["pools"][0]["nodes"]["max"] = 8
        data["pools"][0]["sharing"]["replicas"] = 6
        data["pools"].append({**data["pools"][0], "name": "jobs"})
        data["tenants"][0]["pools"]["notebooks"]["gpus"] = 6
        data["priorities"][0]["value"] = 901
        trial.write(data)
        trial.render()
        options = ("--check", "--cluster", "-o", str(trial.rendering), "--format", "json")
        answer = json.loads(trial.gpupool("render", *options))["cluster"]
        assert answer["refused"] == []
        assert "PriorityClass trial-serving" in answer["untried"]
    finally:
        trial.gpupool("destroy", "--yes")
