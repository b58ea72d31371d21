"""Helm's own records of releases, where a run was killed while Helm worked, or the state has lost a release.

Helm keeps each revision of a release in a Secret of its namespace, and the status among the Secret's labels
(Helm 3 and 4, storage driver `secret`). A killed Helm leaves a status that says it is still at work, and
refuses to go on; a release that exists can't be installed. Objects stay as they are when a record is deleted,
and an installation under the same name takes over those that have Helm's annotations for it. So the records
that are in the way are deleted, of releases that are ours. Their contents are not read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gpupool.findings import GpupoolError
from gpupool.generators.manifest import HelmRelease
from gpupool.live.cluster.kube_api import METADATA, KubeApi
from gpupool.live.objects.owner import environment_of

_SELECTOR = "owner=helm,name={0}"
_AT_WORK = ("pending-install", "pending-upgrade", "pending-rollback")
"""release.Status of Helm 3 and 4 (pkg/release/status.go)."""


class ForeignReleaseError(GpupoolError):
    """A release that this environment did not install has the name that the file asks for."""


@dataclass(frozen=True, slots=True)
class ReleaseRecord:
    """One revision of a release."""

    release: HelmRelease
    secret: str
    status: str


def in_the_way(
    api: KubeApi,
    environment: str,
    releases: Iterable[HelmRelease],
    known: Collection[str],
    begun: Collection[str],
) -> list[ReleaseRecord]:
    """Records because of which the provider could not install or upgrade a release.

    `known` are the releases in the stack's state and `begun` those that an interrupted run may have been
    working on, by name in Pulumi. Raises ForeignReleaseError where one is in neither and its namespace is not
    of this environment.
    """
    obstacles: list[ReleaseRecord] = []
    for release in releases:
        records = _records(api, release)
        name = f"Release/{release.name}"
        if name in known:
            # Not those of somebody who is upgrading it right now.
            at_work = [record for record in records if record.status in _AT_WORK]
            obstacles += at_work if name in begun else []
        elif records and (name in begun or _owns_namespace(api, environment, release.namespace)):
            obstacles += records
        elif records:
            raise ForeignReleaseError(
                f"Helm release {release.namespace}/{release.name} already exists and was not installed by "
                "this environment; uninstall it, or take it over with `pulumi import "
                f"kubernetes:helm.sh/v3:Release {name} {release.namespace}/{release.name}`. "
                "Nothing was changed"
            )
    return obstacles


def delete(api: KubeApi, records: Iterable[ReleaseRecord]) -> None:
    """Delete the records; what the releases have installed stays."""
    for record in records:
        api.delete("v1", "Secret", record.secret, record.release.namespace)


def _records(api: KubeApi, release: HelmRelease) -> list[ReleaseRecord]:
    path = api.require("v1", "Secret").collection(release.namespace)
    query = {"labelSelector": _SELECTOR.format(release.name)}
    rows = api.request("GET", path, query, accept=METADATA)[1]["items"] or ()
    return [
        ReleaseRecord(release, row["metadata"]["name"], str(row["metadata"]["labels"].get("status")))
        for row in rows
    ]


def _owns_namespace(api: KubeApi, environment: str, namespace: str) -> bool:
    live = api.get("v1", "Namespace", namespace)
    return live is not None and environment_of(live) == environment
