"""Starts the policy pack: run by Pulumi's language host as a folder, or by the engine through `run`."""

from __future__ import annotations

import sys
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent
# Python puts this folder first; what is imported by the names of its modules must not be found here.
sys.path[0] = str(_FOLDER.parents[1])

from pulumi_policy import PolicyPack  # noqa: E402 - after the path is right

from gpupool.policy_pack.stack_policies import NAME, VERSION_VARIABLE, stack_policies  # noqa: E402
from gpupool.pulumi_plugins import callers  # noqa: E402

callers.guard()
try:
    policies = stack_policies(_FOLDER.parent)
except ValueError as error:
    sys.exit(f"{VERSION_VARIABLE}: {error}")
PolicyPack(NAME, policies)
