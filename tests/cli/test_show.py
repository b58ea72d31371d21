"""What `gpupool show` prints: 80 columns, and where its prices are from."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.cli.environments import show
from gpupool.environment.catalog.models import PRICE_REGION

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "environments").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_environments_fit_80_columns(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show(str(path))
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("region", [PRICE_REGION, "eu-west-1"])
def test_prices_of_another_region(region: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "environments" / "prod.yaml").read_text(encoding="utf-8")
    path = tmp_path / "prod.yaml"
    path.write_text(text.replace("us-east-1", region), encoding="utf-8")
    show(str(path))
    shown = " ".join(capsys.readouterr().out.split())
    assert ("prices are those of us-east-1, but the cluster is in eu-west-1" in shown) == (
        region != "us-east-1"
    )
    show(str(path), "json")
    assert '"priceRegion": "us-east-1"' in capsys.readouterr().out
