"""The last states of an environment that were found good: what `gpupool rollback` returns to.

A state is the text of the environment file and of its project's own policy files, kept in the cluster itself
(ConfigMap gpupool-last-good in gpupool-system), because a good state is a fact about the cluster and
not about a working copy. `gpupool assert` records; nothing here judges whether a state is good.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from gpupool.environment.plan.model import SYSTEM_NAMESPACE, Plan
from gpupool.findings import GpupoolError
from gpupool.generators.metadata import object_labels
from gpupool.generators.project_files import policy_texts
from gpupool.live.cluster.kube_api import KubeApi

NAME = "gpupool-last-good"
HISTORY = 5
"""How many different states are kept, the newest first."""

_MANAGER = "gpupool-last-good"
_PREFIX = "state-"
_BYTES_MAX = 900_000
"""Of all states together: a ConfigMap holds 1 MiB (Kubernetes documentation, ConfigMap)."""


@dataclass(frozen=True, slots=True)
class LastGood:
    """One state of an environment that was found good."""

    environment: str
    text: str
    """The environment file as it was."""
    digest: str
    """SHA-256 of the file and its policy files, in hexadecimal."""
    found: datetime
    """When it was last found good, UTC."""
    policies: Mapping[str, str] = field(default_factory=dict)
    """The project's own policy files: file name -> text. What gpupool ships is not kept."""


def record(api: KubeApi, plan: Plan, text: str, now: datetime) -> None:
    """Note that the cluster is what `text`, the file that `plan` was made of, says.

    The same state again changes only its time. Raises ApiError, among others where gpupool-system does not
    exist yet, and GpupoolError for a file too large to be kept.
    """
    policies = policy_texts(plan)
    digest = _digest(text, policies)
    state = LastGood(plan.environment, text, digest, now.astimezone(UTC), policies)
    states = [state, *(old for old in history(api) if old.digest != digest)][:HISTORY]
    data = {f"{_PREFIX}{number}": _packed(one) for number, one in enumerate(states)}
    while len(data) > 1 and sum(map(len, data.values())) > _BYTES_MAX:
        data.popitem()
    if sum(map(len, data.values())) > _BYTES_MAX:
        raise GpupoolError(
            f"the environment file of {plan.environment} and its policies are too large to be stored in the "
            "cluster for `gpupool rollback`; move large policy files out of the project's policies folder"
        )
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": NAME,
            "namespace": SYSTEM_NAMESPACE,
            "labels": object_labels(plan),
            # For people with kubectl; the states themselves are packed.
            "annotations": {"gpupool.dev/found-good": _stamp(now), "gpupool.dev/digest": digest},
        },
        "data": data,
    }
    api.apply(body, _MANAGER, force=True)


def read(api: KubeApi) -> LastGood | None:
    """The newest state that was found good; None where none was recorded. Raises ApiError."""
    return next(iter(history(api)), None)


def history(api: KubeApi) -> list[LastGood]:
    """Every kept state, the newest first. What can't be read (edited by hand) is left out."""
    live = api.get("v1", "ConfigMap", NAME, SYSTEM_NAMESPACE)
    data = (live or {}).get("data") or {}
    states = [_unpacked(data[key]) for key in sorted(data) if key.startswith(_PREFIX)]
    return [state for state in states if state is not None]


def _digest(text: str, policies: Mapping[str, str]) -> str:
    parts = json.dumps([text, sorted(policies.items())], ensure_ascii=False)
    return sha256(parts.encode()).hexdigest()


def _packed(state: LastGood) -> str:
    """A state as text that fits into a ConfigMap: environment files compress to a fifth."""
    value = {**asdict(state), "found": _stamp(state.found)}
    # Without a time of its own the same state gives the same bytes.
    return base64.b64encode(gzip.compress(json.dumps(value).encode(), mtime=0)).decode()


def _unpacked(text: str) -> LastGood | None:
    try:
        value: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(text, validate=True)))
        state = LastGood(**value | {"found": datetime.fromisoformat(value["found"])})
        return state if state.digest == _digest(state.text, state.policies) else None
    except (ValueError, KeyError, TypeError, AttributeError, OSError, EOFError):
        return None


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")
