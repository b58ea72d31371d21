"""An API server of the unit tests' own: objects by kind, and rights that an account has or lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gpupool.generators.kinds import KINDS
from gpupool.live.cluster.kube_api import ApiError, ApiResource, UnreachableError

Object = dict[str, Any]
Asked = tuple[str, str]
"""Verb and kind."""
_OTHERS = (
    *(("v1", kind) for kind in ("Pod", "Secret", "Service")),
    *(("apps/v1", kind) for kind in ("DaemonSet",)),
    ("authentication.k8s.io/v1", "SelfSubjectReview"),
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"),
    ("resource.k8s.io/v1", "ResourceSlice"),
)


class FakeApi:
    """What `gpupool.live.cluster.kube_api.KubeApi` is to the checks. `refuses` says which requests are
    forbidden; `silent` which get no answer."""

    server, context = "https://api.invalid:6443", "fake"

    def __init__(
        self,
        objects: Iterable[Mapping[str, Any]] = (),
        refuses: Callable[[Asked], bool] = lambda asked: False,
        silent: Callable[[Asked], bool] = lambda asked: False,
    ) -> None:
        self.objects = [dict(thing) for thing in objects]
        self.asked: list[Asked] = []
        self._refuses, self._silent = refuses, silent
        self._kinds = {(kind.api_version, kind.name): kind.cluster_wide for kind in KINDS}
        self._kinds |= dict.fromkeys(_OTHERS, False)

    def _ask(self, verb: str, kind: str) -> None:
        self.asked.append((verb, kind))
        if self._silent((verb, kind)):
            raise UnreachableError("the cluster does not answer; check that it runs")
        if self._refuses((verb, kind)):
            raise ApiError(403, "Forbidden", f'{kind} is forbidden: User "nobody" cannot {verb} it')

    def close(self) -> None:
        pass

    def request(self, method: str, path: str, *_: Any, **__: Any) -> tuple[int, Any]:
        self._ask(method.lower(), path)
        return 200, {"gitVersion": "v1.36.0", "groups": []}

    def resource(self, api_version: str, kind: str) -> ApiResource | None:
        self._ask("discover", kind)
        if (api_version, kind) not in self._kinds:
            return None
        return ApiResource(api_version, kind, f"{kind.lower()}s", not self._kinds[api_version, kind])

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object | None:
        self._ask("get", kind)
        return next(
            (row for row in self._of(api_version, kind, namespace) if row["metadata"]["name"] == name), None
        )

    def list(
        self, api_version: str, kind: str, namespace: str | None = None, selector: str = ""
    ) -> list[Object]:
        self._ask("list", kind)
        wanted = dict(part.partition("=")[::2] for part in selector.split(",") if "=" in part)
        rows = self._of(api_version, kind, namespace)
        return [row for row in rows if wanted.items() <= (row["metadata"].get("labels") or {}).items()]

    def _of(self, api_version: str, kind: str, namespace: str | None) -> Iterator[Object]:
        for row in self.objects:
            same_place = namespace is None or row["metadata"].get("namespace") in (None, namespace)
            if (row["apiVersion"], row["kind"]) == (api_version, kind) and same_place:
                yield row

    def create(self, body: Mapping[str, Any]) -> Object:
        """Reviews alone: who the account is, and what it may do, which is nothing."""
        self._ask("create", body["kind"])
        if body["kind"] == "SelfSubjectReview":
            return {"status": {"userInfo": {"username": "nobody"}}}
        return {"status": {"allowed": False}}
