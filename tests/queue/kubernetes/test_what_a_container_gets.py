"""What a job's container gets: texts as they were given, shared memory, a folder that its user can write."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpupool.environment import workspace
from gpupool.local.pods.command import prepare
from gpupool.queue.kubernetes.job_manifest import USER
from gpupool.queue.variables import variables
from tests.environment.test_expansion import as_in_go
from tests.queue.kubernetes.test_job_manifest import PLACES, Place, job, made
from vapcheck.server.canonical_text import amount

Object = dict[str, Any]
texts = st.text(st.sampled_from("$()AB {}x"), max_size=12)
PLACE = PLACES[0]
POD = {"metadata.name": "gp-1-abc", "metadata.uid": "3f2a"}
"""What a kubelet knows of the pod."""


def in_container(template: Object) -> tuple[list[str], dict[str, str]]:
    """Command and variables as a kubelet gives them to the container."""
    (container,) = template["spec"]["containers"]
    known: dict[str, str] = {}
    for entry in container["env"]:
        if field := entry.get("valueFrom", {}).get("fieldRef"):
            known[entry["name"]] = POD[field["fieldPath"]]
        else:
            known[entry["name"]] = as_in_go(entry["value"], known)
    return [as_in_go(word, known) for word in container["command"]], known


async def nothing(*_: str) -> None:
    return None


@given(st.lists(texts, min_size=1, max_size=4), st.dictionaries(st.sampled_from("ABC"), texts), texts)
@example(["$$(A)"], {"A": "$$(B)"}, "$$")
def test_texts_arrive_as_they_were_given(words: list[str], env: dict[str, str], place: str) -> None:
    request = {
        "container_image": "a:1",
        "container_command": words,
        "env": env,
        "checkpoint_s3_path": f"s3://b/{place}",
    }
    attempt = job(PLACE, request=request)
    (_, template) = made(PLACE, request=request)
    command, known = in_container(template)
    assert command == words
    assert {name: known[name] for name in env} == env
    assert known["GPUPOOL_POD"] == "gp-1-abc/3f2a"
    assert known["GPUPOOL_CHECKPOINT_URI"] == f"s3://b/{place}"
    base = {"PATH": "/bin", "HOME": "/work", "TMPDIR": "/work"}
    local = asyncio.run(prepare({"metadata": {}, **template}, base, nothing))
    assert list(local.argv) == words, "the pod runner does as a kubelet"
    assert {name: local.environment[name] for name in env} == env
    direct = variables(attempt, "/work")
    assert {name: direct[name] for name in env} == env, "and so does serve --dev without a cluster"
    places = workspace.variables("/work")
    assert {name: local.environment[name] for name in places} == places == {n: direct[n] for n in places}


def test_the_pod_runner_knows_the_pods_variables_and_not_those_of_this_machine() -> None:
    env = [
        {"name": "A", "value": "x"},
        {"name": "B", "value": "$(A)$(PATH)$(C)"},
        {"name": "C", "value": "y"},
    ]
    container = {"name": "job", "command": ["$(PATH)", "$(B)", "$$(A)"], "env": env}
    pod: Object = {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    found = asyncio.run(prepare(pod, {"PATH": "/bin", "HOME": "/work"}, nothing))
    assert found.argv == ("$(PATH)", "x$(PATH)$(C)", "$(A)")
    assert found.environment == {"PATH": "/bin", "HOME": "/work", "A": "x", "B": "x$(PATH)$(C)", "C": "y"}


@pytest.mark.parametrize("place", PLACES, ids=Place.__str__)
def test_shared_memory_is_half_of_the_memory_and_scratch_is_the_disk(place: Place) -> None:
    _, template = made(place)
    (container,) = template["spec"]["containers"]
    volumes = {volume["name"]: volume["emptyDir"] for volume in template["spec"]["volumes"]}
    assert {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]} == {
        "shm": "/dev/shm",
        "scratch": "/scratch",
    }
    limits = container["resources"]["limits"]
    assert volumes["shm"]["medium"] == "Memory"
    assert "medium" not in volumes["scratch"]
    memory, shm = amount(limits.get("memory", "2Gi")), amount(volumes["shm"]["sizeLimit"])
    assert memory is not None
    assert shm is not None
    assert 0 <= memory / 2 - shm < 2**20, "in whole MiB; 1Gi where a node's memory is not known"
    assert ("memory" in limits) is (place.plan.pool(place.offer.pool).share(place.offer.resource) is not None)
    assert volumes["scratch"]["sizeLimit"] == limits["ephemeral-storage"]
    assert USER["fsGroup"] == USER["runAsUser"] == 1000, "whose folder the kubelet makes it"


def test_the_request_may_say_otherwise() -> None:
    request = {
        "container_image": "a:1",
        "shm_size": "1024Mi",
        "scratch_size": "5G",
        "env": {"HF_HOME": "/models", "GPUPOOL_SCRATCH": "/mine"},
        "volumes": [{"claim": "data", "path": "/data"}],
    }
    _, template = made(PLACE, request=request)
    shm, scratch, claim = template["spec"]["volumes"]
    assert (shm["emptyDir"]["sizeLimit"], scratch["emptyDir"]["sizeLimit"]) == ("1Gi", "5G")
    assert claim["persistentVolumeClaim"] == {"claimName": "data"}
    known = {entry["name"]: entry.get("value") for entry in template["spec"]["containers"][0]["env"]}
    assert (known["HF_HOME"], known["HOME"], known["GPUPOOL_SCRATCH"]) == ("/models", "/scratch", "/scratch")


def test_caches_lie_in_a_folder_that_is_there() -> None:
    for folder in (workspace.SCRATCH, "/work"):
        places = workspace.variables(folder)
        assert all(text == folder or text.startswith(f"{folder}/") for text in places.values() if "/" in text)
        moved = {
            name: workspace.moved(name, text, folder)
            for name, text in workspace.variables(workspace.SCRATCH).items()
        }
        assert moved == places


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("HOME", "/scratch/me", "/work/me"),
        ("HOME", "/scratchy", "/scratchy"),
        ("HOME", "/root", "/root"),
        ("OUT", "/scratch/out", "/scratch/out"),
    ],
)
def test_only_variables_that_lead_to_the_folder_are_moved(name: str, value: str, expected: str) -> None:
    assert workspace.moved(name, value, "/work") == expected
