"""Which feature gates a running Karpenter has on, by its Deployment.

Names and defaults: karpenter v1.14.1, pkg/operator/options/options.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEFAULTS = {"NodeOverlay": False, "ReservedCapacity": True}
"""The gates that pools may need."""


def is_on(deployment: Mapping[str, Any], gate: str) -> bool:
    """By the flag `--feature-gates`, else by FEATURE_GATES, else by default, as Karpenter has it."""
    text = ""
    for container in deployment["spec"]["template"]["spec"].get("containers") or ():
        for row in container.get("env") or ():
            if row["name"] == "FEATURE_GATES":
                text = str(row.get("value", ""))
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        for word, following in zip(words, [*words, ""][1:], strict=True):
            flag, equals, value = word.lstrip("-").partition("=")
            if flag == "feature-gates":
                text = value if equals else following
    values = dict(pair.strip().partition("=")[::2] for pair in text.split(","))
    return values[gate].lower() in ("true", "1", "t") if gate in values else DEFAULTS[gate]
