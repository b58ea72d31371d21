"""Delivery by Argo CD or Flux: where the rendered files are, and settings that those two don't support."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from gpupool.environment.plan.checks.context import CheckContext, PlanProblem
from gpupool.environment.plan.delivery import ENGINE_FACTS, Engine
from gpupool.environment.spec.yaml_source import Loc
from gpupool.findings.address_secrets import secret_in

ENVIRONMENT_NAME_MAX = 42
"""The longest derived name is `gpupool-<environment>-gpu-operator`, which Argo CD and Flux put into labels of
at most 63 characters."""
_PROJECT_NAME_MAX = 54
"""`<project>-releases` is a label value as well."""

_REPOSITORY = re.compile(r"(https?|ssh|oci)://[^/\s]+(/\S*)?")
_SCP = re.compile(r"[\w.-]+@[\w.-]+:\S+")
"""git@host:path, which not every engine takes for SSH."""


def source(context: CheckContext) -> Iterator[PlanProblem]:
    """The repository and the folder in it."""
    delivery, name = context.environment.delivery, context.environment.metadata.name
    if delivery.engine == "pulumi":
        return
    if delivery.repo is None:
        message = f"engine {delivery.engine} needs the repository that holds the rendered files"
        yield PlanProblem(
            ("delivery", "repo"), message, "add it, e.g. https://git.example.com/ml/platform.git"
        )
    else:
        yield from _repository(ENGINE_FACTS[delivery.engine], delivery.repo)
    if delivery.path is None:
        message = f"engine {delivery.engine} needs the folder of the rendered files in the repository"
        yield PlanProblem(("delivery", "path"), message, f"add it, e.g. rendered/{name}")
    else:
        parts = PurePosixPath(delivery.path)
        if parts.is_absolute() or ".." in parts.parts or "\\" in delivery.path:
            message = f"{delivery.path!r} is not a folder inside the repository"
            remediation = f"write it from the repository's root, e.g. rendered/{name}"
            yield PlanProblem(("delivery", "path"), message, remediation)


def _repository(engine: Engine, repo: str) -> Iterator[PlanProblem]:
    if secret := secret_in(repo):
        # Not repeated in the message: it goes to logs.
        message = f"the address contains a secret ({secret}), which every reader of the file could see"
        yield PlanProblem(
            ("delivery", "repo"), message, f"remove it; {engine.name} reads it from {engine.credentials}"
        )
    elif _SCP.fullmatch(repo) and not engine.takes_scp:
        host, _, path = repo.partition(":")
        remediation = f"write ssh://{host}/{path.lstrip('/')}"
        yield PlanProblem(
            ("delivery", "repo"), f"{engine.title} does not accept the address {repo!r}", remediation
        )
    elif not (_REPOSITORY.fullmatch(repo) or _SCP.fullmatch(repo)):
        message = f"{repo!r} is not an address of a repository"
        yield PlanProblem(("delivery", "repo"), message, "use https://, ssh:// or, for a registry, oci://")


def settings(context: CheckContext) -> Iterator[PlanProblem]:
    """Settings that the chosen engine would not read, or has no way to follow."""
    delivery = context.environment.delivery
    chosen = not context.gaps.covers(("delivery", "engine"))
    for section in ENGINE_FACTS if chosen else ():
        if section in delivery.model_fields_set and delivery.engine != section:
            message = f"there are settings of {section}, but the engine is {delivery.engine}"
            remediation = f"remove them, or set delivery.engine to {section}"
            yield PlanProblem(("delivery", section), message, remediation, judged_by=(("delivery", section),))
    destination = delivery.argocd.destination
    if destination.server is not None and destination.name is not None:
        message = "the cluster has both an address and a name; Argo CD accepts only one"
        yield PlanProblem(("delivery", "argocd", "destination", "name"), message, "remove one of them")
    engine = ENGINE_FACTS[delivery.engine]
    if delivery.on_removal == "confirm" and not engine.asks:
        message = f"{engine.title} can't ask for confirmation before it deletes something"
        yield PlanProblem(("delivery", "onRemoval"), message, "use keep and delete manually, or use delete")


def names(context: CheckContext) -> Iterator[PlanProblem]:
    """Applications and Kustomizations are named after the environment, and labels hold those names."""
    environment = context.environment
    if environment.delivery.engine == "pulumi":
        return
    name, project = environment.metadata.name, environment.delivery.argocd.project
    if len(name) > ENVIRONMENT_NAME_MAX:
        engine = environment.delivery.engine
        message = f"{name!r} has {len(name)} characters; names of {engine}'s objects would exceed 63"
        yield PlanProblem(("metadata", "name"), message, f"use at most {ENVIRONMENT_NAME_MAX}")
    if project is not None and len(project) > _PROJECT_NAME_MAX:
        message = f"{project!r} has {len(project)} characters; the project of the charts would exceed 63"
        yield PlanProblem(("delivery", "argocd", "project"), message, f"use at most {_PROJECT_NAME_MAX}")


def existing_nodes(context: CheckContext) -> Iterator[PlanProblem]:
    """Of a node that the file names, files can carry the labels, and its taints not. Nodes that a selector
    chooses have both from their node group: nothing of them is rendered."""
    environment = context.environment
    engine = environment.delivery.engine
    if engine == "pulumi" or context.platform is None:
        return
    loc: Loc
    for index, pool in enumerate(environment.pools):
        if context.buys(pool) or pool.nodes.selector:
            continue
        if pool.taints is None or pool.taints or context.gaps.touches(("pools", index, "taints")):
            # spec.taints is one value: the manager that applies it owns the whole list (Kubernetes 1.36,
            # Node).
            message = (
                f"{engine} would own the nodes' whole list of taints and remove taints of others, including "
                "not-ready"
            )
            remediation = (
                "choose the nodes by selector, which leaves labels and taints to their node group, or write "
                "taints: [], or deliver with engine pulumi"
            )
            loc = ("pools", index, "taints")
            yield PlanProblem(loc, message, remediation, judged_by=(loc,))
