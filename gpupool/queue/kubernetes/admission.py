"""Whether the cluster's policies would take a new job: its Job, its Service and its pod, judged before it is
stored as the API server judges them later.

The policies, their parameters and the namespaces are those that the environment's Plan amounts to. Only a
validation that does not hold refuses: what can't be evaluated here is left to the cluster. This module must
hold no rule of its own, and not ask the cluster.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import structlog

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.pods import LAUNCHER_USER
from gpupool.findings import GpupoolError
from gpupool.queue.domain.current import Current
from gpupool.queue.domain.supply import hold_for
from gpupool.queue.kubernetes import job_manifest
from gpupool.queue.records import Job, Offer

if TYPE_CHECKING:  # the engine is imported in the thread that reads policies
    from vapcheck import Compiler, Document

log = structlog.get_logger()

Object = dict[str, Any]

JOB_FIELD = "job-field"
"""Annotation of a policy (after the engine's prefix): the field of a request that it judges."""
JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"
"""Creates the pods of Jobs."""
TRACKED = "batch.kubernetes.io/job-tracking"
"""Finalizer that the Job controller gives its pods (Kubernetes 1.36 documentation, Jobs)."""
ANY_JOB = "00000000-0000-7000-8000-000000000000"
"""Stands for the ids of a job and of the database: no verdict depends on them."""
FREE_FIELDS = frozenset({"command", "env"})
"""Fields of the container that differ from job to job. They matter only to policies that name them."""
_FREE_FIELD = re.compile(rf"""(?:\.\??|(?<=[\w\])])\[\??\\?['"])({"|".join(FREE_FIELDS)})\b""")
"""How a policy reads one; in a list of fields that a container may have, it is a word only."""
REMEMBERED = 1024
"""Verdicts that are kept, each of about 3 KiB."""
LONGEST = 16_384
"""Characters of a manifest whose verdict is kept."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One policy that would not take a job."""

    policy: str
    message: str
    """In the policy's words."""
    field: str | None
    """The field of the request that it is about, where that is known."""

    def __str__(self) -> str:
        return f"policy {self.policy}: {self.message}"


class Verdicts:
    """What the policies of one Plan say of jobs; remembered for jobs that are alike to them."""

    def __init__(self, documents: Sequence[Document], compiler: Compiler, kubernetes: str) -> None:
        """`kubernetes`: the cluster's version, as 1.36."""
        from vapcheck import Judge, Kinds, PolicySet, read_policies

        self._kinds = Kinds.builtin(kubernetes).with_crds(documents)
        bounds = read_policies(documents, self._kinds, compiler).policies
        policies = [bound.compiled.policy for bound in bounds]
        self._fields = {policy.name: policy.text(JOB_FIELD) for policy in policies}
        named = [frozenset(_FREE_FIELD.findall(json.dumps(policy.document.body))) for policy in policies]
        self._judges = [
            Judge(PolicySet(tuple(itertools.compress(bounds, chosen)), ()), documents, self._kinds)
            for chosen in (named, [not fields for fields in named])
        ]
        """Of the policies that name a free field, and of the others."""
        self._unread = (FREE_FIELDS - frozenset().union(*named), FREE_FIELDS)
        """The free fields that matter to none of them."""
        self._remembered = functools.lru_cache(REMEMBERED)(self._judged)

    def refusals(self, job: Job, offer: Offer, present: Current) -> list[Refusal]:
        """Why the cluster would not take the job's first attempt on this offer; nothing where it would."""
        tenant = present.tenants[job.tenant]
        made = job_manifest.manifest(_placed(job, offer, present), present.plan, tenant, database=ANY_JOB)
        container = made["spec"]["template"]["spec"]["containers"][0]
        refusals = []
        for number, unread in enumerate(self._unread):
            for name in unread:
                container.pop(name, None)
            text = json.dumps(made)
            judged = self._remembered if len(text) <= LONGEST else self._judged
            for policy, message, place in judged(number, text):
                refusals.append(Refusal(policy, message, _field(place) or self._fields[policy] or None))
        return refusals

    def _judged(self, number: int, text: str) -> tuple[tuple[str, str, str], ...]:
        """What one of the judges refuses: the policy, its message, and the place in the object."""
        from vapcheck import from_bodies, identity

        judge = self._judges[number]
        made: Object = json.loads(text)
        findings = [
            finding
            for body, user in self._created(made)
            for finding in judge.judge(from_bodies([body], "")[0], user=identity(user), templates=False)
        ]
        # A finding without the validation's reason is an error.
        return tuple(
            (one.rule, one.message, one.path)
            for one in findings
            if one.level == "deny" and one.origin == "policy" and one.reason
        )

    def _created(self, made: Object) -> Iterator[tuple[Object, str]]:
        """Everything that is created for an attempt, and by which user."""
        from vapcheck import UID, as_admitted, pod_templates

        yield made, LAUNCHER_USER
        service = job_manifest.service({**made, "metadata": {**made["metadata"], "uid": UID}})
        if service is not None:
            yield service, LAUNCHER_USER
        for _, pod in pod_templates(as_admitted(made, self._kinds, operation="CREATE")):
            owner = {"apiVersion": made["apiVersion"], "kind": made["kind"], "name": made["metadata"]["name"]}
            pod["metadata"]["ownerReferences"] = [
                {**owner, "uid": UID, "controller": True, "blockOwnerDeletion": True}
            ]
            pod["metadata"]["finalizers"] = [*pod["metadata"]["finalizers"], TRACKED]
            yield pod, JOB_CONTROLLER


class Admission:
    """The verdicts of the present Plan. `objects` gives everything that a Plan amounts to."""

    def __init__(self, objects: Callable[[Plan], Sequence[Document]]) -> None:
        self._objects = objects
        self._compiler: Compiler | None = None
        self._reading = asyncio.Lock()
        self._read_for: Current | None = None
        self._verdicts: Verdicts | None = None

    async def verdicts(self, present: Current) -> Verdicts | None:
        """Those of this Plan, read in a thread where it is a new one. Where its policies can't be read, those
        of the Plan before, if any."""
        if self._read_for is not present:
            async with self._reading:
                if self._read_for is not present:
                    try:
                        self._verdicts = await asyncio.to_thread(self._read, present.plan)
                    except GpupoolError as error:
                        log.error("policies.unread", error=str(error), plan=present.hash)
                    self._read_for = present
        return self._verdicts

    def _read(self, plan: Plan) -> Verdicts:
        from vapcheck import Compiler

        self._compiler = self._compiler or Compiler()
        return Verdicts(self._objects(plan), self._compiler, plan.cluster.kubernetes_version)


def _placed(job: Job, offer: Offer, present: Current) -> Job:
    """The job as its first attempt would be on this offer."""
    size = present.plan.pool(offer.pool).slices_per_node[offer.resource]
    cost = hold_for(offer.rate_micro, job.timeout_s)
    return replace(
        job,
        id=ANY_JOB,
        attempt=1,
        pool=offer.pool,
        resource=offer.resource,
        capacity_type=min(present.supply.pools[offer.pool].types),
        placement=tuple((node, min(size, offer.units)) for node in range(max(1, offer.units // size))),
        hold_micro=cost if job.budget_limit_micro is None else min(cost, job.budget_limit_micro),
    )


def _field(place: str) -> str | None:
    """The field of the request that the part of the manifest at `place` follows from."""
    parts = reversed(re.findall(r"[A-Za-z]+", place))
    return next(
        (job_manifest.FROM_REQUEST[part] for part in parts if part in job_manifest.FROM_REQUEST), None
    )
