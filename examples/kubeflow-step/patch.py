"""Reads what `gpupool snippet --for kubeflow --format json` prints, and prints a patch of a whole pod."""

from __future__ import annotations

import json
import sys

import yaml

print(json.dumps({"spec": yaml.safe_load(json.load(sys.stdin)["podSpecPatch"])}))
