"""What the CEL library does not parse or cannot do, rewritten into what it can.

The library has no optional selection (`a.?b`, `a[?b]`), no `cel.bind` and no `optMap`; it evaluates what
`or` and `orValue` fall back on even when nobody needs it; its `string` takes no truth values and writes
durations otherwise, its `int` takes no times, and its `size` counts the bytes of a text. Each has an equal in
plain CEL with a few functions of our own.

On the way the rewriter notes which device domains an expression names and whether it reads nothing but
attributes that it names, which is what makes one answer usable for many devices.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

OPT_SELECT = "stowplanSelect"
OPT_ITEMS = "stowplanItems"
OPT_FIRST = "stowplanFirst"
OPT_FLATTEN = "stowplanFlatten"
DOMAIN = "stowplanDomain"
TEXT_OF = "stowplanText"
SECONDS_OF = "stowplanSeconds"
SIZE = "stowplanSize"
_PREPARED = {"string": TEXT_OF, "int": SECONDS_OF}
"""Conversions, and what turns values that they do not know into such that they do."""

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<string>[rRbB]{0,2}(?:
        \"\"\"(?:\\.|[^\\])*?\"\"\" | '''(?:\\.|[^\\])*?''' | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
    ))
  | (?P<number>
        0[xX][0-9a-fA-F]+[uU]? | [0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?[uU]? | \.[0-9]+(?:[eE][+-]?[0-9]+)?
    )
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<symbol>\.\?|\[\?|&&|\|\||==|!=|<=|>=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_CLOSERS = {"(": ")", "[": "]", "[?": "]", "{": "}"}
_NAMING = ("name", "string")
_DEVICE_MAPS = ("attributes", "capacity")


class Token(NamedTuple):
    """A piece of source: its kind (`string`, `number`, `name`, `symbol`) and text."""

    kind: str
    text: str


class CELSyntaxError(ValueError):
    """An expression whose brackets or macros make no sense."""


@dataclass
class Rewritten:
    """An expression for the library, and what is known about it.

    `domains` are the literal domains looked up in the device's maps. `closed` says that the expression
    reads only attributes and capacities whose names stand in it as `names`.
    """

    source: str = ""
    domains: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    closed: bool = True
    whole_maps: bool = False


def rewrite(expression: str) -> Rewritten:
    """The expression in the library's words."""
    tokens = [
        Token(match.lastgroup or "", match.group())
        for match in _TOKEN.finditer(expression)
        if match.lastgroup != "space"
    ]
    result = _rewritten(tokens, by_function=False)
    # Where the keys of a device map matter, an unknown domain must not be put into it as an empty one.
    return _rewritten(tokens, by_function=True) if result.whole_maps else result


def _rewritten(tokens: Sequence[Token], *, by_function: bool) -> Rewritten:
    values = [_plain(token.text) if token.kind == "string" else token.text for token in tokens]
    result = Rewritten(
        names={value for value, token in zip(values, tokens, strict=True) if value and token.kind in _NAMING},
        closed=None not in values,
    )
    result.source = _Rewriter(tokens, result, by_function=by_function).whole()
    return result


class _Chain:
    """A primary and the selections after it, as far as they are read.

    `path` has the names selected so far, with `*` for anything that is not a plain name.
    """

    def __init__(self) -> None:
        self.text = ""
        self.optional = False
        self.path: list[str] = []


class _Rewriter:
    def __init__(self, tokens: Sequence[Token], result: Rewritten, *, by_function: bool) -> None:
        self.tokens = tokens
        self.at = 0
        self.result = result
        self.by_function = by_function

    def whole(self) -> str:
        text = self.until("")
        if self.at < len(self.tokens):
            raise CELSyntaxError(f"unexpected {self.tokens[self.at].text!r}")
        return text

    # -- walking

    def peek(self, ahead: int = 0) -> Token:
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else Token("symbol", "")

    def take(self) -> Token:
        token = self.peek()
        self.at += 1
        return token

    def until(self, closer: str) -> str:
        """Everything up to a closing bracket, which stays unread."""
        parts: list[str] = []
        while self.at < len(self.tokens):
            token = self.peek()
            if token.text in (")", "]", "}") and token.kind == "symbol":
                break
            if (token.kind != "symbol" and token.text != "in") or token.text in ("(", "[", "{"):
                parts.append(self.chain())
            elif token.text == "." and self.peek(1).kind == "name":
                parts.append(self.take().text + self.chain())
            else:
                parts.append(self.take().text)
        if closer and self.peek().text != closer:
            raise CELSyntaxError(f"missing {closer!r}")
        return " ".join(parts)

    def enclosed(self, opener: str) -> str:
        """The content of brackets whose opener was just read; reads the closer too."""
        inner = self.until(_CLOSERS[opener])
        self.at += 1
        return inner

    def arguments(self) -> list[str]:
        """The arguments of a macro whose opening bracket was just read, each rewritten."""
        depth, start, ends = 0, self.at, []
        for place in range(self.at, len(self.tokens)):
            text = self.tokens[place].text if self.tokens[place].kind == "symbol" else ""
            if text in _CLOSERS:
                depth += 1
            elif text in (")", "]", "}"):
                depth -= 1
            if depth < 0 or (depth == 0 and text == ","):
                ends.append(place)
            if depth < 0:
                break
        if depth >= 0:
            raise CELSyntaxError("missing ')'")
        pieces = []
        for end in ends:
            inner = _Rewriter(self.tokens[start:end], self.result, by_function=self.by_function)
            pieces.append(inner.whole())
            start = end + 1
        self.at = start
        return pieces

    # -- primaries and what follows them

    def chain(self) -> str:
        before = self.tokens[max(0, self.at - 2) : self.at]
        chain = _Chain()
        self.primary(chain)
        while True:
            text = self.peek().text if self.peek().kind == "symbol" else ""
            if text == "." and self.peek(1).kind == "name":
                self.select(chain)
            elif text == ".?":
                self.take()
                if self.peek().kind != "name":
                    raise CELSyntaxError("missing a name after '.?'")
                name = self.take().text
                self.look_up(chain, f'"{name}"', name, optional=True)
            elif text in ("[", "[?"):
                self.index(chain)
            else:
                break
        self.note_end(chain, before)
        return chain.text

    def primary(self, chain: _Chain) -> None:
        token = self.take()
        if token.kind == "symbol":
            chain.text = f"{token.text}{self.enclosed(token.text)}{_CLOSERS[token.text]}"
            chain.path = ["*"]
        elif token.text == "cel" and [self.peek(i).text for i in range(3)] == [".", "bind", "("]:
            self.at += 3
            chain.text = self.bind()
            chain.path = ["*"]
        elif token.kind == "name" and self.peek().text == "(":
            self.take()
            inside = self.enclosed("(")
            if token.text in _PREPARED:
                inside = f"{_PREPARED[token.text]}({inside})"
            chain.text = f"{_own(token.text)}({inside})"
            chain.path = ["*"]
        else:
            chain.text = token.text
            chain.path = [token.text if token.kind == "name" else "*"]

    def bind(self) -> str:
        """`cel.bind(x, value, body)`: the body with x standing for the value."""
        arguments = self.arguments()
        if len(arguments) != 3:
            raise CELSyntaxError("cel.bind takes a name, a value and an expression")
        name, value, body = arguments
        return f"[{value}].map({name}, {body})[0]"

    def select(self, chain: _Chain) -> None:
        self.take()
        name = self.take().text
        if self.peek().text == "(":
            self.take()
            self.call(chain, name)
        else:
            self.look_up(chain, f'"{name}"', name, dotted=True)

    def call(self, chain: _Chain, name: str) -> None:
        if name in ("optMap", "optFlatMap"):
            arguments = self.arguments()
            if len(arguments) != 2:
                raise CELSyntaxError(f"{name} takes a name and an expression")
            variable, body = arguments
            join = OPT_FIRST
            if name == "optFlatMap":
                join, body = OPT_FLATTEN, f"{OPT_ITEMS}({body})"
            chain.text = f"{join}({OPT_ITEMS}({chain.text}).map({variable}, {body}))"
            chain.optional = True
        elif name in ("or", "orValue"):
            chain.text = _fallback(chain.text, self.enclosed("("), value=name == "orValue")
            chain.optional = name == "or"
        else:
            chain.text = f"{chain.text}.{_own(name)}({self.enclosed('(')})"
            chain.optional = False
        self.leave(chain)

    def index(self, chain: _Chain) -> None:
        opener = self.take().text
        literal = self.peek().kind == "string" and self.peek(1).text == "]"
        name = _plain(self.peek().text) if literal else None
        self.look_up(chain, self.enclosed(opener), name, optional=opener == "[?")

    def look_up(
        self, chain: _Chain, key: str, name: str | None, *, optional: bool = False, dotted: bool = False
    ) -> None:
        """Selects a field or an entry; `key` is source, `name` its value where that is known."""
        chain.optional = chain.optional or optional
        domain = _is_device_map(chain.path)
        if name is None and (domain or _in_device_map(chain.path)):
            self.result.closed = False
        if domain and name is not None:
            self.result.domains.add(name)
        if domain and (name is None or self.by_function):
            chain.text = f"{DOMAIN}({chain.text}, {key})"
            if chain.optional:
                chain.text = f"optional.of({chain.text})"
        elif chain.optional:
            chain.text = f"{OPT_SELECT}({chain.text}, {key})"
        elif dotted:
            chain.text = f"{chain.text}.{name}"
        else:
            chain.text = f"{chain.text}[{key}]"
        chain.path.append("*" if name is None else name)

    def leave(self, chain: _Chain) -> None:
        """A method is called on what was selected so far."""
        self.note_whole(chain)
        chain.path = ["*"]

    def note_end(self, chain: _Chain, before: Sequence[Token]) -> None:
        asked = len(before) == 2 and before[0].kind == "string" and before[1].text == "in"
        if not (asked and _in_device_map(chain.path)):
            self.note_whole(chain)

    def note_whole(self, chain: _Chain) -> None:
        """A device map that is used as a whole may be read in ways that the names do not tell."""
        if chain.path == ["device"] or _is_device_map(chain.path):
            self.result.closed = False
            self.result.whole_maps = True
        elif _in_device_map(chain.path):
            self.result.closed = False


def _fallback(optional: str, other: str, *, value: bool) -> str:
    """`optional.or(other)` or `optional.orValue(other)`, where the other is not looked at without need."""
    content = f"[{OPT_ITEMS}({optional})].map(stowplanFound, stowplanFound.size() > 0 ? "
    if value:
        return f"{content}stowplanFound[0] : {other})[0]"
    return f"{OPT_FIRST}({content}stowplanFound : {OPT_ITEMS}({other}))[0])"


def _own(function: str) -> str:
    return SIZE if function == "size" else function


def _is_device_map(path: Sequence[str]) -> bool:
    return len(path) == 2 and path[0] == "device" and path[1] in _DEVICE_MAPS


def _in_device_map(path: Sequence[str]) -> bool:
    return len(path) == 3 and _is_device_map(path[:2])


def _plain(literal: str) -> str | None:
    """The value of a string literal, or None where reading its escapes would take a CEL lexer."""
    prefix = literal[: len(literal) - len(literal.lstrip("rRbB"))].lower()
    if "b" in prefix or ("\\" in literal and "r" not in prefix):
        return None
    body = literal[len(prefix) :]
    quote = 3 if body[:3] in ('"""', "'''") and len(body) >= 6 else 1
    return body[quote:-quote]
