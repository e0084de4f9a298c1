"""Bytes to lines."""

from __future__ import annotations

from itertools import pairwise

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.kube.watch import Lines, error_in, outline
from stowplan.objects import Node, Pod, kind_of_record


@settings(max_examples=200)
@given(
    lines=st.lists(st.binary(min_size=1, max_size=20).filter(lambda line: b"\n" not in line), max_size=8),
    cuts=st.lists(st.integers(0, 200), max_size=10),
)
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(line + b"\n" for line in lines)
    got: list[bytes] = []
    reader = Lines(got.append)
    edges = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]
    for start, end in pairwise(edges):
        if start < end:
            reader.feed(whole[start:end])
    assert [line.rstrip(b"\n") for line in got] == lines


def test_an_outline_is_what_can_be_read() -> None:
    sketch = outline(msgspec.Raw(b'{"metadata":{"name":"a","namespace":"b","resourceVersion":"3"},"spec":7}'))
    assert sketch is not None
    assert sketch.key(kind_of_record(Pod)) == "b/a"
    assert sketch.key(kind_of_record(Node)) == "a", "nodes live in no namespace"
    assert sketch.metadata.resource_version == "3"
    assert outline(msgspec.Raw(b'{"metadata":{"name":7}}')) is None


def test_errors_in_a_watch_are_api_errors() -> None:
    error = error_in(msgspec.Raw(b'{"kind":"Status","code":410,"reason":"Expired","message":"too old"}'))
    assert error.is_expired and "too old" in str(error)
    assert "cannot be read" in str(error_in(msgspec.Raw(b"7")))
