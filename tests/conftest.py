"""What all tests share: how a run ends, and what hypothesis draws.

No example has a deadline: how long one takes says more of the machine than of the code.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from hypothesis import HealthCheck, settings

from cli.policy_progress import QUIET_VARIABLE

settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("reproducible", settings.get_profile("here"), derandomize=True, database=None)
"""The same examples in every run of the same tests: what CI finds wrong is wrong on a laptop too, with CI=1.

New ones are drawn wherever CI is not set; GPUPOOL_FUZZ multiplies some.
"""
settings.load_profile("reproducible" if os.environ.get("CI") else "here")


def pytest_configure() -> None:
    """A shell starts background jobs, as a CI run may be one, with Ctrl-C ignored; children inherit that.

    They inherit as well that no progress is told on a slow day, where tests compare what is said.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ[QUIET_VARIABLE] = "100000"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how to go on, above pytest's own closing line."""
    terminalreporter.write_line("go on with: make lint, make bench; one test: pytest -k NAME")
