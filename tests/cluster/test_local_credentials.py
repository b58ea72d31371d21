"""A kubeconfig whose token has no rights is found by asking the API server, named, and written again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import yaml

from gpupool.live.cluster.kube_api import ApiError
from gpupool.local.control_plane import ControlPlane

_TOKEN = "/api/v1/namespaces/default/serviceaccounts/default/token"


def pids(plane: ControlPlane) -> dict[str, int | None]:
    return {part.name: part.pid for part in plane.status().components}


def token_without_rights(plane: ControlPlane) -> str:
    api = plane.api()
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token: str = api.request("POST", _TOKEN, None, request)[1]["status"]["token"]
    api.close()
    return token


def test_a_kubeconfig_without_rights_is_named_and_written_anew(data_folder: Path) -> None:
    plane = ControlPlane(data_folder)
    plane.up()
    before, sound = pids(plane), plane.kubeconfig.read_text()
    token = yaml.safe_load(sound)["users"][0]["user"]["token"]
    powerless = token_without_rights(plane)
    spoilt = {
        sound.replace(token, "wrong"): "the API server does not accept its token",
        sound.replace(
            token, powerless
        ): "its user system:serviceaccount:default:default is not cluster-admin",
        "{}": "Expected key current-context",
    }
    for text, words in spoilt.items():
        plane.kubeconfig.write_text(text)
        problems = plane.status().problems
        assert any(str(plane.kubeconfig) in problem and words in problem for problem in problems), problems
        steps: list[str] = []
        assert plane.up(steps.append).healthy
        assert steps == [f"{plane.kubeconfig} was missing or did not match the API server; wrote it again"]
        assert plane.kubeconfig.read_text() == sound
        assert pids(plane) == before, "nothing need be started again"


def test_users_who_lost_their_group_get_it_back(data_folder: Path) -> None:
    """The API server reads its file of tokens when it starts: a change shows after a restart."""
    plane = ControlPlane(data_folder)
    plane.up()
    sound = plane.layout.tokens.read_text()
    plane.layout.tokens.write_text(sound.replace("system:masters", "nobody") + "half a line\n")
    server = pids(plane)["kube-apiserver"]
    assert server is not None
    os.kill(server, signal.SIGKILL)
    assert plane.up().healthy
    assert plane.layout.tokens.read_text() == sound
    api = plane.api()
    try:
        api.list("v1", "Node")
    except ApiError as error:
        raise AssertionError("the administrator may not list nodes") from error
    finally:
        api.close()
