"""Run the simulated GPU Operator: `python -m gpupool.local.operator --kubeconfig FILE --ready-file FILE`."""

from __future__ import annotations

import argparse
import asyncio
import logging
from pathlib import Path

from gpupool.live.cluster.async_api import AsyncKubeApi
from gpupool.local.operator.controller import Controller
from gpupool.local.watch import until_signalled


async def _run(arguments: argparse.Namespace) -> None:
    async with AsyncKubeApi.connect(arguments.kubeconfig) as api:
        controller = Controller(api, alone=arguments.controller == "simulated")
        await until_signalled(controller.run(arguments.ready_file))


def main() -> None:
    """Parse the arguments and run until a signal comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument(
        "--ready-file",
        type=Path,
        required=True,
        help="file to create when everything in the cluster has been seen",
    )
    parser.add_argument(
        "--controller",
        choices=("simulated", "real"),
        default="simulated",
        help=(
            "which controller reports the state of the ClusterPolicy; `real`: NVIDIA's, which runs in "
            "addition"
        ),
    )
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(_run(arguments))


if __name__ == "__main__":
    main()
