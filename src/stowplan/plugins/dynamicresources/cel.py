"""CEL selectors: does a device satisfy an expression?

Few expressions judge many devices, so each is compiled once, and an answer holds for every device that
looks the same to the expression: devices that differ only in attributes it does not name (a serial
number, say) share one.

What CEL needs is imported with the first expression: it would take a third of the memory of a scheduler that
never sees one.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Any

from stowplan.objects.devices import DeviceAttribute, DeviceCapacity
from stowplan.plugins.dynamicresources.celsyntax import rewrite
from stowplan.plugins.dynamicresources.semver import SemverError

_COMPILED = 1000
_REMEMBERED = 100_000


class CELCompileError(ValueError):
    """An expression that is no CEL."""


class CELRuntimeError(ValueError):
    """An expression that gives no answer for a device."""


class SelectorDevice:
    """What an expression can see of a device, split into domains and in CEL's types."""

    __slots__ = ("_capacity", "_key", "attributes", "broken", "driver", "shared")

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, DeviceAttribute],
        capacity: Mapping[str, DeviceCapacity],
        shared: bool,
    ) -> None:
        self.driver = driver
        self.shared = shared
        self.attributes: dict[tuple[str, str], Any] = {}
        self.broken = ""
        """Why no expression can judge this device, if so."""
        self._capacity = {_qualified(name, driver): amount.value for name, amount in capacity.items()}
        for name, attribute in attributes.items():
            try:
                self.attributes[_qualified(name, driver)] = _attribute_value(attribute)
            except ValueError as problem:
                self.broken = self.broken or f"attribute {name}: {problem}"
        self._key: Hashable = None

    def key(self, names: frozenset[str] | None) -> Hashable:
        """Equal for devices that an expression using these names (None: all) cannot tell apart."""
        if names is not None:
            return self._make_key(names)
        if self._key is None:
            self._key = self._make_key(None)
        return self._key

    def _make_key(self, names: frozenset[str] | None) -> Hashable:
        attributes = frozenset(
            (place, type(value), str(value))
            for place, value in self.attributes.items()
            if names is None or place[1] in names
        )
        capacity = frozenset(
            (place, value) for place, value in self._capacity.items() if names is None or place[1] in names
        )
        return self.driver, self.shared, self.broken, attributes, capacity

    def variables(self, domains: frozenset[str]) -> dict[str, Any]:
        """The value of `device`; the domains that the expression names are there even if empty."""
        from stowplan.plugins.dynamicresources.cellib import quantity_value

        attributes: dict[str, dict[str, Any]] = {domain: {} for domain in domains}
        capacity: dict[str, dict[str, Any]] = {domain: {} for domain in domains}
        for (domain, name), value in self.attributes.items():
            attributes.setdefault(domain, {})[name] = value
        for (domain, name), amount in self._capacity.items():
            capacity.setdefault(domain, {})[name] = quantity_value(amount)
        return {
            "driver": self.driver,
            "allowMultipleAllocations": self.shared,
            "attributes": attributes,
            "capacity": capacity,
        }


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, rest = name.partition("/")
    return (domain, rest) if slash else (driver, name)


def _attribute_value(attribute: DeviceAttribute) -> Any:
    known = attribute.value
    if known is None:
        raise ValueError("unsupported attribute value")
    kind, value = known
    if kind == "version":
        from stowplan.plugins.dynamicresources.cellib import version_value

        try:
            return version_value(str(value))
        except SemverError as problem:
            raise ValueError(f"parse semantic version: {problem}") from None
    return value


class Selector:
    """A compiled expression."""

    def __init__(self, expression: str) -> None:
        import cel

        from stowplan.plugins.dynamicresources.cellib import FUNCTIONS

        self.expression = expression
        try:
            rewritten = rewrite(expression)
            self._program = cel.compile(rewritten.source)
        except ValueError as problem:
            raise CELCompileError(f"compilation failed: {problem}") from None
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as problem:  # noqa: BLE001 - the parser may panic, which is no Exception
            raise CELCompileError(f"compilation failed: {problem}") from None
        whole = rewritten.whole_maps
        self._domains = frozenset() if whole else frozenset(rewritten.domains)
        self._names = frozenset(rewritten.names) if rewritten.closed else None
        self._functions = {name: FUNCTIONS[name] for name in self._program.functions() if name in FUNCTIONS}
        self._context = cel.Context
        self._answers: dict[Hashable, bool | str] = {}

    def matches(self, device: SelectorDevice) -> bool:
        """Whether the device satisfies the expression; CELRuntimeError when that cannot be said."""
        key = device.key(self._names)
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            answer = self._answers[key] = device.broken or self._evaluate(device)
        if isinstance(answer, str):
            raise CELRuntimeError(answer)
        return answer

    def _evaluate(self, device: SelectorDevice) -> bool | str:
        context = self._context(
            variables={"device": device.variables(self._domains)}, functions=self._functions
        )
        try:
            answer = self._program.execute(context)
        except KeyError as problem:
            return f"no such key: {problem.args[0] if problem.args else ''}"
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as problem:  # noqa: BLE001 - whatever it is, it is the expression's fault
            return str(problem) or type(problem).__name__
        if isinstance(answer, bool):
            return answer
        return f"CEL result of type {type(answer).__name__} could not be converted to bool"


@lru_cache(maxsize=_COMPILED)
def _compiled(expression: str) -> Selector | CELCompileError:
    try:
        return Selector(expression)
    except CELCompileError as problem:
        return problem


def compile_selector(expression: str) -> Selector:
    """The compiled expression; the same object for the same text."""
    compiled = _compiled(expression)
    if isinstance(compiled, CELCompileError):
        raise CELCompileError(*compiled.args)
    return compiled
