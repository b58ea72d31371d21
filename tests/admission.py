"""What an environment's API server would say of an object: its policies, parameters and classes, offline."""

from __future__ import annotations

from typing import Any

from gpupool.environment.plan.model import Plan
from gpupool.generators import generate
from gpupool.policy.gate import documents_of
from vapcheck import Kinds, from_bodies
from vapcheck.judging.judge import Judge
from vapcheck.judging.request import User
from vapcheck.manifests.documents import Document
from vapcheck.policy.policy_set import read_policies

Object = dict[str, Any]
ANYBODY = User("somebody", ("system:authenticated",))
JOB_CONTROLLER = User("system:serviceaccount:kube-system:job-controller", ("system:authenticated",))


def judge_of(plan: Plan) -> Judge:
    documents = documents_of(plan, generate(plan))
    return Judge(read_policies(documents), documents, Kinds.builtin())


def document_of(body: Object) -> Document:
    (document,) = from_bodies([body], "given")
    return document


def said(judge: Judge, body: Object, user: User = ANYBODY) -> list[str]:
    """Every denial and warning of creating `body`, and of its pods where policies judge templates."""
    findings = judge.judge(document_of(body), user=user)
    return [f"{finding.level} {finding.rule}: {finding.message}" for finding in findings]


def without(value: Any, key: str) -> Any:
    """`value` without `key`, wherever in it that is."""
    if isinstance(value, dict):
        return {name: without(item, key) for name, item in value.items() if name != key}
    return [without(item, key) for item in value] if isinstance(value, list) else value
