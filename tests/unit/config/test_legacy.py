"""Older versions are read as v1 that decides as they did, with a word about each change."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from stowplan.config.load import convert_configuration, load_configuration
from stowplan.config.problems import ConfigError
from stowplan.config.writing import to_data
from tests.unit.config.intree import REGISTRY, load

DEFAULT_WEIGHTS = dict(load().profiles[0].weights)
NOT_LEAST = "disabled: [{name: NodeResourcesLeastAllocated}]"


def text(version: str, body: str) -> bytes:
    header = f"apiVersion: kubescheduler.config.k8s.io/{version}\nkind: KubeSchedulerConfiguration"
    return f"{header}\n{body}".encode()


def convert(version: str, body: str) -> tuple[dict[str, Any], list[str]]:
    """The converted file as data, and its warnings without the one that the version is old."""
    configuration, warnings = convert_configuration(text(version, body), "old.yaml")
    assert "is an old version" in warnings[0]
    return to_data(configuration, with_defaults=False), list(warnings[1:])


def profile(version: str, body: str) -> dict[str, Any]:
    data, _ = convert(version, body)
    (found,) = data["profiles"]
    assert isinstance(found, dict)
    return found


def problems(version: str, body: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load_configuration(text(version, body), "old.yaml", REGISTRY)
    return caught.value.lines


def test_v1beta3_says_the_same_in_v1() -> None:
    body = """
parallelism: 3
profiles:
- schedulerName: a
  plugins:
    multiPoint: {enabled: [{name: SameRack, weight: 4}], disabled: [{name: NodeName}]}
  pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1beta3
      kind: NodeResourcesFitArgs
      ignoredResources: [a/b]
"""
    data, warnings = convert("v1beta3", body)
    expected = yaml.safe_load(text("v1", body.replace("v1beta3", "v1")))
    assert data == expected
    assert warnings == []


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1beta3"])
def test_what_is_converted_loads(version: str) -> None:
    loaded = load_configuration(text(version, ""), "old.yaml", REGISTRY)
    old = {"TaintToleration": 1, "NodeAffinity": 1, "InterPodAffinity": 1}
    assert loaded.profiles[0].weights == DEFAULT_WEIGHTS | ({} if version == "v1beta3" else old)
    assert loaded.profiles[0].points == load().profiles[0].points


@pytest.mark.parametrize(
    ("version", "body", "field"),
    [
        ("v1beta3", "delayCacheUntilActive: true", "delayCacheUntilActive"),
        ("v1beta3", "healthzBindAddress: ''", "healthzBindAddress"),
        ("v1beta3", "profiles: [{percentageOfNodesToScore: 3}]", "profiles[0].percentageOfNodesToScore"),
        ("v1beta3", "profiles: [{plugins: {placementScore: {}}}]", "profiles[0].plugins.placementScore"),
        ("v1beta2", "delayCacheUntilActive: true", "delayCacheUntilActive"),
        ("v1beta1", "profiles: [{plugins: {multiPoint: {}}}]", "profiles[0].plugins.multiPoint"),
        ("v1beta1", "profiles: [{plugins: {preEnqueue: {}}}]", "profiles[0].plugins.preEnqueue"),
    ],
)
def test_fields_of_later_versions_are_unknown(version: str, body: str, field: str) -> None:
    assert problems(version, body) == (f"old.yaml:3: {field}: unknown field in this apiVersion",)


def test_insecure_addresses_are_dropped() -> None:
    data, warnings = convert("v1beta2", "healthzBindAddress: 0.0.0.0:10251\nmetricsBindAddress: ''")
    assert "healthzBindAddress" not in data
    assert [line.partition(" has no effect")[0] for line in warnings if "Address" in line] == [
        "old.yaml:3: healthzBindAddress:",
        "old.yaml:4: metricsBindAddress:",
    ]


def test_other_locks_become_leases_with_a_warning() -> None:
    data, warnings = convert("v1beta3", "leaderElection: {resourceLock: endpointsleases}")
    assert "leaderElection" not in data  # leases are the default
    assert '"endpointsleases" is gone and leases take its place' in warnings[0]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1beta3"])
def test_plugins_that_are_gone_are_left_out(version: str) -> None:
    data, warnings = convert(
        version,
        """
profiles:
- plugins:
    filter: {enabled: [{name: EBSLimits}, {name: SameRack}], disabled: [{name: CinderLimits}]}
    score: {enabled: [{name: SelectorSpread}]}
  pluginConfig: [{name: NodePreferAvoidPods}]
""",
    )
    assert data["profiles"][0]["plugins"]["filter"] == {"enabled": [{"name": "SameRack"}]}
    assert "pluginConfig" not in data["profiles"][0]
    told = [line for line in warnings if "is gone and was left out" in line]
    assert [line.split()[4] for line in told] == ["EBSLimits", "NodePreferAvoidPods", "SelectorSpread"]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize(
    ("score", "kept"),
    [
        ("{}", {"TaintToleration": 1, "NodeAffinity": 1, "InterPodAffinity": 1}),
        ("{disabled: [{name: NodeAffinity}]}", {"TaintToleration": 1, "InterPodAffinity": 1}),
        ("{enabled: [{name: NodeAffinity, weight: 5}]}", {"TaintToleration": 1, "InterPodAffinity": 1}),
        ("{disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}]}", {}),
    ],
)
def test_old_default_weights_are_written_out(version: str, score: str, kept: dict[str, int]) -> None:
    if version == "v1beta1" and "NodeAffinity" not in score:
        score = score.replace("NodeResourcesFit", "NodeResourcesLeastAllocated")
    found = profile(version, f"profiles: [{{plugins: {{score: {score}}}}}]")
    enabled = found.get("plugins", {}).get("multiPoint", {}).get("enabled", [])
    assert {plugin["name"]: plugin["weight"] for plugin in enabled} == kept


def test_multi_point_could_not_disable_defaults_in_v1beta2() -> None:
    data, warnings = convert("v1beta2", "profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}]}}}]")
    assert "disabled" not in data["profiles"][0]["plugins"]["multiPoint"]
    assert "plugins.multiPoint.disabled: disabled nothing in v1beta2 and was left out (*)" in warnings[0]


def test_a_weight_at_multi_point_that_had_no_effect_is_told() -> None:
    data, warnings = convert(
        "v1beta2", "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeAffinity, weight: 9}]}}}]"
    )
    assert {"name": "NodeAffinity", "weight": 9} in data["profiles"][0]["plugins"]["multiPoint"]["enabled"]
    assert any(
        "the weight of NodeAffinity had no effect at multiPoint in v1beta2; now it has" in w for w in warnings
    )


def score_profile(score: str, configs: str = "[]") -> dict[str, Any]:
    return profile("v1beta1", f"profiles: [{{plugins: {{score: {score}}}, pluginConfig: {configs}}}]")


def fit_strategy(found: dict[str, Any]) -> Any:
    configs = {config["name"]: config["args"] for config in found.get("pluginConfig", [])}
    return configs.get("NodeResourcesFit", {}).get("scoringStrategy")


def test_most_allocated_becomes_a_strategy_at_its_weight() -> None:
    found = score_profile(
        f"{{{NOT_LEAST}, enabled: [{{name: NodeResourcesMostAllocated, weight: 5}}]}}",
        "[{name: NodeResourcesMostAllocated, args: {resources: [{name: cpu, weight: 3}]}},"
        " {name: NodeResourcesFit, args: {ignoredResources: [a/b]}}]",
    )
    assert found["plugins"]["score"] == {"enabled": [{"name": "NodeResourcesFit", "weight": 5}]}
    assert found["pluginConfig"] == [
        {
            "name": "NodeResourcesFit",
            "args": {
                "ignoredResources": ["a/b"],
                "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 3}]},
            },
        }
    ]


def test_requested_to_capacity_ratio_takes_its_shape_along() -> None:
    found = score_profile(
        "{disabled: [{name: '*'}], enabled: [{name: RequestedToCapacityRatio}]}",
        "[{name: RequestedToCapacityRatio, args: {shape: [{utilization: 0, score: 0}]}}]",
    )
    assert found["plugins"]["score"]["enabled"] == [{"name": "NodeResourcesFit"}]
    assert fit_strategy(found) == {
        "type": "RequestedToCapacityRatio",
        "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}]},
    }


def test_least_allocated_is_the_default_and_its_resources_go_along() -> None:
    assert fit_strategy(score_profile("{}")) is None
    found = score_profile(
        "{}", "[{name: NodeResourcesLeastAllocated, args: {resources: [{name: cpu, weight: 2}]}}]"
    )
    assert fit_strategy(found) == {"type": "LeastAllocated", "resources": [{"name": "cpu", "weight": 2}]}


def test_without_least_allocated_fit_does_not_score() -> None:
    found = score_profile("{disabled: [{name: NodeResourcesLeastAllocated}]}")
    assert found["plugins"]["score"] == {"disabled": [{"name": "NodeResourcesFit"}]}


def test_fit_that_scored_itself_goes_on() -> None:
    found = score_profile(f"{{{NOT_LEAST}, enabled: [{{name: NodeResourcesFit, weight: 2}}]}}")
    assert found["plugins"]["score"] == {"enabled": [{"name": "NodeResourcesFit", "weight": 2}]}


@pytest.mark.parametrize("other", ["NodeResourcesMostAllocated", "NodeResourcesFit"])
def test_two_strategies_at_once_are_refused(other: str) -> None:
    (problem,) = problems("v1beta1", f"profiles: [{{plugins: {{score: {{enabled: [{{name: {other}}}]}}}}}}]")
    assert f"NodeResourcesLeastAllocated and {other} score together" in problem


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("affinity", "terms"),
    [
        ("", [[("a", "Exists"), ("b", "DoesNotExist")]]),
        (
            REQUIRED + ": {nodeSelectorTerms: [{matchExpressions: [{key: x, operator: Exists}]}, {}]}",
            [
                [("x", "Exists"), ("a", "Exists"), ("b", "DoesNotExist")],
                [("a", "Exists"), ("b", "DoesNotExist")],
            ],
        ),
    ],
)
def test_labels_required_by_node_label_become_added_affinity(affinity: str, terms: list[Any]) -> None:
    found = profile(
        "v1beta1",
        f"""
profiles:
- plugins: {{filter: {{enabled: [{{name: NodeLabel}}]}}}}
  pluginConfig:
  - {{name: NodeLabel, args: {{presentLabels: [a], absentLabels: [b]}}}}
  - {{name: NodeAffinity, args: {{addedAffinity: {{{affinity}}}}}}}
""",
    )
    (config,) = found["pluginConfig"]
    found_terms = config["args"]["addedAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert [[(e["key"], e["operator"]) for e in term["matchExpressions"]] for term in found_terms] == terms
    assert "filter" not in found["plugins"]


@pytest.mark.parametrize(
    ("point", "plugin", "args", "message"),
    [
        ("score", "NodeLabel", "{presentLabelsPreference: [a]}", "nothing scores as it did"),
        ("filter", "ServiceAffinity", "{}", "v1 has nothing like it"),
        ("filter", "NodeLabel", "{presentLabels: 5}", "5 is not a list"),
        ("filter", "NodeLabel", "{presentLabel: [a]}", "unknown field"),
    ],
)
def test_what_v1_cannot_say_is_refused(point: str, plugin: str, args: str, message: str) -> None:
    body = f"profiles: [{{plugins: {{{point}: {{enabled: [{{name: {plugin}}}]}}}},"
    lines = problems("v1beta1", f"{body} pluginConfig: [{{name: {plugin}, args: {args}}}]}}]")
    assert any(message in line for line in lines), lines


def test_a_list_of_spread_constraints_was_enough_in_v1beta1() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    args = f"{{defaultConstraints: [{constraint}]}}"
    body = f"profiles: [{{pluginConfig: [{{name: PodTopologySpread, args: {args}}}]}}]"
    (config,) = profile("v1beta1", body)["pluginConfig"]
    assert config["args"] == {"defaultConstraints": [constraint], "defaultingType": "List"}
    (config,) = profile("v1beta2", body)["pluginConfig"]
    assert config["args"] == {"defaultConstraints": [constraint]}


def test_problems_after_a_conversion_name_the_profile() -> None:
    body = "profiles:\n- schedulerName: a\n- schedulerName: b\n  plugins: {filter: {enabled: [{name: Nope}]}}"
    (problem,) = problems("v1beta2", body)
    assert problem == 'old.yaml:5: profiles[1].plugins.filter.enabled[0]: there is no plugin "Nope"'
