"""What is judged before anything is sent: policies, rules over the bundle, waivers. No cluster, no Pulumi."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.environment.plan.resolve import read_plan
from gpupool.policy.gate import PolicyRefusalError, judge, require, shown
from tests.environment_files import environment_data, write_environment
from vapcheck import from_bodies
from vapcheck.judging.redaction import WITHHELD

TODAY = date(2026, 6, 1)
SITE_POLICIES = Path(__file__).parents[1] / "site_policies"
POOL: dict[str, Any] = {
    "name": "models",
    "gpu": "a100-80gb",
    "nodes": {"instanceTypes": ["p4de.24xlarge"], "max": 2},
}


def plan_of(folder: Path, pool: dict[str, Any] = POOL, **more: Any) -> Any:
    shutil.copytree(SITE_POLICIES, folder / "policies", dirs_exist_ok=True)
    file = write_environment(folder / "environments", environment_data("local", pools=[pool], **more))
    return read_plan(str(file))


def never(pool: dict[str, Any] = POOL) -> dict[str, Any]:
    """A pool whose nodes never go, which the site's own policy `nodes-go` forbids."""
    return {**pool, "nodes": {**pool["nodes"], "expireAfter": "Never", "consolidateAfter": "Never"}}


def rules(report: Any, level: str) -> set[str]:
    return {finding.rule for finding in report.findings if finding.level == level}


def waiver(**more: str) -> dict[str, Any]:
    given = {"policy": "nodes-go", "owner": "mlops", "reason": "trial", "until": "2026-05-31"}
    return {"waivers": [{**given, **more}]}


@pytest.mark.parametrize("environment", ["dev", "homelab", "local", "prod", "staging"])
def test_shipped_environments_are_let_through(environment: str) -> None:
    report = judge(read_plan(environment), TODAY)
    require(environment, report)
    assert report.objects > 10
    assert report.evaluations > 0


def test_a_denial_is_refused_with_object_and_remedy(tmp_path: Path) -> None:
    report = judge(plan_of(tmp_path, never()), TODAY)
    with pytest.raises(PolicyRefusalError) as caught:
        require("trial", report)
    text = str(caught.value)
    assert "deny nodes-go: NodePool models: " in text
    assert "; Set consolidateAfter" in text
    assert text.splitlines()[-1].startswith("policy refuses trial: 1 denial; ")
    assert all(finding.category in ("deny", "warn") for finding in caught.value.findings)


def test_an_override_makes_it_a_warning(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, never(), policies={"overrides": {"nodes-go": "warn"}})
    report = judge(plan, TODAY)
    require("trial", report)
    assert "nodes-go" in {finding.code for finding in shown(report)}


@pytest.mark.parametrize(("today", "denied"), [(date(2026, 5, 31), set()), (TODAY, {"expired-waiver"})])
def test_a_waiver_holds_to_its_last_day(tmp_path: Path, today: date, denied: set[str]) -> None:
    report = judge(plan_of(tmp_path, never(), policies=waiver()), today)
    assert rules(report, "deny") == denied
    for finding in report.findings:
        if finding.rule == "expired-waiver":
            assert finding.path == "policies.waivers[0].until"
            assert "mlops" in finding.message


def test_rules_over_the_bundle_are_among_it(tmp_path: Path) -> None:
    report = judge(plan_of(tmp_path, cost={"monthlyUsdMax": 1}), TODAY)
    assert "cost-within-ceiling" in rules(report, "deny")


def never_any(resource: str, **more: Any) -> list[dict[str, Any]]:
    """A policy that denies every object of a kind, and its binding."""
    group, name = "admissionregistration.k8s.io/v1", {"name": "never-any"}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "none here", **more}],
    }
    binding = {"policyName": "never-any", "validationActions": ["Deny"]}
    return [
        {"apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": name, "spec": spec},
        {"apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding", "metadata": name, "spec": binding},
    ]


def test_the_projects_own_policies_hold(tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "own.yaml").write_text(yaml.safe_dump_all(never_any("namespaces")))
    assert rules(judge(plan_of(tmp_path), TODAY), "deny") == {"never-any"}


@pytest.mark.parametrize(("resource", "denied"), [("namespaces", {"never-any"}), ("nodes", set())])
def test_other_policies_hold_but_not_for_patches(resource: str, denied: set[str]) -> None:
    """The machines of a home lab are somebody else's objects: of those only our fields are known here."""
    extra = from_bodies(never_any(resource), "extra")
    assert rules(judge(read_plan("homelab"), TODAY, extra), "deny") == denied


def test_what_a_secret_holds_is_not_shown() -> None:
    policy, binding = never_any("namespaces", messageExpression="'psst: ' + params.data.token")
    policy["spec"]["paramKind"] = {"apiVersion": "v1", "kind": "Secret"}
    where = {"name": "tokens", "namespace": "default"}
    binding["spec"]["paramRef"] = {**where, "parameterNotFoundAction": "Deny"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": where, "data": {"token": "aHVudGVyMi0yMg=="}}
    report = judge(read_plan("homelab"), TODAY, from_bodies([policy, binding, secret], "extra"))
    found = [finding for finding in report.findings if finding.rule == "never-any"]
    assert {finding.message for finding in found} == {f"none here ({WITHHELD})"}
    assert "aHVudGVyMi0yMg==" not in str(report)


def test_the_gate_needs_no_pulumi() -> None:
    code = (
        "import sys; from datetime import date; from gpupool.environment.plan.resolve import read_plan; "
        "from gpupool.policy.gate import judge; judge(read_plan('dev'), date.today()); "
        "sys.exit(any(name.split('.')[0] in ('pulumi', 'kubernetes', 'grpc') for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
