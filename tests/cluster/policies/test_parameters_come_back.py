"""Parameters are read again after all policies that had some were gone, as between two environments."""

from __future__ import annotations

import time
from typing import Any

from gpupool.live.cluster.kube_api import ApiError

Object = dict[str, Any]
GROUP = "admissionregistration.k8s.io/v1"
NAME = "parameters-come-back"


def objects(word: str) -> list[Object]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["services"]}
    reference = {"name": NAME, "namespace": "default", "parameterNotFoundAction": "Allow"}
    metadata = {"name": NAME}
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata | {"namespace": "default"},
            "data": {"x": word},
        },
        {
            "apiVersion": GROUP,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": metadata,
            "spec": {
                "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": "false", "messageExpression": "'said ' + params.data.x"}],
            },
        },
        {
            "apiVersion": GROUP,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata,
            "spec": {"policyName": NAME, "validationActions": ["Deny"], "paramRef": reference},
        },
    ]


def test_parameters_are_read_again(kube: Any) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": "default"},
        "spec": {"ports": [{"port": 80}]},
    }

    def said() -> str:
        try:
            kube.api.apply(service, "tests", force=True, dry_run=True)
        except ApiError as error:
            return str(error)
        return ""

    for word in ("one", "two"):
        made = objects(word)
        try:
            kube.apply(*made)
            kube.wait(f"the policy says {word}", lambda w=word: f"said {w}" in said())
        finally:
            for body in reversed(made):
                kube.api.delete(body["apiVersion"], body["kind"], NAME, body["metadata"].get("namespace"))
        kube.wait("the policy is gone", lambda: not said())
        time.sleep(3)  # past the moment at which the server stops watching what is unused
