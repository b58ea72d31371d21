"""What pyproject.toml can't say: parts of the repository that go into the wheel, as gpupool/shipped.

`gpupool.environment.shipped` finds them there. Nothing else is decided here.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
SHIPPED = ("policies", "charts", "tools", "ci", ".github/workflows/gpupool.yaml", "requirements.lock")


class BuildWithShipped(build_py):
    """The Python files and package data, then the shipped folders; an editable install needs neither."""

    def run(self) -> None:
        if not self.editable_mode:
            # What an earlier build left would be packed as well, under names that are gone.
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        if self.editable_mode:
            return
        for name in SHIPPED:
            source, target = ROOT / name, Path(self.build_lib, "gpupool", "shipped", name)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)


setup(cmdclass={"build_py": BuildWithShipped})
