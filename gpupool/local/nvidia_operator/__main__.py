"""Run NVIDIA's controller: `python -m gpupool.local.nvidia_operator --kubeconfig FILE ...`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import sys
from pathlib import Path

from gpupool.live.cluster.async_api import AsyncKubeApi
from gpupool.live.cluster.kube_api import ApiError, KubeApi, UnreachableError
from gpupool.local import crds
from gpupool.local.nvidia_operator import chart, controller
from gpupool.local.nvidia_operator.node_features import NodeFeatures
from gpupool.local.operator.names import NAMESPACE
from gpupool.local.watch import Object, until_signalled
from gpupool.programs.failures import LocalError

_LOOK_SECONDS = 2.0


async def _run(arguments: argparse.Namespace) -> None:
    root = arguments.data / "nvidia-operator"
    controller.prepare(root, arguments.files, arguments.kubeconfig)
    rendered: list[Object] = []
    if arguments.helm:
        rendered = chart.objects(
            arguments.helm, arguments.files / "deployments" / "gpu-operator", arguments.data
        )
    async with AsyncKubeApi.connect(arguments.kubeconfig) as api:
        features = NodeFeatures(api)

        async def ready() -> None:
            await features.listed.wait()
            arguments.ready_file.touch()

        async def operate() -> None:
            variables = {}
            if rendered:
                granted = asyncio.Event()
                tasks.create_task(_keep_granted(arguments.kubeconfig, chart.rights(rendered), granted))
                await granted.wait()
                variables = chart.images(rendered)
            await controller.run(arguments.program, root, variables)

        async with asyncio.TaskGroup() as tasks:
            for work in (features.run(), ready(), operate()):
                tasks.create_task(work)


async def _keep_granted(kubeconfig: Path, rights: list[Object], granted: asyncio.Event) -> None:
    """Give the controller's account its rights wherever its namespace is, which `gpupool up` makes, and again
    where that was removed with what is in it."""
    api = KubeApi.connect(kubeconfig)
    while True:
        with contextlib.suppress(ApiError, UnreachableError):  # the namespace ends, or the server is busy
            if await asyncio.to_thread(_grant, api, rights):
                granted.set()
        await asyncio.sleep(_LOOK_SECONDS)


def _grant(api: KubeApi, rights: list[Object]) -> bool:
    """Whether the account has its rights now."""
    if api.get("v1", "Namespace", NAMESPACE) is None:
        return False
    for body in rights:
        if api.get(body["apiVersion"], body["kind"], body["metadata"]["name"], NAMESPACE) is None:
            api.apply(body, crds.MANAGER, force=True)
    return True


def main() -> None:
    """Parse the arguments and run until a signal comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, text in {
        "kubeconfig": "kubeconfig of a cluster administrator; the controller itself uses its chart's account",
        "ready-file": "file to create when every node has been seen",
        "data": "a writable folder",
        "program": "NVIDIA's controller",
        "files": "files of its module that are read at run time",
    }.items():
        parser.add_argument(f"--{name}", type=Path, required=True, help=text)
    parser.add_argument(
        "--helm",
        type=Path,
        help="permissions and images are those of its chart; without it the chart is installed",
    )
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        asyncio.run(until_signalled(_run(arguments)))
    except* LocalError as failed:
        sys.exit("; ".join(map(str, failed.exceptions)))


if __name__ == "__main__":
    main()
