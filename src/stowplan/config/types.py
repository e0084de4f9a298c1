"""The records of KubeSchedulerConfiguration, version kubescheduler.config.k8s.io/v1.

Field for field what upstream knows, in the order in which it is written out. The defaults of the fields are
the defaults of the format; `defaults` adds those that depend on other fields or on a zero being written.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import field

from stowplan.objects.base import Int32, Int64, Record
from stowplan.objects.duration import Duration

API_GROUP: Final = "kubescheduler.config.k8s.io"
API_VERSION: Final = f"{API_GROUP}/v1"
KIND: Final = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"

LEASE_DURATION: Final = Duration.parse("15s")
RENEW_DEADLINE: Final = Duration.parse("10s")
RETRY_PERIOD: Final = Duration.parse("2s")
RETRY_JITTER: Final = 1.2
"""Candidates wait for up to this many retry periods more, so that they do not come all at once."""
DEFAULT_CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"
DEFAULT_QPS: Final = 50.0
DEFAULT_BURST: Final = 100
DEFAULT_HTTP_TIMEOUT: Final = Duration.parse("5s")


class ConfigRecord(Record, frozen=True, forbid_unknown_fields=True):
    """A part of a configuration."""


class LeaderElection(ConfigRecord, frozen=True):
    """How one of several schedulers becomes the one that schedules."""

    leader_elect: bool = True
    lease_duration: Duration = LEASE_DURATION
    renew_deadline: Duration = RENEW_DEADLINE
    retry_period: Duration = RETRY_PERIOD
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(ConfigRecord, frozen=True):
    """How the API server is reached."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = DEFAULT_CONTENT_TYPE
    qps: float = DEFAULT_QPS
    burst: Int32 = DEFAULT_BURST


class Plugin(ConfigRecord, frozen=True):
    """A plugin named in a set; the weight counts for scores only, and none or 0 is 1."""

    name: str
    weight: Int32 | None = None


class PluginSet(ConfigRecord, frozen=True):
    """The plugins that an extension point gets and loses."""

    enabled: tuple[Plugin, ...] = ()
    disabled: tuple[Plugin, ...] = ()

    @property
    def disabled_names(self) -> frozenset[str]:
        return frozenset(plugin.name for plugin in self.disabled)


NO_PLUGINS: Final = PluginSet()


class Plugins(ConfigRecord, frozen=True):
    """A set of plugins per extension point, and one for all points at once (`multiPoint`)."""

    pre_enqueue: PluginSet = NO_PLUGINS
    queue_sort: PluginSet = NO_PLUGINS
    pre_filter: PluginSet = NO_PLUGINS
    filter: PluginSet = NO_PLUGINS
    post_filter: PluginSet = NO_PLUGINS
    pre_score: PluginSet = NO_PLUGINS
    score: PluginSet = NO_PLUGINS
    reserve: PluginSet = NO_PLUGINS
    permit: PluginSet = NO_PLUGINS
    pre_bind: PluginSet = NO_PLUGINS
    bind: PluginSet = NO_PLUGINS
    post_bind: PluginSet = NO_PLUGINS
    multi_point: PluginSet = NO_PLUGINS
    placement_generate: PluginSet = NO_PLUGINS
    placement_score: PluginSet = NO_PLUGINS

    def sets(self) -> dict[str, PluginSet]:
        """All sets by their names in the file, `multiPoint` among them."""
        return {name: getattr(self, attribute) for name, attribute in SET_ATTRIBUTES.items()}

    def at(self, name: str) -> PluginSet:
        """The set with this name in the file."""
        found = getattr(self, SET_ATTRIBUTES[name])
        assert isinstance(found, PluginSet)
        return found


SET_ATTRIBUTES: Final[dict[str, str]] = {
    field.encode_name: field.name for field in msgspec.structs.fields(Plugins)
}
"""Name in the file of each set of plugins to the attribute that holds it."""

MULTI_POINT: Final = "multiPoint"

EXTENSION_POINTS: Final = tuple(name for name in SET_ATTRIBUTES if name != MULTI_POINT)
"""The extension points that a configuration knows, by their names in the file."""


class PluginConfig(ConfigRecord, frozen=True):
    """The args of one plugin, as they stand in the file: only the plugin's own record can say more."""

    name: str
    args: dict[str, Any] = field(default_factory=dict)


class Profile(ConfigRecord, frozen=True):
    """One way to schedule, for the pods that ask for it by its scheduler name."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class ExtenderManagedResource(ConfigRecord, frozen=True):
    """An extended resource that an extender looks after."""

    name: str
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(ConfigRecord, frozen=True):
    """How the connection to an extender is secured."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""

    def __repr__(self) -> str:
        """The key must not get into a log by way of somebody's debug line."""
        return f"ExtenderTLSConfig(server_name={self.server_name!r}, insecure={self.insecure}, …)"


class Extender(ConfigRecord, frozen=True):
    """A web service that has a say in filtering, scoring, preemption or binding."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = DEFAULT_HTTP_TIMEOUT
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


class KubeSchedulerConfiguration(ConfigRecord, frozen=True):
    """Everything that a configuration file can say."""

    api_version: str = API_VERSION
    kind: str = KIND
    parallelism: Int32 = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 = 0
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[Profile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False
