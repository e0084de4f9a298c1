from __future__ import annotations

from stowplan.ops.remembering import Remembered


def test_what_is_remembered_is_forgotten_in_time() -> None:
    now = 0.0
    known: Remembered[str, int] = Remembered(lambda: now)
    known.put("a", 1, 10)
    known.put("b", 2, 0)
    assert known.get("a") == 1
    assert known.get("b") is None, "not to be remembered"
    now = 10.0
    assert known.get("a") is None


def test_outsiders_cannot_fill_the_memory() -> None:
    known: Remembered[int, int] = Remembered(lambda: 0.0)
    for number in range(10_000):
        known.put(number, number, 10)
    assert known.get(9_999) == 9_999
    assert sum(known.get(number) is not None for number in range(10_000)) <= 4096
