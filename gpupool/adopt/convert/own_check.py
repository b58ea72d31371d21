"""The CronJob that compares a cluster with its file -> `monitoring.assertion`. Only gpupool's own is read."""

from __future__ import annotations

from typing import Any

from gpupool.adopt.convert.cluster_objects import ClusterObjects, list_as_foreign, ours
from gpupool.adopt.convert.draft import Draft

_NAME = "gpupool-assert"
_SCHEDULE = "*/10 * * * *"
"""The default of `monitoring.assertion.schedule` (gpupool.environment.spec.services)."""
_PUSH = "--push"


def make(cluster: ClusterObjects, draft: Draft) -> None:
    """Put the cluster's own check on `draft`, where it has one."""
    for part in cluster.all("CronJob"):
        container = part.at("spec", "jobTemplate", "spec", "template", "spec", "containers", 0)
        image = container.word("image")
        if not ours(part) or part.document.name != _NAME or not image:
            list_as_foreign(part, "a workload, not a pool")
            continue
        wanted: dict[str, Any] = {"image": image}
        schedule = part.word("spec", "schedule")
        if schedule not in ("", _SCHEDULE):
            wanted["schedule"] = schedule
        words = [str(word.value) for word in container.at("command").each()]
        if _PUSH in words[:-1]:
            wanted["pushgateway"] = words[words.index(_PUSH) + 1]
        draft.monitoring["assertion"] = wanted
        part.derived()
