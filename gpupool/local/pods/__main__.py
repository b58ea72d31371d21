"""Run the pod runner: `python -m gpupool.local.pods --kubeconfig FILE --data FOLDER --port PORT
--certificate FILE --key FILE --ready-file FILE`."""

from __future__ import annotations

import argparse
import asyncio
import logging
from pathlib import Path

from gpupool.live.cluster.async_api import AsyncKubeApi
from gpupool.local.pods import server
from gpupool.local.pods.runner import Runner
from gpupool.local.watch import until_signalled


async def _run(arguments: argparse.Namespace) -> None:
    async with AsyncKubeApi.connect(arguments.kubeconfig) as api:
        runner = Runner(api, arguments.data)
        async with server.serving(runner, arguments.port, arguments.certificate, arguments.key):
            await until_signalled(runner.run(arguments.ready_file))


def main() -> None:
    """Parse the arguments and run until a signal comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="the control plane's data folder")
    parser.add_argument("--port", type=int, required=True, help="address where the API server requests logs")
    parser.add_argument(
        "--certificate", type=Path, required=True, help="certificate of both ends of that connection"
    )
    parser.add_argument("--key", type=Path, required=True)
    parser.add_argument(
        "--ready-file", type=Path, required=True, help="file to create when every pod has been seen"
    )
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
