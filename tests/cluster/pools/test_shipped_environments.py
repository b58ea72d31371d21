"""Every object of every shipped environment is one that an API server with all CRDs takes, field by field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpupool.environment.plan.resolve import read_plan
from gpupool.environment.spec.load import environment_names
from gpupool.generators import generate
from gpupool.live.cluster.kube_api import ApiError
from gpupool.live.objects.live import differences

EVERY_FIELD = Path(__file__).parents[2] / "environment" / "plan" / "every-field-eks.yaml"


@pytest.mark.parametrize("name", [*environment_names(), str(EVERY_FIELD)])
def test_the_server_takes_every_object(name: str, monitored: Any) -> None:
    manifests = [manifest for manifest in generate(read_plan(name)) if not manifest.patch]
    for manifest in manifests:
        if manifest.kind == "Namespace":
            monitored.api.apply(dict(manifest.body), "tests")
    for manifest in manifests:
        # Unknown fields are refused and CRDs' own rules run, though nothing is stored.
        _, seen = monitored.api.apply(dict(manifest.body), "tests", force=True, dry_run=True)
        assert seen["metadata"]["name"] == manifest.name
        # What the server fills in is no change for `assert`.
        assert list(differences(manifest.body, seen)) == [], manifest


def test_a_field_that_does_not_exist_is_refused(cluster: Any) -> None:
    """So that the test above can fail."""
    pool = next(manifest for manifest in generate(read_plan("prod")) if manifest.kind == "EC2NodeClass")
    wrong = {**pool.body, "spec": {**pool.body["spec"], "instanceStoragePolicy": "RAID0"}}
    with pytest.raises(ApiError, match="instanceStoragePolicy"):
        cluster.api.apply(wrong, "tests", dry_run=True)
