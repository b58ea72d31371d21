"""The client for ordinary code, made of the one for asyncio: without waiting, with other names.

`python -m gpupool.environment.schema.sync_client` prints the module; `make schema` writes it to
`gpupool/client/sync_client.py`, and a test fails when that is stale. Needs ruff, which formats it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "client" / "async_client.py"
SENTENCES = {
    "`AsyncClient`: sends the operations from asyncio.": (
        "`Client`: sends the operations, one after the other."
    ),
    "`sync_client` is made of this module (`make schema`).": (
        "`make schema` makes this file of `async_client`; it must not be edited."
    ),
    "client for asyncio. Close it, or use it in an `async with` statement. Event loops and\n"
    "    processes can share it; each opens its own connections.": (
        "client for synchronous code. Close it, or use it in a `with` statement. Threads and\n"
        "    processes can share it; each process opens its own connections."
    ),
    "Close the connections of this event loop.": "Close the connections of this process.",
}
"""What docstrings say that is about one of the two."""
PATTERNS = {
    r"^import asyncio\n": "",
    r"^Answered = .*\n": "",
    r"\bAnswered\[(\w+)\]": r"\1",
    r"\b(async |await )": "",
    r"\basyncio\.sleep\b": "time.sleep",
    r"\b__a(enter|exit)__\b": r"__\1__",
    r"\ba(closing|close|read|iter_bytes)\b": r"\1",
    r", Coroutine$": "",
    r"\bConnectedByLoop\b": "Connected[httpx2.Client]",
    r"\bAsync(Client|Job|Generator|Iterator)\b": r"\1",
}


def text() -> str:
    """The module as the file holds it. Raises ValueError where the source has no sentence of SENTENCES."""
    module = SOURCE.read_text(encoding="utf-8")
    for sentence, instead in SENTENCES.items():
        if module.count(sentence) != 1:
            raise ValueError(f"{SOURCE.name} says {module.count(sentence)} times, and not once: {sentence}")
        module = module.replace(sentence, instead)
    for pattern, instead in PATTERNS.items():
        module = re.sub(pattern, instead, module, flags=re.MULTILINE)
    for command in (("check", "--select", "I", "--fix"), ("format",)):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "ruff",
                *command,
                "--quiet",
                "--stdin-filename",
                SOURCE.with_name("sync_client.py"),
                "-",
            ],
            input=module,
            capture_output=True,
            text=True,
            check=True,
        )
        module = done.stdout
    return module


if __name__ == "__main__":
    print(text(), end="")
