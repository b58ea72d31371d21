"""The program that Pulumi.yaml names: `gpupool.infra` of this checkout."""

import runpy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
runpy.run_module("gpupool.infra", run_name="__main__")
