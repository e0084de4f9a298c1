"""A file that is wrong says everything that is wrong with it, with file, line and field."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.config.defaults import default_configuration
from stowplan.config.load import convert_configuration, load_configuration
from stowplan.config.problems import ConfigError
from tests.unit.config.intree import HEADER, REGISTRY, load, problems


def test_all_problems_are_told_at_once_each_with_file_line_and_field() -> None:
    assert problems("""\
parallelism: 0
leaderElection:
  leaseDuration: 3
  leasDuration: 15s
podMaxBackoffSeconds: 5
podMaxBackoffSeconds: 6
profiles:
- schedulerName: 1
  plugins:
    bind:
      enabled:
      - name: OtherBinder
        nam: 4
      - weight: 2
""") == (
        'scheduler.yaml:5: leaderElection.leaseDuration: 3 is not a duration such as "15s" or "1m30s"',
        'scheduler.yaml:6: leaderElection.leasDuration: unknown field (did you mean "leaseDuration"?)',
        "scheduler.yaml:7: podMaxBackoffSeconds: stands here twice, in lines 7 and 8",
        "scheduler.yaml:10: profiles[0].schedulerName: 1 is not text (quote it if it looks like a number)",
        'scheduler.yaml:15: profiles[0].plugins.bind.enabled[0].nam: unknown field (did you mean "name"?)',
        "scheduler.yaml:16: profiles[0].plugins.bind.enabled[1].name: is missing",
    )


def test_a_typo_does_not_hide_what_is_wrong_with_values_and_plugins() -> None:
    assert problems("""\
paralelism: 3
percentageOfNodesToScore: 101
profiles:
- plugins:
    multiPoint:
      enabled:
      - name: NodeName
      - name: Cosheduling
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        resources:
        - name: cpu
          weight: 200
""") == (
        'scheduler.yaml:3: paralelism: unknown field (did you mean "parallelism"?)',
        "scheduler.yaml:4: percentageOfNodesToScore: 101 is not between 0 and 100",
        (
            'scheduler.yaml:10: profiles[0].plugins.multiPoint.enabled[1]: there is no plugin "Cosheduling"'
            " (did you mean Coscheduling?)"
        ),
        (
            "scheduler.yaml:17: profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].weight:"
            " 200 is not between 1 and 100"
        ),
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("parallelism: abc", 'parallelism: "abc" is not a whole number'),
        ("parallelism: true", "parallelism: true is not a whole number"),
        ("parallelism: 4.5", "parallelism: 4.5 is not a whole number"),
        ("profiles: [null]", "profiles[0]: null is not an object with fields"),
        ("parallelism: 3000000000", "is not a whole number between -2147483648 and 2147483647"),
        ("enableProfiling: 'yes'", 'enableProfiling: "yes" is not true or false'),
        ("clientConnection: {qps: '5'}", 'clientConnection.qps: "5" is not a number'),
        ("clientConnection: []", "clientConnection: [] is not an object with fields"),
        ("profiles: {}", "profiles: {} is not a list"),
        ("leaderElection: {renewDeadline: 5}", 'renewDeadline: 5 is not a duration such as "15s" or "1m30s"'),
        ("Parallelism: 3", 'Parallelism: unknown field (did you mean "parallelism"?)'),
        ("healthzBindAddress: ''", "healthzBindAddress: unknown field"),
        ("extenders: [{tlsConfig: {certData: '%'}}]", "extenders[0].tlsConfig.certData: "),
        (
            "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResource: [a]}}]}]",
            'args.ignoredResource: unknown field (did you mean "ignoredResources"?)',
        ),
        (
            "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {typ: x}}}]}]",
            'args.scoringStrategy.typ: unknown field (did you mean "type"?)',
        ),
        (
            "profiles: [{pluginConfig: [{name: DynamicResources, args: {filterTimeout: 5}}]}]",
            "args.filterTimeout: 5 is not a duration",
        ),
    ],
)
def test_strict_reading(body: str, expected: str) -> None:
    assert any(expected in line for line in problems(body)), problems(body)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the file is empty; it must start with apiVersion: kubescheduler.config.k8s.io/v1"),
        ("- 1", "the file is not an object with fields"),
        ("apiVersion: kubescheduler.config.k8s.io/v1", "kind: is missing"),
        ("kind: KubeSchedulerConfiguration", "apiVersion: is missing"),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: Pod",
            'scheduler.yaml:2: kind: "Pod" must be Kube',
        ),
        ("apiVersion: v1\nkind: Policy", "a policy must be rewritten as profiles"),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1alpha2\nkind: KubeSchedulerConfiguration",
            '/v1alpha2" is not known; write kubescheduler.config.k8s.io/v1 (or one of the older v1beta3,',
        ),
    ],
)
def test_a_file_that_is_something_else_is_refused(text: str, expected: str) -> None:
    assert any(expected in line for line in problems("", text)), problems("", text)


@pytest.mark.parametrize("text", ["4", "4.0", "4e0", "0.4e+1"])
def test_a_whole_number_may_be_written_in_any_way(text: str) -> None:
    assert load(f"parallelism: {text}").configuration.parallelism == 4


def test_null_is_as_good_as_absent() -> None:
    body = "parallelism: null\nprofiles:\nleaderElection: {leaseDuration: ~}\nextenders: null"
    assert load(body).configuration == default_configuration()


def test_json_is_read_too() -> None:
    text = json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "parallelism": 3,
        }
    )
    assert load("", text).configuration.parallelism == 3


def test_warnings_name_their_place() -> None:
    warnings = load("""\
profiles:
- plugins:
    multiPoint:
      enabled:
      - {name: SameRack, weight: -3}
  pluginConfig:
  - name: NodeName
    args: {a: 1}
  - name: Coscheduling
extenders:
- filterVerb: filter
""").warnings
    assert warnings == (
        (
            "scheduler.yaml:7: profiles[0].plugins.multiPoint.enabled[0].weight:"
            " -3 turns the scores of SameRack around"
        ),
        "scheduler.yaml:10: profiles[0].pluginConfig[0].args: NodeName takes no args; they have no effect",
        (
            "scheduler.yaml:11: profiles[0].pluginConfig[1]: Coscheduling is not enabled in this profile;"
            " its args have no effect"
        ),
        "scheduler.yaml:13: extenders[0]: is not called: decisions are made without extenders",
        "scheduler.yaml:13: extenders[0].urlPrefix: is empty: no call to this extender can succeed",
    )


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "weight", "enabled", "score", "plugins", "args", "kind", "resources", "a.b[0]"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
_FIELDS = [
    "leaderElection",
    "parallelism",
    "profiles",
    "extenders",
    "clientConnection",
    "plugins",
    "pluginConfig",
    "presentLabels",
]


@given(
    st.dictionaries(st.sampled_from(_FIELDS), _VALUES, max_size=4),
    st.lists(
        st.dictionaries(st.sampled_from(["plugins", "pluginConfig", "schedulerName"]), _VALUES), max_size=2
    ),
    st.sampled_from(
        ["NodeLabel", "NodeAffinity", "PodTopologySpread", "RequestedToCapacityRatio", "NodeResourcesFit"]
    ),
    _VALUES,
    st.sampled_from(["v1", "v1beta3", "v1beta2", "v1beta1"]),
)
def test_any_data_is_loaded_or_refused_never_a_crash(
    data: dict[str, Any], profiles: list[Any], plugin: str, args: Any, version: str
) -> None:
    enabled = {"enabled": [{"name": plugin}]}
    profiles = [
        *profiles,
        {"plugins": {"filter": enabled}, "pluginConfig": [{"name": plugin, "args": {"addedAffinity": args}}]},
    ]
    profiles.append({"plugins": {"score": enabled}, "pluginConfig": [{"name": plugin, "args": args}]})
    header = {"apiVersion": f"kubescheduler.config.k8s.io/{version}", "kind": "KubeSchedulerConfiguration"}
    text = json.dumps(header | data | {"profiles": profiles}).encode()
    for read in (lambda: load_configuration(text, "f", REGISTRY), lambda: convert_configuration(text, "f")):
        with suppress(ConfigError):
            read()


def test_an_empty_configuration_is_the_default_one() -> None:
    loaded = load_configuration(HEADER.encode(), "f", REGISTRY)
    assert loaded.configuration == default_configuration()
    assert loaded.warnings == ()
