"""The Pulumi program: stack name -> environment file -> Plan -> manifests -> resources.

Run by Pulumi's Python language host, through `infra/__main__.py` in a checkout or the `pulumi_program.py` of
a project. `gpupool up` runs the same `gpupool.infra.program` without this file.
"""

from __future__ import annotations

import pulumi

from gpupool.findings import GpupoolError
from gpupool.infra import program

try:
    program.run(pulumi.get_stack())
except GpupoolError as error:
    # A RunError is shown as its message; anything else would be shown with a traceback.
    raise pulumi.RunError(str(error)) from None
