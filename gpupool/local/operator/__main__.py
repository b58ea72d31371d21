"""Run the simulated GPU Operator: `python -m gpupool.local.operator --kubeconfig FILE --ready-file FILE`."""

from __future__ import annotations

import argparse
import asyncio
import logging
from pathlib import Path

from gpupool.cluster.async_api import AsyncKubeApi
from gpupool.local.operator.controller import Controller
from gpupool.local.watch import until_signalled


async def _run(kubeconfig: Path, ready_file: Path) -> None:
    async with AsyncKubeApi.connect(kubeconfig) as api:
        await until_signalled(Controller(api).run(ready_file))


def main() -> None:
    """Parse the arguments and run until a signal comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument(
        "--ready-file", type=Path, required=True, help="made once everything in the cluster has been seen"
    )
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(_run(arguments.kubeconfig, arguments.ready_file))


if __name__ == "__main__":
    main()
