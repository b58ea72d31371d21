"""`gpupool up` and `gpupool destroy` of few and of many objects, on a local control plane of their own.

The large environment is that of 300 pools and 500 tenants. What is held is that an object costs no more among
many than among few, and what one costs among many; the whole command is measured, with its start.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.load import load
from gpupool.generators import generate
from gpupool.local.control_plane import ControlPlane
from tests.perf import large
from tests.perf.measure import run

GPUPOOL = Path(sys.executable).with_name("gpupool")
SIZES = {"least": (3, 2), "few": (80, 130), "many": (300, 500)}
"""Pools and tenants: some 100, some 1,000 and some 3,700 objects. Of the least the start of the command and
of its engine is the most, so that the figures compare the others."""
NEW_KINDS_S = 35
"""The garbage collector looks for new kinds every 30 s (kube-controller-manager), and objects deleted in
foreground wait until it knows theirs. A cluster that is older has no such pause."""
Figure = tuple[str, float]


def whole_commands(folder: Path) -> Iterator[Figure]:
    plane = ControlPlane(folder / "local")
    variables = {"GPUPOOL_LOCAL_DIR": str(folder / "local")}
    each: dict[tuple[str, str], float] = {}
    try:
        plane.up(lambda _: None)
        time.sleep(NEW_KINDS_S)
        for size, (pools, tenants) in SIZES.items():
            environment = _write(folder, size, pools, tenants)
            objects = len(generate(resolve(load(environment))).manifests)
            for verb in ("up", "destroy"):
                seconds, _ = run([GPUPOOL, verb, environment, "--yes"], folder, variables)
                each[verb, size] = seconds / objects
                print(
                    f"{verb} of {objects} objects: {seconds:.0f} s, {objects / seconds:.0f} a second",
                    file=sys.stderr,
                )
    finally:
        plane.down()
    for verb in ("up", "destroy"):
        yield f"{verb}-each", each[verb, "many"] * 1000
        yield f"{verb}-flat", each[verb, "many"] / each[verb, "few"]


def _write(folder: Path, name: str, pools: int, tenants: int) -> Path:
    """The environment of that size for the local control plane."""
    given = large.environment(name, pools, tenants)
    for key in ("karpenter", "gpuOperator"):
        del given[key]
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps({**given, "cluster": {"platform": "local", "name": name}}, indent=2))
    return path
