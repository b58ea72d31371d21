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
    assert "would accept the rest" in printed
    assert gitops_kinds.get("karpenter.sh/v1", "NodePool", "models") is None
    trial.kubectl("apply", "-f", "-", text=_POLICY)
    try:

        def refused() -> bool:
            return "NodePool models: the cluster would refuse it" in trial.gpupool("render", *options, code=1)

        gitops_kinds.wait("the policy is in force", refused)
    finally:
        trial.kubectl("delete", "-f", "-", text=_POLICY)


def test_what_new_parameters_may_allow_is_listed_and_does_not_fail(trial: Trial) -> None:
    trial.deliver_by("pulumi")
    trial.gpupool("up", "--yes")
    try:
        data = deepcopy(ENVIRONMENT)
        data["pools"][0]["nodes"]["max"] = 8
        data["tenants"][0]["pools"]["notebooks"]["gpus"] = 6
        trial.write(data)
        trial.render()
        options = ("--check", "--cluster", "-o", str(trial.rendering), "--format", "json")
        answer = json.loads(trial.gpupool("render", *options))["cluster"]
        assert answer["policiesChange"] is True
        quota = next(row for row in answer["refused"] if row["object"].startswith("ResourceQuota"))
        assert "gpupool" in quota["message"]
    finally:
        trial.gpupool("destroy", "--yes", "--force")
