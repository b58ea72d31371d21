"""How much pods use their GPUs, from DCGM exporter's metrics in a Prometheus.

The exporter labels a GPU's series with the pod that has it: `namespace` and `pod`, which Prometheus calls
`exported_namespace` and `exported_pod` where it does not honour labels. Of a time-sliced GPU there is no pod,
or each pod beside the figure of the whole GPU or of its own processes, as the exporter's release and settings
are: a pod never uses less here than its whole GPU is used. A MIG instance (`GPU_I_ID`) has a figure of its
own, of the engine's activity alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpupool.queue import prometheus

STEPS = 30
"""The window is looked at in so many steps: a pod without a figure in one of them is not known."""
_USE = {
    'DCGM_FI_DEV_GPU_UTIL{GPU_I_ID=""}': 100,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 1,
}
"""Metric -> its value for a GPU that is always in use. Of MIG instances the first has no figure."""
_BY = "max by (UUID, GPU_I_ID, namespace, pod, exported_namespace, exported_pod)"

Pod = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Use:
    """How much one pod used its GPUs during the window."""

    most: float
    """The highest share of a GPU's time, of all its GPUs, whichever pods used them."""
    throughout: bool
    """There are figures from the whole window."""


def query(window_s: int) -> str:
    """One question for all pods: the most in use, and in how many steps there is a figure."""
    step = f"{window_s * 1000 // STEPS}ms"
    parts = []
    for metric, full in _USE.items():
        parts += [
            _named("most", f"{_BY} (max_over_time({metric}[{window_s}s])) / {full}", metric),
            _named("steps", f"count_over_time({_BY} ({metric})[{window_s}s:{step}])", metric),
        ]
    return " or ".join(parts)


def _named(what: str, expression: str, metric: str) -> str:
    name = metric.partition("{")[0]
    return f'label_replace(label_replace({expression}, "what", "{what}", "", ""), "metric", "{name}", "", "")'


async def ask(url: str, window_s: int) -> dict[Pod, Use]:
    """The use of each pod with a GPU in the last `window_s`. Raises NotKnown."""
    return pods(await prometheus.ask(url, "query", query=query(window_s)))


def pods(series: list[dict[str, Any]]) -> dict[Pod, Use]:
    """The answer to `query`, by pod."""
    most: dict[tuple[str, str], float] = {}
    of_pods: dict[Pod, dict[tuple[str, str], float]] = {}
    for one in series:
        labels, value = one["metric"], float(one["value"][1])
        gpu = (labels.get("UUID", ""), labels.get("GPU_I_ID", ""))
        pod = (
            labels.get("exported_namespace") or labels.get("namespace", ""),
            labels.get("exported_pod") or labels.get("pod", ""),
        )
        seen = of_pods.setdefault(pod, {})
        seen.setdefault(gpu, 0)
        if labels["what"] == "most":
            most[gpu] = max(most.get(gpu, 0), value)
        else:
            seen[gpu] = max(seen[gpu], value)
    return {
        pod: Use(max(most.get(gpu, 1.0) for gpu in seen), all(steps >= STEPS for steps in seen.values()))
        for pod, seen in of_pods.items()
    }
