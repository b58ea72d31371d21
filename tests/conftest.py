"""What all tests share: how a run ends, and which tests need programs that a laptop may lack."""

from __future__ import annotations

import signal
from typing import Any


def pytest_configure() -> None:
    """A shell starts background jobs, as a CI run may be one, with Ctrl-C ignored; children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how to go on, above pytest's own closing line."""
    terminalreporter.write_line("go on with: make lint, make bench; one test: pytest -k NAME")
