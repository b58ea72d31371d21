"""Run the simulated GPU Operator: `python -m gpupool.local.operator --kubeconfig FILE [--ready-file
FILE]`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from pathlib import Path

from gpupool.cluster.async_api import AsyncKubeApi
from gpupool.local.operator.controller import Controller


async def _run(kubeconfig: Path, ready_file: Path | None) -> None:
    async with AsyncKubeApi.connect(kubeconfig) as api:
        work = asyncio.create_task(Controller(api).run(ready_file))
        for kind in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(kind, work.cancel)
        try:
            await work
        except asyncio.CancelledError:
            return


def main() -> None:
    """Parse the arguments and run until a signal comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--ready-file", type=Path, help="made once everything in the cluster has been seen")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(_run(arguments.kubeconfig, arguments.ready_file))


if __name__ == "__main__":
    main()
