"""The client as a wheel of its own, in a virtual environment with nothing but what it asks for."""

from __future__ import annotations

import zipfile
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import gpupool.client
from gpupool import __version__
from tests.cluster.wheel.conftest import environment, link, run
from tests.cluster.wheel.test_contents import sources
from tests.distributions import needed

CODE = """\
import sys, gpupool_client
client = gpupool_client.Client(url="http://127.0.0.1:9", tenant="vision", retry_for=0)
try:
    list(client.jobs())
except gpupool_client.NotReached as error:
    print(error)
assert not {name for name in sys.modules if name.partition(".")[0] == "gpupool"}
print(*gpupool_client.__all__)
"""


@pytest.fixture
def metadata(client_wheel: Path) -> Distribution:
    return PathDistribution(zipfile.Path(client_wheel, f"gpupool_client-{__version__}.dist-info/"))


def test_it_is_the_same_files_under_another_name(client_wheel: Path) -> None:
    with zipfile.ZipFile(client_wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        texts = {name: archive.read(name) for name in names}
    assert set(texts) == {
        f"gpupool_client/{Path(name).name}"
        for name in sources("gpupool/client")
        if Path(name).suffix in (".py", ".typed")
    }
    folder = Path(gpupool.client.__file__).parent
    for name, text in texts.items():
        assert text == (folder / Path(name).name).read_bytes(), name


def test_it_has_gpupools_version_and_is_no_more_demanding_than_the_queue(metadata: Distribution) -> None:
    assert metadata.version == __version__
    base = {text for text in Distribution.from_name("gpupool-queue").requires or () if "extra" not in text}
    assert set(metadata.requires or ()) <= base


def test_it_runs_with_what_it_asks_for(client_wheel: Path, metadata: Distribution, tmp_path: Path) -> None:
    packages = environment(tmp_path, client_wheel)
    for requirement in metadata.requires or ():
        link(needed(Requirement(requirement).name), packages)
    printed = run(tmp_path / "bin" / "python", "-I", "-c", CODE, cwd=tmp_path)
    refusal, names = printed.splitlines()
    assert "no answer from the queue" in refusal
    assert names.split() == gpupool.client.__all__
