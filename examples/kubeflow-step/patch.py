"""Reads what `gpupool snippet --for kubeflow --format json` prints, and prints a patch of a whole pod."""

from __future__ import annotations

import json
import sys

import yaml

(step,) = json.load(sys.stdin)["spec"]["templates"]
print(json.dumps({"spec": yaml.safe_load(step["podSpecPatch"])}))
