"""A finished check with one of everything that an output has to cope with."""

from __future__ import annotations

from gpupool.policy.result import Check
from vapcheck import ObjectRef, PolicyFinding, Report

POD = ObjectRef("v1", "Pod", "team-vision", "train")
JOB = ObjectRef("batch/v1", "Job", "team-vision", "nightly")
NODE_POOL = ObjectRef("karpenter.sh/v1", "NodePool", None, "a100")

DENIED = PolicyFinding(
    level="deny",
    rule="gpu-pods-name-a-pool",
    message="Pod asks for 2 GPUs, names no pool: 100% unplaced\nsee docs",
    binding="gpu-pods-name-a-pool",
    object=POD,
    file="manifests/a pod.yaml",
    line=12,
    column=3,
    path="spec.containers[0]",
    reason="Forbidden",
    expression="variables.gpus == 0 ||\n  has(object.spec.nodeSelector)",
    values={"variables.gpus": 2, "variables.names": ["a", "b" * 300]},
    title="GPU pods name a pool",
    why="Without a pool the scheduler takes any GPU node.",
    remediation="Add nodeSelector gpupool.dev/pool: <pool>.",
)
DENIED_AGAIN = PolicyFinding(
    level="deny",
    rule="gpu-pods-name-a-pool",
    message="names two pools",
    object=POD,
    file="manifests/a pod.yaml",
    line=12,
    expression="size(variables.pools) < 2",
)
WARNED = PolicyFinding(
    level="warn",
    rule="job-budget",
    message="no budget, title: a,b",
    object=JOB,
    file="manifests/job.yaml",
    line=1,
    title="Long jobs have a budget",
)
AUDITED = PolicyFinding(
    level="audit",
    rule="node-pools-bounded",
    message="no limits \x1b[31m\x00",
    object=NODE_POOL,
    file="manifests/pools.yaml",
    line=40,
)
UNMATCHED = PolicyFinding(
    level="audit",
    rule="unmatched-policy",
    origin="engine",
    message="matched no object: matchConditions exclude everything",
    object=ObjectRef("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", None, "idle"),
    file="policies/idle.yaml",
    line=1,
)
UNPLACED = PolicyFinding(
    level="warn",
    rule="monthly-cost",
    origin="bundle",
    message="costs $41,000 a month; the ceiling is $40,000",
)
FINDINGS = (WARNED, UNMATCHED, UNPLACED, DENIED, AUDITED, DENIED_AGAIN)
MATCHED = {"gpu-pods-name-a-pool": 3, "job-budget": 1, "node-pools-bounded": 2, "idle": 0, "quiet": 4}


def sample(*findings: PolicyFinding) -> Check:
    """A check with the given findings, or with all."""
    report = Report(findings or FINDINGS, objects=7, evaluations=42, matched=MATCHED)
    return Check(report, targets=("manifests", "-"), policies_from=("policies",), seconds=0.25)


def clean() -> Check:
    """A check that found nothing."""
    return Check(Report((), 1, 3, {"quiet": 1}), ("x.yaml",), ("x.yaml",), 0.04)
