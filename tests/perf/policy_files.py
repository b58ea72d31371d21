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
