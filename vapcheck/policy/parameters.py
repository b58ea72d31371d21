"""Which parameter objects a binding hands to its policy.

After `CollectParams` of the API server 1.36 (`admission/plugin/policy/generic`). The parameters are those of
the bundle; nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from vapcheck.policy.model import Binding, Policy
from vapcheck.server.kinds import Kinds

Body = dict[str, Any]
NOT_FOUND = "no params found for policy binding with `Deny` parameterNotFoundAction"


GIVE_THE_CRD = "Add the CustomResourceDefinition of the parameters to the manifests, or use --policies."


class ParameterError(Exception):
    """The parameters are not available; the text is the API server's, which names neither them nor the
    binding."""

    def __init__(self, text: str, remediation: str = "") -> None:
        super().__init__(text)
        self.remediation = remediation
        """What to do, with the names."""


class Parameters:
    """The objects of a bundle that may serve as parameters."""

    def __init__(self, bodies: Iterable[Body], kinds: Kinds) -> None:
        self._kinds = kinds
        self._by_kind: dict[tuple[str, str], list[Body]] = {}
        seen: set[tuple[str, str, str, str]] = set()
        for body in bodies:
            kind = (str(body.get("apiVersion", "")), str(body.get("kind", "")))
            metadata = _metadata(body)
            identity = (*kind, str(metadata.get("namespace") or "default"), str(metadata.get("name", "")))
            if identity not in seen:  # a cluster has one; the first given is nearest to what is judged
                seen.add(identity)
                self._by_kind.setdefault(kind, []).append(body)

    def unknown_kind(self, policy: Policy) -> str | None:
        """What the server says of a policy whose kind of parameters it does not know: neither built in, nor
        of a definition, nor that of any object."""
        if policy.param_kind is None or self._kinds.resource(*policy.param_kind):
            return None
        if policy.param_kind in self._by_kind:
            return None  # given without its definition, which the cluster has if it has the object
        group, _, version = policy.param_kind[0].rpartition("/")
        kind = f"{group}/{version}, Kind={policy.param_kind[1]}"
        return f"failed to configure policy: failed to find resource referenced by paramKind: '{kind}'"

    def of(self, policy: Policy, binding: Binding, namespace: str) -> list[Body | None]:
        """One item for each evaluation: a parameter, or None where the policy takes none.

        Empty where nothing is to be evaluated (parameterNotFoundAction Allow). Raises ParameterError.
        """
        if policy.param_kind is None or binding.param_ref is None:
            return [None]
        api_version, kind = policy.param_kind
        reference = binding.param_ref
        where = ""
        resource = self._kinds.resource(api_version, kind)
        candidates = self._by_kind.get((api_version, kind), [])
        if resource is None:  # only its objects are known, and not whether they have namespaces
            where = reference.namespace
            candidates = [body for body in candidates if where in ("", _metadata(body).get("namespace"))]
        elif resource.namespaced:
            where = reference.namespace or namespace
            if not where:
                raise ParameterError(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources",
                    f"Name a namespace for the {kind} in spec.paramRef.namespace of {_place(binding)}, since "
                    "the object has none; or exclude cluster-scoped objects from what it matches.",
                )
            candidates = [body for body in candidates if _metadata(body).get("namespace", "default") == where]
        elif reference.namespace:
            raise ParameterError(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`",
                f"Remove spec.paramRef.namespace from {_place(binding)}: a {kind} has no namespace.",
            )
        if reference.selector is not None:
            selector = reference.selector
            bodies = [body for body in candidates if selector.matches(_metadata(body).get("labels") or {})]
        else:
            bodies = [body for body in candidates if _metadata(body).get("name") == reference.name]
        if not bodies and reference.deny_when_missing:
            advice = (
                f"{_give(policy, binding, where)}, or allow it to be missing with "
                "parameterNotFoundAction: Allow."
            )
            raise ParameterError(NOT_FOUND, advice)
        return list(bodies)


def wanted(policy: Policy, binding: Binding, namespace: str = "") -> str:
    """What a binding hands to its policy: `ConfigMap team-a/limits`, `ConfigMap with the labels set=x`.

    `namespace`: the one that is searched, where that is known.
    """
    assert policy.param_kind is not None
    assert binding.param_ref is not None
    reference, kind = binding.param_ref, policy.param_kind[1]
    namespace = namespace or reference.namespace
    if reference.selector is None:
        return f"{kind} {namespace}/{reference.name}" if namespace else f"{kind} {reference.name}"
    where = f" in {namespace}" if namespace else ""
    labels = ", ".join(map(str, reference.selector.requirements))
    return f"{kind}{where}" + (f" with the labels {labels}" if labels else "")


def missing(policy: Policy, binding: Binding) -> str:
    """What to do about a parameter that is not there and lets everything pass."""
    return f"{_give(policy, binding, '')}."


def _give(policy: Policy, binding: Binding, namespace: str) -> str:
    give = f"Give the {wanted(policy, binding, namespace)} that {_place(binding)} names"
    return f"{give}, beside the manifests or with --policies; or correct spec.paramRef there"


def _place(binding: Binding) -> str:
    document = binding.document
    where = f"{document.file}:{document.line}" if document.line else document.file
    return f"the binding {binding.name!r} ({where})" if where else f"the binding {binding.name!r}"


def _metadata(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return body.get("metadata") or {}
