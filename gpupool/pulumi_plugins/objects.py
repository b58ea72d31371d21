"""What the stand-in provider does to a cluster: create, update, read and delete one object.

The rules are those of pulumi-kubernetes 4.34 with server-side apply, as far as the program relies on
them; a comment marks each difference. What was applied counts as ready: of the program's kinds the plugin
would wait for Deployments alone, and their annotation pulumi.com/skipAwait prevents that. Depends on the
cluster, not on Pulumi's protocol.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpupool.cluster.beforehand import has_place
from gpupool.cluster.kube_api import METADATA, ApiError, KubeApi
from gpupool.findings import GpupoolError
from gpupool.generators.manifest import Manifest
from gpupool.objects.managed_fields import appliers
from gpupool.objects.owner import environment_of

FIELD_MANAGER = "gpupool"
"""Owner of our fields where an object does not name another (pulumi-kubernetes makes up a random one)."""

DELETE_SECONDS = 600.0
"""How long to wait where options do not say (as pulumi-kubernetes does)."""

_ATTEMPTS = 5
_LIST_SECONDS = 0.5
"""How often objects that are being deleted are listed, to find those that are gone."""

Object = dict[str, Any]


@dataclass
class Objects:
    """One provider instance: a cluster, and the options that the program gave the provider."""

    api: KubeApi
    force: bool = False
    """enablePatchForce: take over fields that somebody else has set."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    _listing: threading.Lock = field(default_factory=threading.Lock)
    _listed: dict[str, tuple[float, frozenset[str]]] = field(default_factory=dict)
    """By collection: when it was listed, and the uids of what was there."""

    def create(self, inputs: Object, manager: str, patch: bool, dry_run: bool) -> Object:
        """Make the object (or put our fields on somebody else's, for a patch).

        Raises ApiError, UnreachableError, or GpupoolError when an earlier one of its name does not go.
        """
        existing = self._get(inputs)
        if patch and existing is None:
            raise ApiError(404, "NotFound", f"{Manifest(inputs)} does not exist, so nothing can be set on it")
        if existing is not None and not patch:
            self._may_take(existing, inputs, manager, dry_run)
        if dry_run and not has_place(self.api, inputs):  # it comes with this `up`
            return inputs
        return self._apply(inputs, manager, dry_run)

    def update(self, inputs: Object, manager: str, dry_run: bool) -> Object:
        """Apply the new fields; fields we no longer name go away. Raises as `create` does.

        An object that somebody has deleted is made again (pulumi-kubernetes fails and wants a refresh).
        """
        if dry_run and (self.api.resource(inputs["apiVersion"], inputs["kind"]) is None):
            return inputs
        return self._apply(inputs, manager, dry_run)

    def read(self, api_version: str, kind: str, namespace: str | None, name: str) -> Object | None:
        """The live object, None when it is gone."""
        return self.api.get(api_version, kind, name, namespace)

    def delete(self, inputs: Object, timeout: float) -> None:
        """Delete the object and wait until it is gone, with what depends on it (foreground).

        For a NodePool that means its NodeClaims, and through Karpenter's finalizer its nodes.
        """
        where = self.api.resource(inputs["apiVersion"], inputs["kind"])
        live = self._get(inputs)
        if where is None or live is None:
            return
        policy = annotation(inputs, "pulumi.com/deletionPropagationPolicy").capitalize() or "Foreground"
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}
        metadata = inputs["metadata"]
        path = where.path(metadata.get("namespace"), metadata["name"])
        try:
            self.api.request("DELETE", path, body=options)
        except ApiError as error:
            if error.status != 404:
                raise
            return
        self._gone(inputs, live["metadata"]["uid"], timeout or DELETE_SECONDS)

    def relinquish(self, inputs: Object, manager: str) -> None:
        """Give up every field that `manager` owns; values without another owner are removed."""
        if self._get(inputs) is None:
            return
        metadata = {
            key: inputs["metadata"][key] for key in ("name", "namespace") if key in inputs["metadata"]
        }
        bare = {"apiVersion": inputs["apiVersion"], "kind": inputs["kind"], "metadata": metadata}
        self.api.apply(bare, manager, force=True)

    def _get(self, inputs: Object) -> Object | None:
        metadata = inputs["metadata"]
        return self.api.get(inputs["apiVersion"], inputs["kind"], metadata["name"], metadata.get("namespace"))

    def _may_take(self, existing: Object, inputs: Object, manager: str, dry_run: bool) -> None:
        """Refuse an object that others made; go on with one that an interrupted run of ours left behind."""
        if existing["metadata"].get("deletionTimestamp"):
            if not dry_run:
                self._gone(inputs, existing["metadata"]["uid"], DELETE_SECONDS)
            return
        if manager in appliers(existing) and _same_environment(existing, inputs):
            return
        raise ApiError(
            409,
            "AlreadyExists",
            f"{Manifest(inputs)} already exists and was not made by this environment; "
            "delete or rename it, or take it over with `pulumi import`",
        )

    def _apply(self, inputs: Object, manager: str, dry_run: bool) -> Object:
        for attempt in range(_ATTEMPTS):
            try:
                return self.api.apply(inputs, manager, self.force, dry_run)[1]
            except ApiError as error:
                # A namespace or CRD made a moment ago, or a server that asks for patience.
                passing = error.status in (429, 503) or error.reason in ("NoMatch", "NotFound")
                if dry_run or not passing or attempt == _ATTEMPTS - 1:
                    raise
            if self.cancelled.wait(0.2 * 2**attempt):
                break
        raise ApiError(0, "Cancelled", f"{Manifest(inputs)}: cancelled")

    def _gone(self, inputs: Object, uid: str, timeout: float) -> None:
        since, pause = time.monotonic(), 0.02
        while self._there(inputs, uid, since):
            if not self.cancelled.wait(pause) and time.monotonic() - since <= timeout:
                pause = min(pause * 1.5, 1.0)
                continue
            live = self._get(inputs)
            if live is None or live["metadata"]["uid"] != uid:
                return
            if self.cancelled.is_set():
                raise GpupoolError(f"{Manifest(live)}: cancelled while it is being deleted")
            held = ", ".join(live["metadata"].get("finalizers") or ()) or "nothing that it names"
            raise GpupoolError(
                f"{Manifest(live)} is still being deleted after {timeout:.0f} s, held by {held}; "
                "see what it waits for with `kubectl describe`, then run the command again"
            )

    def _there(self, inputs: Object, uid: str, since: float) -> bool:
        """Whether the object may still be there. All that wait for objects of one kind to go share one list:
        asked for one by one, 450 NodePools cost the API server more than their deletion did."""
        where = self.api.require(inputs["apiVersion"], inputs["kind"])
        path = where.collection(inputs["metadata"].get("namespace") or "default")
        with self._listing:
            begun, uids = self._listed.get(path, (0.0, frozenset()))
            if time.monotonic() - begun > _LIST_SECONDS:
                begun = time.monotonic()
                try:
                    rows = self.api.request("GET", path, accept=METADATA)[1]["items"] or ()
                    uids = frozenset(row["metadata"]["uid"] for row in rows)
                except ApiError:  # it may be that we are not allowed to list
                    live = self._get(inputs)
                    return live is not None and live["metadata"]["uid"] == uid
                self._listed[path] = begun, uids
        return begun < since or uid in uids


def annotation(body: Mapping[str, Any], key: str) -> str:
    """An annotation's value, empty where there is none."""
    return str((body["metadata"].get("annotations") or {}).get(key, ""))


def _same_environment(existing: Object, inputs: Object) -> bool:
    """Two environments in one cluster must not take each other's objects."""
    return environment_of(existing) == environment_of(inputs)
