"""Which components a control plane is asked for."""

from __future__ import annotations

import pytest

from gpupool.local import components
from gpupool.programs.failures import LocalError


def test_the_real_controller_comes_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(components.OPERATOR_VARIABLE, raising=False)
    assert components.requested() == ()
    assert components.programs() == components.PROGRAMS
    for value, wanted in {"": (), "simulated": (), "real": ("nvidia-operator",)}.items():
        monkeypatch.setenv(components.OPERATOR_VARIABLE, value)
        assert components.requested() == wanted
    assert {"gpu-operator", "helm"} == set(components.programs()) - set(components.PROGRAMS)


def test_another_value_is_refused_with_those_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(components.OPERATOR_VARIABLE, "nvidia")
    with pytest.raises(LocalError, match="'nvidia' is unknown; expected one of: simulated, real"):
        components.requested()
