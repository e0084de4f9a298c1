"""Which plugins a profile runs at which point, in which order, with which weights and args."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stowplan.config.defaults import completed, default_configuration
from stowplan.config.problems import ConfigError
from stowplan.config.profiles import PluginInfo, known_plugins, resolve_profiles
from stowplan.config.types import (
    SET_ATTRIBUTES,
    KubeSchedulerConfiguration,
    Plugin,
    Plugins,
    PluginSet,
    Profile,
)
from stowplan.framework.args import PluginArgs
from stowplan.framework.contract import FilterPlugin, ScorePlugin
from tests.unit.config.intree import (
    IN_TREE,
    REGISTRY,
    DynamicResourcesArgs,
    FitArgs,
    ResourceSpec,
    load,
    plan,
    problems,
)

ONLY_BASICS = "multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}"


def names(text: str) -> str:
    """A flow list of plugins from their names."""
    return "[" + ", ".join(f"{{name: {name!r}}}" for name in text.split()) + "]"


def test_the_default_profile_at_every_point() -> None:
    (default,) = resolve_profiles(default_configuration(), IN_TREE)
    assert {point: " ".join(plugins) for point, plugins in default.points.items() if plugins} == {
        "preEnqueue": "SchedulingGates DynamicResources DefaultPreemption",
        "queueSort": "PrioritySort",
        "preFilter": (
            "NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding"
            " VolumeZone PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures"
        ),
        "filter": (
            "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit"
            " VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity"
            " DynamicResources NodeDeclaredFeatures"
        ),
        "postFilter": "DynamicResources DefaultPreemption",
        "preScore": (
            "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity"
            " NodeResourcesBalancedAllocation"
        ),
        "score": (
            "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity"
            " DynamicResources NodeResourcesBalancedAllocation ImageLocality"
        ),
        "reserve": "VolumeBinding DynamicResources",
        "preBind": "VolumeBinding DynamicResources",
        "bind": "DefaultBinder",
    }
    assert default.weights == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }


@pytest.mark.parametrize(
    ("plugins", "point", "expected"),
    [
        pytest.param(f"{{{ONLY_BASICS}}}", "filter", "", id="multiPoint * takes every default away"),
        pytest.param(
            f"{{{ONLY_BASICS}, score: {{enabled: {names('SameRack ImageLocality')}}}}}",
            "score",
            "SameRack ImageLocality",
            id="a point's own list alone",
        ),
        pytest.param(
            f"{{score: {{disabled: {names('*')}, enabled: {names('ImageLocality SameRack')}}}}}",
            "score",
            "ImageLocality SameRack",
            id="* at a point leaves its own list",
        ),
        pytest.param(
            f"{{postFilter: {{enabled: {names('Coscheduling DefaultPreemption')}}}}}",
            "postFilter",
            "DefaultPreemption DynamicResources Coscheduling",
            id="repeated ones first, then multiPoint, then the rest",
        ),
        pytest.param(
            f"{{reserve: {{enabled: {names('DynamicResources Coscheduling VolumeBinding')}}}}}",
            "reserve",
            "DynamicResources VolumeBinding Coscheduling",
            id="repeated ones in the order of the point's list",
        ),
        pytest.param(
            f"{{reserve: {{disabled: {names('VolumeBinding')}}}}}",
            "reserve",
            "DynamicResources",
            id="disabled at one point",
        ),
        pytest.param(
            f"{{reserve: {{disabled: {names('VolumeBinding')}}}}}",
            "preBind",
            "VolumeBinding DynamicResources",
            id="disabled at one point is enabled at others",
        ),
        pytest.param(
            f"{{reserve: {{disabled: {names('VolumeBinding')}, enabled: {names('VolumeBinding')}}}}}",
            "reserve",
            "DynamicResources VolumeBinding",
            id="disabled and enabled at a point moves it to the end",
        ),
        pytest.param(
            f"{{multiPoint: {{enabled: {names('Coscheduling')}}}}}",
            "reserve",
            "VolumeBinding DynamicResources Coscheduling",
            id="a multiPoint plugin comes after the defaults",
        ),
        pytest.param(
            f"{{multiPoint: {{enabled: {names('Coscheduling')}}}}}",
            "permit",
            "Coscheduling",
            id="a multiPoint plugin serves all its points",
        ),
        pytest.param(
            f"{{multiPoint: {{enabled: {names('VolumeBinding')}, disabled: {names('VolumeBinding')}}}}}",
            "reserve",
            "DynamicResources VolumeBinding",
            id="disabled and enabled at multiPoint moves it to the end",
        ),
        pytest.param(
            f"{{queueSort: {{enabled: {names('QOSSort')}, disabled: {names('*')}}}}}",
            "queueSort",
            "QOSSort",
            id="another queue sort",
        ),
        pytest.param(
            "{queueSort: {enabled: [{name: QOSSort}]}, multiPoint: {disabled: [{name: PrioritySort}]}}",
            "queueSort",
            "QOSSort",
            id="another queue sort, disabled at multiPoint",
        ),
        pytest.param(
            f"{{bind: {{enabled: {names('OtherBinder')}}}}}",
            "bind",
            "DefaultBinder OtherBinder",
            id="two binders",
        ),
        pytest.param(
            f"{{placementScore: {{enabled: {names('PlacementA')}}}}}",
            "placementScore",
            "PlacementA",
            id="placement points",
        ),
    ],
)
def test_expansion(plugins: str, point: str, expected: str) -> None:
    assert " ".join(plan(plugins).points[point]) == expected


@pytest.mark.parametrize(
    ("plugins", "weights"),
    [
        ("{multiPoint: {enabled: [{name: NodeAffinity, weight: 7}]}}", {"NodeAffinity": 7}),
        ("{multiPoint: {enabled: [{name: NodeAffinity}]}}", {"NodeAffinity": 1}),
        ("{score: {enabled: [{name: NodeAffinity, weight: 7}]}}", {"NodeAffinity": 7}),
        ("{score: {enabled: [{name: NodeAffinity}]}}", {"NodeAffinity": 1}),
        ("{score: {enabled: [{name: NodeAffinity, weight: 0}]}}", {"NodeAffinity": 1}),
        (
            "{score: {enabled: [{name: SameRack, weight: 7}]}, multiPoint: {enabled: [{name: SameRack}]}}",
            {"SameRack": 7},
        ),
        ("{score: {disabled: [{name: NodeAffinity}]}}", {"NodeAffinity": None}),
        (
            "{multiPoint: {enabled: [{name: SameRack, weight: -2}]}}",
            {"SameRack": -2, "TaintToleration": 3},
        ),
    ],
)
def test_weights(plugins: str, weights: dict[str, int | None]) -> None:
    found = plan(plugins).weights
    assert {name: found.get(name) for name in weights} == weights


@pytest.mark.parametrize(
    ("plugins", "path", "message"),
    [
        ("{filter: {enabled: [{name: Nope}]}}", "filter.enabled[0]", 'there is no plugin "Nope"'),
        ("{multiPoint: {enabled: [{name: Nope}]}}", "multiPoint.enabled[0]", 'there is no plugin "Nope"'),
        (
            "{bind: {enabled: [{name: NodeName}]}}",
            "bind.enabled[0]",
            "NodeName has no bind; it serves filter",
        ),
        (
            "{filter: {enabled: [{name: SameRack}, {name: SameRack}]}}",
            "filter.enabled[1]",
            "SameRack is enabled twice",
        ),
        (
            "{multiPoint: {enabled: [{name: SameRack}, {name: SameRack}]}}",
            "multiPoint.enabled[1]",
            "SameRack is enabled twice",
        ),
        ("{queueSort: {disabled: [{name: '*'}]}}", "", "no plugin sorts the queue"),
        ("{multiPoint: {disabled: [{name: DefaultBinder}]}}", "", "no plugin binds pods"),
        ("{multiPoint: {enabled: [{name: QOSSort}]}}", "", "PrioritySort and QOSSort both sort the queue"),
        ("{queueSort: {enabled: [{name: QOSSort}]}}", "", "PrioritySort and QOSSort both sort the queue"),
        (
            "{placementGenerate: {enabled: [{name: PlacementA}, {name: PlacementB}]}}",
            "",
            "at most one plugin can generate placements",
        ),
    ],
)
def test_refused(plugins: str, path: str, message: str) -> None:
    lines = problems(f"profiles: [{{plugins: {plugins}}}]")
    assert any(f"profiles[0].plugins{'.' if path else ''}{path}: {message}" in line for line in lines), lines


@pytest.mark.parametrize(
    ("point", "plugin"),
    [
        ("preScore", "TaintToleration"),
        ("preEnqueue", "DefaultPreemption"),
        ("placementScore", "NodeResourcesFit"),
    ],
)
def test_points_that_a_plugin_serves_upstream_alone_may_be_named(point: str, plugin: str) -> None:
    here = REGISTRY | {plugin: PluginInfo(plugin, REGISTRY[plugin].points - {point})}
    enabled = Plugins(**{SET_ATTRIBUTES[point]: PluginSet(enabled=(Plugin(name=plugin),))})
    configuration = completed(KubeSchedulerConfiguration(profiles=(Profile(plugins=enabled),)))
    (found,) = resolve_profiles(configuration, here)
    assert plugin not in found.points[point]
    assert plugin in found.args


def test_twice_at_multi_point_is_fine_where_points_say_otherwise() -> None:
    found = plan(
        "{multiPoint: {enabled: [{name: SameRack}, {name: SameRack}]}, filter: {enabled: [{name: SameRack}]},"
        " score: {disabled: [{name: SameRack}]}}"
    )
    assert found.points["filter"][0] == "SameRack"
    assert "SameRack" not in found.points["score"]


def test_scores_that_could_overflow_are_refused() -> None:
    heavy = Plugin(name="SameRack", weight=2**63 // 100)  # no file can hold it; a program can
    configuration = KubeSchedulerConfiguration(
        profiles=(Profile(plugins=Plugins(score=PluginSet(enabled=(heavy,)))),)
    )
    with pytest.raises(ConfigError, match="could overflow"):
        resolve_profiles(completed(configuration), REGISTRY)


def test_weights_may_not_add_up_to_less_than_nothing_on_the_way() -> None:
    (line,) = problems("profiles: [{plugins: {score: {enabled: [{name: SameRack, weight: -2}]}}}]")
    assert "the weights before TaintToleration add up to less than 0" in line


QUEUE_SORT = "profiles: [{schedulerName: a%s}, {schedulerName: b%s}]"


def test_profiles_must_sort_the_queue_by_the_same_plugin() -> None:
    other = ", plugins: {multiPoint: {enabled: [{name: QOSSort}], disabled: [{name: PrioritySort}]}}"
    assert problems(QUEUE_SORT % ("", other)) == (
        (
            "scheduler.yaml:3: profiles[1].plugins: sorts the queue by QOSSort, but profiles[0] by"
            " PrioritySort: they share a queue"
        ),
    )


def test_profiles_must_sort_the_queue_with_the_same_args() -> None:
    args = ", pluginConfig: [{name: PrioritySort, args: {oldestFirst: %s}}]"
    load(QUEUE_SORT % (args % "false", args % "false"))
    load(QUEUE_SORT % (args % "true", ""))
    assert "the args of PrioritySort must be the same" in problems(QUEUE_SORT % (args % "false", ""))[0]


def fit(args: str) -> FitArgs:
    found = load(f"profiles: [{{pluginConfig: [{{name: NodeResourcesFit, args: {args}}}]}}]").profiles[0]
    args_of_fit = found.args["NodeResourcesFit"]
    assert isinstance(args_of_fit, FitArgs)
    return args_of_fit


def test_args_are_read_completed_and_checked_by_the_plugins_record() -> None:
    assert fit("{}").scoring_strategy.resources == (
        ResourceSpec(name="cpu", weight=1),
        ResourceSpec(name="memory", weight=1),
    )
    assert fit("{scoringStrategy: {resources: [{name: a/b}]}}").scoring_strategy.resources == (
        ResourceSpec(name="a/b", weight=1),
    )
    (problem,) = problems(
        "profiles: [{pluginConfig: [{name: NodeResourcesFit,"
        " args: {scoringStrategy: {resources: [{name: a, weight: -1}]}}}]}]"
    )
    path = "profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].weight"
    assert problem == f"scheduler.yaml:3: {path}: -1 is not between 1 and 100"


def test_every_plugin_has_args_and_durations_are_durations() -> None:
    found = load(
        "profiles: [{pluginConfig: [{name: DynamicResources, args: {filterTimeout: 1m30s}}]}]"
    ).profiles[0]
    assert found.args.keys() == IN_TREE.keys()
    args = found.args["DynamicResources"]
    assert isinstance(args, DynamicResourcesArgs)
    assert (str(args.filter_timeout), str(args.binding_timeout)) == ("1m30s", "10m0s")
    assert found.args["NodeName"] == PluginArgs()


def test_args_of_a_plugin_that_is_not_enabled_are_checked_all_the_same() -> None:
    args = "[{name: NodeResourcesFit, args: {a: 1}}]"
    body = f"profiles: [{{plugins: {{{ONLY_BASICS}}}, pluginConfig: {args}}}]"
    assert "pluginConfig[0].args.a: unknown field" in problems(body)[0]
    assert "NodeResourcesFit" not in load(body.replace("a: 1", "")).profiles[0].args


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("kind: NodeResourcesFitArgs", None),
        ("apiVersion: kubescheduler.config.k8s.io/v1, kind: NodeResourcesFitArgs", None),
        (
            "apiVersion: example.com/v1, kind: NodeResourcesFitArgs",
            'must be "kubescheduler.config.k8s.io/v1"',
        ),
        ("kind: FitArgs", 'args.kind: "FitArgs" must be "NodeResourcesFitArgs", or be left out'),
        ("apiVersion: kubescheduler.config.k8s.io/v1beta3", 'must be "kubescheduler.config.k8s.io/v1"'),
    ],
)
def test_the_type_of_args(header: str, message: str | None) -> None:
    body = f"profiles: [{{pluginConfig: [{{name: NodeResourcesFit, args: {{{header}}}}}]}}]"
    if message is None:
        load(body)
    else:
        assert message in problems(body)[0]


def test_plugins_of_other_packages_have_versions_of_their_own() -> None:
    args = "[{name: SameRack, args: {apiVersion: example.com/v1, kind: SameRackArgs}}]"
    load(f"profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: SameRack}}]}}}}, pluginConfig: {args}}}]")


def test_resources_that_extenders_take_over_replace_those_the_args_ignore() -> None:
    resources = "[{name: a.b/c, ignoredByScheduler: true}, {name: a.b/d}]"
    extenders = f"extenders: [{{urlPrefix: u, managedResources: {resources}}}]\n"
    profiles = "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [x.y/z]}}]}]"
    args = load(extenders + profiles).profiles[0].args["NodeResourcesFit"]
    assert isinstance(args, FitArgs)
    assert args.ignored_resources == ("a.b/c",)
    args = load(profiles).profiles[0].args["NodeResourcesFit"]
    assert isinstance(args, FitArgs)
    assert args.ignored_resources == ("x.y/z",)


def test_resources_that_extenders_take_over_need_no_profile_that_checks_them() -> None:
    resources = "[{name: a.b/c, ignoredByScheduler: true}]"
    extenders = f"extenders: [{{urlPrefix: u, managedResources: {resources}}}]\n"
    found = load(f"{extenders}profiles: [{{plugins: {{{ONLY_BASICS}}}}}]")
    assert "NodeResourcesFit" not in found.profiles[0].args
    (about_extenders,) = found.warnings
    assert about_extenders.endswith("decisions are made without extenders")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("plugins: {filter: {enabled: [{weight: 1}]}}", "plugins.filter.enabled[0].name: is missing"),
        ("plugins: {filter: {enabled: [{name: ''}]}}", 'there is no plugin ""'),
        ("pluginConfig: [{args: {}}]", "pluginConfig[0].name: is missing"),
    ],
)
def test_a_plugin_without_a_name_is_refused(body: str, message: str) -> None:
    (problem,) = problems(f"profiles: [{{{body}}}]")
    assert message in problem


@pytest.mark.parametrize("name", ["GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"])
def test_plugins_of_features_that_are_off_do_not_exist(name: str) -> None:
    (problem,) = problems(f"profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: {name}}}]}}}}}}]")
    assert f'there is no plugin "{name}"' in problem


def test_a_profile_may_have_its_own_percentage() -> None:
    body = (
        "percentageOfNodesToScore: 30\n"
        "profiles: [{schedulerName: a}, {schedulerName: b, percentageOfNodesToScore: 0}, {schedulerName: c,"
        " percentageOfNodesToScore: 70}]"
    )
    found = [(one.scheduler_name, one.percentage_of_nodes_to_score) for one in load(body).profiles]
    assert found == [("a", 30), ("b", 0), ("c", 70)]


def test_plugin_classes_are_known_by_their_points_and_args() -> None:
    class RackArgs(PluginArgs, frozen=True):
        label: str = "rack"

    class Rack(FilterPlugin, ScorePlugin):
        Args = RackArgs

    assert known_plugins({"Rack": Rack}) == {
        "Rack": PluginInfo("Rack", frozenset({"filter", "score"}), RackArgs)
    }


def test_the_configurations_of_the_conformance_cases_score_with_the_plugins_they_should() -> None:
    cases = msgspec.json.decode((Path(__file__).parent / "profiles.json").read_bytes())
    for case in cases:
        (found,) = load("", msgspec.json.encode(case["config"]).decode()).profiles
        assert set(case["scores"]) <= set(found.points["score"]), case["config"]
        assert all(score % found.weights[name] == 0 for name, score in case["scores"].items()), case["config"]
        assert ("ImageLocality" in case["scores"]) == ("ImageLocality" in found.points["score"]), case[
            "config"
        ]
