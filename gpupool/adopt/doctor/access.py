"""The cluster itself: whether the context leads to one that answers, as whom, and which Kubernetes it is.

`up` makes the same request before its first (`gpupool.live.cluster.access.require_cluster`), which waits ten
seconds at most for an answer. No credential is ever part of a result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpupool.adopt.doctor.model import CheckResult, DoctorInput, NamedCluster, result
from gpupool.adopt.doctor.reasons import Reason
from gpupool.live.cluster import access
from gpupool.live.cluster.kube_api import ApiError, KubeApi, UnreachableError
from gpupool.live.cluster.kubeconfig import KubeconfigError

_SELF = "SelfSubjectReview"
_REFUSED = (401, 403)


def cluster(target: NamedCluster) -> tuple[KubeApi | None, str, tuple[CheckResult, ...]]:
    """A client where the cluster can be used, the user's name as the server knows it, and what was found."""
    context = target.cluster.kube_context or ""
    try:
        access.require_cluster(target)
        api = access.connect(target)
        reached = result(f"context {api.context}", Reason.CONTEXT_FOUND, server=api.server)
        user = _whoami(api)
    except KubeconfigError as error:
        subject = f"context {context}" if context else "kubeconfig"
        return None, "", (result(subject, Reason.CONTEXT_UNUSABLE, problem=error),)
    except UnreachableError as error:
        return None, "", (result(f"context {context or '(current)'}", Reason.SERVER_SILENT, problem=error),)
    except ApiError as error:
        if error.status not in _REFUSED:
            return None, "", (result(f"context {context or '(current)'}", Reason.FAILED, problem=error),)
        refused = result(
            "credentials", Reason.CREDENTIALS_REFUSED, problem=error, context=context or "CONTEXT"
        )
        return None, "", (refused,)
    if not user:
        return api, "", (reached, result("credentials", Reason.ACCOUNT_UNKNOWN))
    return api, user, (reached, result(user, Reason.ACCOUNT_KNOWN))


def _whoami(api: KubeApi) -> str:
    """The user's name; empty where the server does not say it (before Kubernetes 1.28). Raises ApiError 403
    for who is not signed in."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": _SELF}
    if api.resource(review["apiVersion"], _SELF) is None:
        return ""
    return str(api.create({**review, "metadata": {}})["status"]["userInfo"]["username"])


def version(inputs: DoctorInput) -> Iterator[CheckResult]:
    """The server's Kubernetes against the file's. Whether it is too old shows in the kinds that it serves."""
    assert inputs.api is not None
    assert inputs.target is not None
    live = str(inputs.api.request("GET", "/version")[1]["gitVersion"])
    named = inputs.target.cluster.kubernetes_version
    minor = re.match(r"v(\d+\.\d+)\.", live)
    if minor is None:
        yield result("Kubernetes", Reason.VERSION_UNCLEAR, live=live, file=named)
    else:
        reason = Reason.VERSION_SAME if minor[1] == named else Reason.VERSION_OTHER
        yield result("Kubernetes", reason, live=live, file=named, minor=minor[1])
