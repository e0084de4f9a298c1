"""What is written is read back as the same, and looks the same every time."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.config import types
from stowplan.config.defaults import completed, default_configuration
from stowplan.config.load import read_configuration
from stowplan.config.writing import to_data, to_yaml, with_expanded_args
from stowplan.objects.base import Int32, Int64
from stowplan.objects.duration import Duration
from tests.unit.config.intree import IN_TREE, load

_TEXT = st.text(max_size=8) | st.sampled_from(
    ["1e3", "10", "on", "~", "2026-01-01", "1:30", "a b", "-", "#", "=", "<<"]
)
_DURATION = st.integers(-(2**63), 2**63 - 1).map(Duration)
_INT32 = st.integers(-(2**31), 2**31 - 1)
_DATA: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_TEXT, inner, max_size=2),
    max_leaves=4,
)
_FIELDS: dict[Any, st.SearchStrategy[Any]] = {
    str: _TEXT,
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bytes: st.binary(max_size=8),
    Duration: _DURATION,
    Int32: _INT32,
    Int64: st.integers(-(2**63), 2**63 - 1),
    dict[str, Any]: st.dictionaries(_TEXT, _DATA, max_size=2),
}


def records(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Any record of a type, by the types of its fields."""
    fields = {field.name: of_type(field.type) for field in msgspec.structs.fields(kind)}
    if kind is types.Plugins:  # all sets are alike, and fifteen of them make slow examples
        fields = {name: fields[name] for name in ("score", "multi_point")}
    if kind is types.KubeSchedulerConfiguration:
        fields |= {"api_version": st.just(types.API_VERSION), "kind": st.just(types.KIND)}
    return st.builds(kind, **fields)


def of_type(kind: Any) -> st.SearchStrategy[Any]:
    if kind in _FIELDS:
        return _FIELDS[kind]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return records(kind)
    arguments = get_args(kind)
    if arguments[-1] is Ellipsis:
        return st.lists(of_type(arguments[0]), max_size=2).map(tuple)
    assert arguments[1] is type(None)
    return st.none() | of_type(arguments[0])


def read_back(text: str) -> types.KubeSchedulerConfiguration:
    reading = read_configuration(text.encode(), "f")
    assert not reading.problems
    return reading.written


@settings(max_examples=60)
@given(records(types.KubeSchedulerConfiguration))
def test_what_is_written_without_defaults_reads_back_as_the_same(
    configuration: types.KubeSchedulerConfiguration,
) -> None:
    # a text or duration that is empty on purpose means the default, so completing makes them equal
    text = to_yaml(configuration, with_defaults=False)
    assert completed(read_back(text)) == completed(configuration)


@settings(max_examples=60)
@given(records(types.KubeSchedulerConfiguration))
def test_what_is_written_in_full_reads_back_as_the_same(
    configuration: types.KubeSchedulerConfiguration,
) -> None:
    configuration = completed(configuration)
    text = to_yaml(configuration)
    assert read_back(text) == configuration
    assert to_yaml(read_back(text)) == text


def test_the_default_configuration_in_full() -> None:
    loaded = load()
    full = with_expanded_args(loaded.configuration, loaded.profiles)
    data = to_data(full)
    assert list(data) == [
        "apiVersion",
        "kind",
        "parallelism",
        "leaderElection",
        "clientConnection",
        "enableProfiling",
        "enableContentionProfiling",
        "percentageOfNodesToScore",
        "podInitialBackoffSeconds",
        "podMaxBackoffSeconds",
        "profiles",
        "delayCacheUntilActive",
    ]
    assert data["leaderElection"]["leaseDuration"] == "15s"
    (profile,) = data["profiles"]
    assert [plugin["name"] for plugin in profile["plugins"]["multiPoint"]["enabled"]] == list(IN_TREE)
    args = {config["name"]: config["args"] for config in profile["pluginConfig"]}
    assert list(args) == sorted(args)
    assert args["DynamicResources"] == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "DynamicResourcesArgs",
        "filterTimeout": "10s",
        "bindingTimeout": "10m0s",
    }
    assert args["NodeResourcesFit"]["scoringStrategy"]["resources"] == [
        {"name": "cpu", "weight": 1},
        {"name": "memory", "weight": 1},
    ]


def test_what_is_written_in_full_loads_as_the_same_profiles() -> None:
    loaded = load("""\
profiles:
- schedulerName: a
  plugins:
    multiPoint: {enabled: [{name: Coscheduling}, {name: NodeAffinity, weight: 5}]}
    filter: {disabled: [{name: NodeName}]}
    score: {enabled: [{name: SameRack, weight: 3}], disabled: [{name: ImageLocality}]}
  pluginConfig:
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: 7}
""")
    text = to_yaml(with_expanded_args(loaded.configuration, loaded.profiles))
    again = load(text, header="")
    assert again.profiles == loaded.profiles
    assert again.warnings == ()


def test_only_what_differs_is_written_without_defaults() -> None:
    assert to_data(types.KubeSchedulerConfiguration(parallelism=4), with_defaults=False) == {
        "apiVersion": types.API_VERSION,
        "kind": types.KIND,
        "parallelism": 4,
    }


def test_text_that_others_would_take_for_a_number_is_quoted() -> None:
    configuration = types.KubeSchedulerConfiguration(profiles=(types.Profile(scheduler_name="1e3"),))
    assert "schedulerName: '1e3'" in to_yaml(configuration)


def test_yaml_for_everybody() -> None:
    assert yaml.safe_load(to_yaml(default_configuration())) == to_data(default_configuration())


def test_a_key_is_not_shown_by_accident() -> None:
    assert "secret" not in repr(types.ExtenderTLSConfig(key_data=b"secret"))
