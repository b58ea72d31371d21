"""What survives a crash: the journal of one repartition, and the lock against two runs at once.

The journal is a ConfigMap in gpupool-system, written before the first change and removed after the last. It
holds what can't be read back once it has been changed: what every node offered, and the operator's and
Karpenter's settings as they were. The progress of each node is stored on the node itself.

The lock is a Lease. One whose process has died on this machine is taken over at once, one of another machine
when it has not been renewed for its duration.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import psutil

from gpupool.environment.plan.model import SYSTEM_NAMESPACE
from gpupool.findings import GpupoolError
from gpupool.live.cluster.kube_api import ApiError, KubeApi
from gpupool.live.objects.repartition_mark import JOURNAL, JOURNAL_KEY
from gpupool.live.repartition.shapes import Shape

MANAGER = "gpupool-repartition"
"""Field manager of everything that exists only while a repartition is under way."""
LEASE_SECONDS = 60
_LEASES = "coordination.k8s.io/v1"
_RENEW_SECONDS = 15.0

_ours: set[str] = set()
"""Holders of the runs of this very process."""
_ours_lock = threading.Lock()


class BusyError(GpupoolError):
    """Another run is at work on the cluster."""


@dataclass(frozen=True, slots=True)
class Journal:
    """One repartition that has begun."""

    environment: str
    pool: str
    started: str
    """ISO 8601, UTC."""
    target: str
    """Digest of what the pool is to become: another file means another repartition."""
    hold: bool
    """The plugin's settings change under one key, so nodes are held back under a separate key."""
    old: Mapping[str, Shape]
    """Node -> what it was."""
    new: Mapping[str, Shape]
    """Node -> what it is to become. Kept, because the file may say something else by now."""
    after: Mapping[str, Any] = field(default_factory=dict)
    """What the new shape's labels mean: `plugin` (settings, as text), `layouts` (name -> layout, or None)."""
    before: Mapping[str, Any] = field(default_factory=dict)
    """Settings as they were: `plugin` and `mig` (name and data of a ConfigMap), `karpenter`."""
    backwards: bool = False
    phase: str = "prepare"
    """prepare, work or finish. Within a phase everything can be done again."""

    def as_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Journal:
        """The inverse of `as_text`. Raises GpupoolError for a damaged journal."""
        try:
            value = json.loads(text)
            for key in ("old", "new"):
                value[key] = {name: Shape(**shape) for name, shape in value[key].items()}
            return cls(**value)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise GpupoolError(
                f"ConfigMap {SYSTEM_NAMESPACE}/{JOURNAL} is damaged ({error}), so the nodes' previous state "
                "is unknown; correct the nodes' labels manually, delete it, and run gpupool assert"
            ) from error


def read(api: KubeApi) -> Journal | None:
    """The journal of the repartition that has begun and not ended."""
    live = api.get("v1", "ConfigMap", JOURNAL, SYSTEM_NAMESPACE)
    return None if live is None else Journal.from_text((live.get("data") or {}).get(JOURNAL_KEY, ""))


def write(api: KubeApi, journal: Journal) -> Journal:
    """Note it. Raises ApiError, also where gpupool-system does not exist."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": JOURNAL, "namespace": SYSTEM_NAMESPACE},
        "data": {JOURNAL_KEY: journal.as_text()},
    }
    api.apply(body, MANAGER, force=True)
    return journal


def advance(api: KubeApi, journal: Journal, **changes: Any) -> Journal:
    """Note that `changes` hold from now on."""
    return write(api, replace(journal, **changes))


def remove(api: KubeApi) -> None:
    """It has ended."""
    api.delete("v1", "ConfigMap", JOURNAL, SYSTEM_NAMESPACE)


@dataclass
class RepartitionLock:
    """The right to work on the cluster, while it is renewed."""

    api: KubeApi
    holder: str
    renewed: float = 0.0

    def renew(self) -> None:
        """Renew it. Raises BusyError where another run holds it by now."""
        if time.monotonic() - self.renewed < _RENEW_SECONDS:
            return
        live = self.api.get(_LEASES, "Lease", JOURNAL, SYSTEM_NAMESPACE)
        if live is None or live["spec"].get("holderIdentity") != self.holder:
            raise BusyError("another run has taken over; check it before you run this command again")
        self._write(live)

    def take(self) -> None:
        """Acquire it, if need be from a run that has died. Raises BusyError."""
        live = self.api.get(_LEASES, "Lease", JOURNAL, SYSTEM_NAMESPACE)
        if live is not None and not _stale(live["spec"]):
            holder = live["spec"].get("holderIdentity", "?")
            raise BusyError(
                f"another run is in progress ({holder.rsplit('/', 1)[0]}, last renewed at "
                f"{live['spec'].get('renewTime')}); wait for it, or {LEASE_SECONDS} s if it is dead"
            )
        try:
            self._write(live)
        except ApiError as error:
            if error.status != 409:
                raise
            raise BusyError("another run started at the same time; wait for it") from error

    def _write(self, live: Mapping[str, Any] | None) -> None:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        spec = {"holderIdentity": self.holder, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now}
        if live is None:
            meta: dict[str, Any] = {"name": JOURNAL, "namespace": SYSTEM_NAMESPACE}
            self.api.create({"apiVersion": _LEASES, "kind": "Lease", "metadata": meta, "spec": spec})
        else:
            # With the version that was seen: of two that take it over one fails.
            meta = {"resourceVersion": live["metadata"]["resourceVersion"]}
            self.api.patch(_LEASES, "Lease", JOURNAL, {"metadata": meta, "spec": spec}, SYSTEM_NAMESPACE)
        self.renewed = time.monotonic()


@contextlib.contextmanager
def locked(api: KubeApi) -> Iterator[RepartitionLock]:
    """Hold the lock. Raises BusyError, or ApiError where gpupool-system does not exist."""
    holder = f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"
    lock = RepartitionLock(api, holder)
    with _ours_lock:
        _ours.add(holder)
    try:
        lock.take()
        yield lock
        api.delete(_LEASES, "Lease", JOURNAL, SYSTEM_NAMESPACE)
    except (GpupoolError, KeyboardInterrupt) as error:
        if not isinstance(error, BusyError):
            with contextlib.suppress(GpupoolError):
                api.delete(_LEASES, "Lease", JOURNAL, SYSTEM_NAMESPACE)
        raise
    finally:
        with _ours_lock:
            _ours.discard(holder)


def _stale(spec: Mapping[str, Any]) -> bool:
    """Whether the holder has certainly died, or has not been heard of for long."""
    holder = str(spec.get("holderIdentity", ""))
    host, _, rest = holder.partition("/")
    pid = rest.partition("/")[0]
    if host == socket.gethostname() and pid.isdigit():
        if int(pid) == os.getpid():
            with _ours_lock:
                return holder not in _ours
        if not psutil.pid_exists(int(pid)):
            return True
    try:
        renewed = datetime.fromisoformat(str(spec["renewTime"]).replace("Z", "+00:00"))
    except (KeyError, ValueError):
        return True
    return (datetime.now(UTC) - renewed).total_seconds() > LEASE_SECONDS
