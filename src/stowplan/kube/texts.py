"""Texts as they can be sent. Those of plugins come from anywhere: file names, exceptions, other programs."""

from __future__ import annotations


def legible(text: str) -> str:
    """The text, with U+FFFD where there is no character: half of a surrogate pair cannot be encoded."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
