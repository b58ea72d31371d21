"""A pipeline of one step on a pool, by the kfp SDK.

Reads what `gpupool snippet --for kubeflow --format json` prints, and writes the compiled pipeline to the file
that it is given.
"""

from __future__ import annotations

import json
import sys

import yaml
from kfp import compiler, dsl, kubernetes

(printed,) = json.load(sys.stdin)["spec"]["templates"]
pod = yaml.safe_load(printed["podSpecPatch"])
resources = pod["containers"][0]["resources"]


@dsl.container_component
def train():
    return dsl.ContainerSpec(image="registry.example/train:1.0", command=["python3", "-m", "train"])


@dsl.pipeline(name="train")
def pipeline():
    step = train()
    step.set_cpu_request(resources["requests"]["cpu"])
    step.set_memory_request(resources["requests"]["memory"])
    for resource, count in resources["limits"].items():
        step.set_accelerator_type(resource).set_accelerator_limit(int(count))
    for key, value in pod["nodeSelector"].items():
        kubernetes.add_node_selector(step, key, value)
    for toleration in pod["tolerations"]:
        kubernetes.add_toleration(step, **toleration)
    for kind, add in (("labels", kubernetes.add_pod_label), ("annotations", kubernetes.add_pod_annotation)):
        for key, value in printed.get("metadata", {}).get(kind, {}).items():
            add(step, key, value)


compiler.Compiler().compile(pipeline, sys.argv[1])
