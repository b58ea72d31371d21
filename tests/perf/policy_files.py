"""The rules of policy_rules as ValidatingAdmissionPolicies with bindings, as many as are wanted.

It must not judge anything. Beyond ten, the same rules come again under other names and with validations of
other texts; their variables stay the same, as people copy them from policy to policy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

RULES = Path(__file__).with_name("policy_rules")
_API = "admissionregistration.k8s.io/v1"
Body = dict[str, Any]
_POD_SPEC = (
    "object.kind == 'Pod' ? object.spec : object.kind == 'CronJob' ? "
    "object.spec.jobTemplate.spec.template.spec : object.spec.template.spec"
)


def write(folder: Path, policies: int) -> Path:
    """Write so many policies with their bindings into `folder`, a file each, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    known = yaml.safe_load((RULES / "rules.yaml").read_text())
    for number in range(policies):
        rule = known["rules"][number % len(known["rules"])]
        policy = _policy(known, rule, number // len(known["rules"]))
        text = yaml.safe_dump_all([policy, _binding(policy["metadata"]["name"])], sort_keys=False)
        (folder / f"{policy['metadata']['name']}.yaml").write_text(text)
    return folder


def write_denying(folder: Path, policies: int) -> Path:
    """Write so many policies, each of which denies every container of two kinds, and return their folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(policies):
        name = f"limit-{number:03}"
        rule = {"apiGroups": ["", "apps", "batch"], "apiVersions": ["v1"], "operations": ["CREATE"]}
        rule["resources"] = ["pods", "cronjobs"] if number % 2 else ["deployments", "jobs"]
        missing = f"!c.?resources.limits[?'example.dev/r{number}'].hasValue()"
        spec = {
            "matchConstraints": {"resourceRules": [rule]},
            "variables": [
                {"name": "spec", "expression": _POD_SPEC},
                {"name": "wrong", "expression": f"variables.spec.containers.filter(c, {missing})"},
                {"name": "names", "expression": "variables.wrong.map(c, c.name)"},
            ],
            "validations": [
                {
                    "expression": "variables.names.size() == 0",
                    "messageExpression": f"variables.names.join(', ') + ' without a limit of r{number}'",
                }
            ],
        }
        policy = {"apiVersion": _API, "kind": "ValidatingAdmissionPolicy"}
        documents = [{**policy, "metadata": {"name": name}, "spec": spec}, _binding(name)]
        (folder / f"{name}.yaml").write_text(yaml.safe_dump_all(documents, sort_keys=False))
    return folder


def _policy(known: Body, rule: Body, turn: int) -> Body:
    name = rule["name"] if turn == 0 else f"{rule['name']}-{turn}"
    variables = [
        {"name": wanted, "expression": known["variables"][wanted]} for wanted in rule.get("variables", ())
    ]
    validations = [dict(validation) for validation in rule["validations"]]
    if turn:
        for row in validations:
            row["expression"] = f"({row['expression']}) || object.metadata.name == 'exempt-{turn}'"
    spec: Body = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": known["matches"][rule["matches"]]},
        "validations": validations,
    }
    if variables:
        spec["variables"] = variables
    return {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


def _binding(policy: str) -> Body:
    return {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": policy},
        "spec": {"policyName": policy, "validationActions": ["Deny"]},
    }
