from __future__ import annotations

import pytest

from stowplan.objects.devices import DeviceAttribute, DeviceCapacity
from stowplan.plugins.dynamicresources import cel
from stowplan.plugins.dynamicresources.cel import (
    CELCompileError,
    CELRuntimeError,
    SelectorDevice,
    compile_selector,
)

DRIVER = "gpu.example.com"
A = f'device.attributes["{DRIVER}"]'
C = f'device.capacity["{DRIVER}"]'


def make_device(**changes: DeviceAttribute) -> SelectorDevice:
    attributes = {
        "model": DeviceAttribute(string_value="a100"),
        "cores": DeviceAttribute(int_value=5),
        "shared": DeviceAttribute(bool_value=True),
        "version": DeviceAttribute(version_value="1.2.3-rc.1+build"),
        "other.com/rack": DeviceAttribute(string_value="r1"),
        **changes,
    }
    return SelectorDevice(DRIVER, attributes, {"memory": DeviceCapacity(value="40Gi")}, False)


@pytest.mark.parametrize(
    "expression",
    [
        f'device.driver == "{DRIVER}"',
        "device.allowMultipleAllocations == false",
        f'{A}.model == "a100"',
        f"{A}.shared",
        f'{A}.model in ["x", "a100"]',
        f'{A}.model.startsWith("a") && {A}.model.matches("^a[0-9]+$") && {A}.model.upperAscii() == "A100"',
        f'{A}.model.find("[0-9]+") == "100"',
        'device.attributes["other.com"].rack == "r1"',
        f'{C}.memory.compareTo(quantity("32Gi")) > 0',
        f'{C}.memory.isGreaterThan(quantity("32Gi")) && !{C}.memory.isLessThan(quantity("32Gi"))',
        f'{C}.memory == quantity("40960Mi")',
        f'{C}.memory.sub(quantity("8Gi")).add(1).compareTo(quantity("32Gi")) == 1',
        f"{C}.memory.asInteger() == 42949672960 && {C}.memory.sign() == 1",
        'quantity("1500m").isInteger() == false && isQuantity("1Q") == false',
        f'{A}.version.isLessThan(semver("1.2.3"))',
        f'{A}.version == semver("1.2.3-rc.1")',
        f"{A}.version.major() == 1 && {A}.version.minor() == 2 && {A}.version.patch() == 3",
        'semver("v1.2", true).compareTo(semver("1.2.0")) == 0 && !isSemver("v1.2") && isSemver("v1.2", true)',
        f'has({A}.model) && !has({A}.nothing) && !has(device.attributes["nowhere"].model)',
        f'{A}.?nothing.orValue("x") == "x" && {A}.?cores.orValue(0) == 5',
        f'{A}.?model.orValue({A}.nothing) == "a100"',
        f"{A}.?nothing.orValue({A}.?cores.orValue({A}.nothing)) == 5",
        f'{A}.?model.or({A}.?cores.or(optional.of({A}.nothing))).value() == "a100"',
        f"{A}.?nothing.or({A}.?cores).orValue(0) == 5",
        f'{A}[?"cores"].hasValue() && !device.attributes["nowhere"].?cores.hasValue()',
        f"{A}.?cores.optMap(v, v * 2).orValue(0) == 10",
        f"{A}.?cores.optFlatMap(v, optional.of(v + 1)).value() == 6",
        f'cel.bind(a, {A}, a.model == "a100" && a.cores == 5)',
        f'{A}.exists(name, name == "cores") && size(device.attributes) == 2',
        '"other.com" in device.attributes && !("nowhere" in device.attributes)',
        f"{A}.nothing == 1 || true",
    ],
)
def test_expressions_hold(expression: str) -> None:
    assert compile_selector(expression).matches(make_device())


@pytest.mark.parametrize(
    "expression",
    [
        'size("größe") == 5 && "größe".size() == 5 && size([1, 2]) == 2',
        '"größe".indexOf("e") == 4 && "abab".indexOf("b", 2) == 3 && "abab".indexOf("c") == -1',
        '"ab".indexOf("b", 2) == -1 && "".indexOf("b", 1) == -1 && "ab".indexOf("", 7) == 7',
        '"abab".lastIndexOf("a") == 2 && "abab".lastIndexOf("ab", 1) == 0',
        '"abab".lastIndexOf("a", 3) == 2 && "abab".lastIndexOf("a", 4) == -1',
        '"ab".lastIndexOf("") == 2 && "ab".lastIndexOf("", 7) == 7 && "".lastIndexOf("a") == -1',
        "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2",
        "[1].indexOf(3) == -1 && [1].lastIndexOf(3) == -1",
        f'string({A}.shared) == "true" && string(1 > 2) == "false"',
        'bool("T") && !bool("F") && bool("true") && bool(true)',
        'isQuantity("1Ki") && !isQuantity(" 1Ki") && !isQuantity("1Ki ")',
        'string(duration("1.5h")) == "5400s" && string(duration("-1500ms")) == "-1.5s"',
        'int(timestamp("1970-01-01T00:01:00.5Z")) == 60 && int("7") == 7 && int(1.9) == 1 && int(3u) == 3',
        'string(-7) == "-7" && string(1.5) == "1.5" && string("a") == "a" && string(3u) == "3"',
    ],
)
def test_texts_and_lists_are_counted_searched_and_made_as_upstream(expression: str) -> None:
    assert compile_selector(expression).matches(make_device())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["indexOf", "lastIndexOf"])
def test_a_text_is_not_searched_from_before_its_start(method: str) -> None:
    with pytest.raises(CELRuntimeError, match="index out of range: -1"):
        compile_selector(f'"ab".{method}("b", -1) == 0').matches(make_device())


def test_a_device_may_fail_an_expression() -> None:
    assert not compile_selector(f'{A}.model == "h100"').matches(make_device())


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        (f"{A}.nothing == 1", "no such key: nothing"),
        ('device.attributes["nowhere"].model == ""', "no such key: model"),
        ("1 / 0 == 1", "division by zero"),
        ("device.driver", "could not be converted to bool"),
        (f"{A}.cores && true", "overload"),
        (f'{C}.memory.compareTo(semver("1.0.0")) == 0', "overload"),
        ("unheardOf(1)", "unheardOf"),
        ('quantity(" 1Ki").isInteger()', "space around"),
        ('bool("tRUE")', "to bool"),
    ],
)
def test_no_answer_is_an_error(expression: str, problem: str) -> None:
    with pytest.raises(CELRuntimeError, match=problem):
        compile_selector(expression).matches(make_device())


@pytest.mark.parametrize("expression", ["1 +", "(", "a b", "device.?"])
def test_nonsense_does_not_compile(expression: str) -> None:
    with pytest.raises(CELCompileError, match="compilation failed"):
        compile_selector(expression)


@pytest.mark.parametrize(
    ("attribute", "problem"),
    [
        (DeviceAttribute(), "attribute bad: unsupported attribute value"),
        (DeviceAttribute(version_value="1"), "attribute bad: parse semantic version"),
    ],
)
def test_a_device_with_a_broken_attribute_fails_every_expression(
    attribute: DeviceAttribute, problem: str
) -> None:
    with pytest.raises(CELRuntimeError, match=problem):
        compile_selector("true").matches(make_device(bad=attribute))


def test_devices_that_differ_in_what_is_not_asked_share_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    selector = cel.Selector(f'{A}.model == "a100"')
    evaluations = []

    def evaluate(device: SelectorDevice) -> bool:
        evaluations.append(device)
        return True

    monkeypatch.setattr(selector, "_evaluate", evaluate)
    for serial in range(100):
        assert selector.matches(make_device(serial=DeviceAttribute(int_value=serial)))
    assert len(evaluations) == 1
    selector.matches(make_device(model=DeviceAttribute(string_value="h100")))
    assert len(evaluations) == 2


def test_values_of_different_types_are_told_apart() -> None:
    selector = compile_selector(f"type({A}.cores) == int")
    assert selector.matches(make_device(cores=DeviceAttribute(int_value=1)))
    assert not selector.matches(make_device(cores=DeviceAttribute(string_value="1")))
    assert not selector.matches(make_device(cores=DeviceAttribute(bool_value=True)))
