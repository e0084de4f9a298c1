from __future__ import annotations

import pytest

from stowplan.cli.flags import FlagError
from stowplan.cli.gates import gate_warnings


def said(*given: str) -> list[str]:
    return list(gate_warnings(given))


def test_what_is_so_anyway_is_not_worth_a_word() -> None:
    assert said("SchedulerQueueingHints=true,kube:GangScheduling=false", "SchedulerAsyncAPICalls=f") == []


def test_what_is_otherwise_here_is_named() -> None:
    assert said("GangScheduling=true") == [
        "feature gate GangScheduling=true has no effect: stowplan behaves as with GangScheduling=false"
    ]


def test_what_is_not_known_is_named() -> None:
    assert said("RotateKubeletServerCertificate=true") == [
        "feature gate RotateKubeletServerCertificate means nothing to stowplan and has no effect"
    ]


@pytest.mark.parametrize("text", ["GangScheduling", "GangScheduling=maybe", "wardle:X=true"])
def test_what_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(FlagError, match="feature-gates"):
        said(text)
