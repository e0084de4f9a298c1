"""The way out: a configuration as YAML, in camelCase and always in the same order."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import msgspec
import yaml

from stowplan.config.source import plain_text_is_number
from stowplan.config.types import API_VERSION, KubeSchedulerConfiguration, PluginConfig
from stowplan.framework.args import PluginArgs
from stowplan.framework.profile import ProfilePlan
from stowplan.objects.base import Record
from stowplan.objects.duration import Duration

_HEADER = ("apiVersion", "kind")


class _Dumper(yaml.SafeDumper):
    """Quotes what another reader of YAML would take for a number or a line break. Never writes aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "'" if plain_text_is_number(text) else None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(configuration: KubeSchedulerConfiguration, *, with_defaults: bool = True) -> str:
    """The configuration as a file. Without defaults, only what differs from them is written."""
    return yaml_text(to_data(configuration, with_defaults=with_defaults))


def yaml_text(data: Mapping[str, Any]) -> str:
    """Plain data as YAML, in its own order."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def to_data(configuration: KubeSchedulerConfiguration, *, with_defaults: bool = True) -> dict[str, Any]:
    """The configuration as plain data, ready for YAML or JSON."""
    data = {"apiVersion": configuration.api_version, "kind": configuration.kind}
    return data | _record(configuration, with_defaults)


def with_expanded_args(
    configuration: KubeSchedulerConfiguration, profiles: Sequence[ProfilePlan]
) -> KubeSchedulerConfiguration:
    """The configuration with the complete args of every plugin, as upstream writes it out."""
    return msgspec.structs.replace(
        configuration,
        profiles=tuple(
            msgspec.structs.replace(profile, plugin_config=_plugin_configs(profile.plugin_config, plan))
            for profile, plan in zip(configuration.profiles, profiles, strict=True)
        ),
    )


def _plugin_configs(written: tuple[PluginConfig, ...], plan: ProfilePlan) -> tuple[PluginConfig, ...]:
    """Those that stand in the file first, in its order, then the others by name."""
    configs = []
    for config in written:
        args = plan.args.get(config.name)
        configs.append(_complete_config(config.name, args) if _says_something(args) else config)
    given = {config.name for config in written}
    for name, own in sorted(plan.args.items()):
        if name not in given and _says_something(own):
            configs.append(_complete_config(name, own))
    return tuple(configs)


def _says_something(args: PluginArgs | None) -> TypeGuard[PluginArgs]:
    return args is not None and type(args) is not PluginArgs


def _complete_config(name: str, args: PluginArgs) -> PluginConfig:
    header = {"apiVersion": API_VERSION, "kind": f"{name}Args"}
    return PluginConfig(name=name, args=header | _record(args, with_defaults=True))


def _record(record: msgspec.Struct, with_defaults: bool) -> dict[str, Any]:
    """The fields that have a value. Where the default is to say nothing, nothing is written either way."""
    data = {}
    for field in msgspec.structs.fields(record):
        value = getattr(record, field.name)
        plain = _plain(value, with_defaults)
        says_nothing = not with_defaults or plain in (None, {}, [], "")
        if field.encode_name in _HEADER or (says_nothing and _is_default(field, value)):
            continue
        data[field.encode_name] = plain
    return data


def _is_default(field: msgspec.structs.FieldInfo, value: Any) -> bool:
    if field.default_factory is not msgspec.NODEFAULT:
        return bool(value == field.default_factory())
    return bool(value == field.default)


def _plain(value: Any, with_defaults: bool) -> Any:
    if isinstance(value, Duration):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, msgspec.Struct):
        # the default of a part of an API object is for the API to know; a configuration spells out its own
        return _record(value, with_defaults and not _is_api_part(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(one, with_defaults) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one, with_defaults) for one in value]
    return value


def _is_api_part(value: msgspec.Struct) -> bool:
    return type(value).__module__.startswith(Record.__module__.rpartition(".")[0])
