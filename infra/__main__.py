"""The Pulumi program: stack name -> environment file -> Plan -> manifests -> resources.

Run by Pulumi's Python language host. `gpupool up` runs the same `gpupool.infra.program` without this file.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pulumi

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gpupool.findings import GpupoolError
from gpupool.infra import program

try:
    program.run(pulumi.get_stack())
except GpupoolError as error:
    # A RunError is shown as its message; anything else would be shown with a traceback.
    raise pulumi.RunError(str(error)) from None
