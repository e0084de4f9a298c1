"""The configuration room: a KubeSchedulerConfiguration file in, checked profiles out.

`load` is the way in. On the way a file is read with line numbers (`source`), made into records (`structure`,
`types`), brought to v1 if it is older (`legacy`), completed (`defaults`), checked (`validate`), and its
profiles are expanded into plugins per extension point with their args (`profiles`). `writing` is the way out
to YAML.

This room knows plugins by name, extension points and args record only. It must not know how they are built or
run, and it reads no file, flag or environment by itself.
"""

from stowplan.config.defaults import default_configuration
from stowplan.config.load import load_configuration
from stowplan.config.problems import ConfigError
from stowplan.config.profiles import known_plugins, resolve_profiles
from stowplan.config.types import KubeSchedulerConfiguration

__all__ = [
    "ConfigError",
    "KubeSchedulerConfiguration",
    "default_configuration",
    "known_plugins",
    "load_configuration",
    "resolve_profiles",
]
