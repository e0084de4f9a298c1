"""The flags of kube-scheduler 1.36 with its defaults, and those of earlier versions that unit files still
carry: `stowplan run` starts where kube-scheduler did."""

from __future__ import annotations

from typing import Any, Final

from stowplan.cli.flags import (
    COUNT,
    DURATION,
    EACH,
    LIST,
    NUMBER,
    PERIOD,
    PORT,
    REAL,
    SIZE,
    SWITCH,
    TEXT,
    VERSION,
    Flag,
    FlagSet,
    Kind,
)

_MISC: Final = (
    Flag("config", TEXT, "", "The configuration file (KubeSchedulerConfiguration)."),
    Flag("master", TEXT, "", "The URL of the API server, in place of the one in the kubeconfig."),
    Flag(
        "write-config-to",
        TEXT,
        "",
        "Write the configuration, with every default filled in, to this file and exit.",
    ),
    Flag(
        "shadow",
        SWITCH,
        False,
        "Write nothing at all: decide the pods that another scheduler places, from the same state, and "
        "report every difference. No leader election.",
    ),
)

_SERVING: Final = (
    Flag("bind-address", TEXT, "0.0.0.0", "The address to listen on; 0.0.0.0 or :: stands for all."),
    Flag("secure-port", PORT, 10259, "The port for HTTPS. 0: do not listen."),
    Flag(
        "cert-dir",
        TEXT,
        "",
        "The folder of kube-scheduler.crt and kube-scheduler.key, which are made if they are not there. "
        "Empty: self-signed, in memory. --tls-cert-file counts for more.",
    ),
    Flag(
        "tls-cert-file",
        TEXT,
        "",
        "The certificate for HTTPS (intermediate ones after it). Reloaded when it changes.",
    ),
    Flag("tls-private-key-file", TEXT, "", "The key of --tls-cert-file."),
    Flag(
        "tls-sni-cert-key",
        EACH,
        (),
        "A certificate, its key, and the names it is for: cert,key:name,name. May be repeated; without "
        "names, those of the certificate count.",
    ),
    Flag("tls-min-version", TEXT, "", "VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13."),
    Flag("tls-cipher-suites", LIST, (), "The cipher suites for TLS 1.2, by Go's names."),
    Flag("tls-curve-preferences", LIST, (), ignored="the choice is left to OpenSSL"),
    Flag("permit-address-sharing", SWITCH, False, "Listen with SO_REUSEADDR."),
    Flag("permit-port-sharing", SWITCH, False, "Listen with SO_REUSEPORT."),
    Flag("http2-max-streams-per-connection", NUMBER, 0, ignored="only HTTP/1.1 is served"),
    Flag("disable-http2-serving", SWITCH, False, ignored="only HTTP/1.1 is served"),
)

_AUTHENTICATION: Final = (
    Flag(
        "authentication-kubeconfig",
        TEXT,
        "",
        "The kubeconfig for token reviews. Empty: that of the pod it runs in; outside of a cluster, tokens "
        "are then ignored.",
    ),
    Flag(
        "authentication-skip-lookup",
        SWITCH,
        False,
        "Do not ask the API server whose client certificates to believe.",
    ),
    Flag(
        "authentication-tolerate-lookup-failure",
        SWITCH,
        True,
        "Start even if the API server does not say whose client certificates to believe.",
    ),
    Flag(
        "authentication-token-webhook-cache-ttl", DURATION, "10s", "How long the answer to a token is good."
    ),
    Flag("client-ca-file", TEXT, "", "The authorities of client certificates; the common name is the user."),
    Flag("requestheader-client-ca-file", TEXT, "", "The authorities of front proxies, which say who asks."),
    Flag("requestheader-allowed-names", LIST, (), "The common names of front proxies; empty: any."),
    Flag("requestheader-username-headers", LIST, ("x-remote-user",), "The headers that name the user."),
    Flag("requestheader-uid-headers", LIST, (), "The headers with the user's uid."),
    Flag("requestheader-group-headers", LIST, ("x-remote-group",), "The headers with the user's groups."),
    Flag(
        "requestheader-extra-headers-prefix",
        LIST,
        ("x-remote-extra-",),
        "How headers with more about the user begin.",
    ),
)

_AUTHORIZATION: Final = (
    Flag(
        "authorization-kubeconfig",
        TEXT,
        "",
        "The kubeconfig for access reviews. Empty: that of the pod it runs in; outside of a cluster, only "
        "the paths that are always allowed are answered.",
    ),
    Flag(
        "authorization-always-allow-paths",
        LIST,
        ("/healthz", "/readyz", "/livez"),
        "Paths that anybody may ask for.",
    ),
    Flag("authorization-webhook-cache-authorized-ttl", DURATION, "10s", "How long a permission is good."),
    Flag("authorization-webhook-cache-unauthorized-ttl", DURATION, "10s", "How long a refusal is good."),
)

_ELECTION: Final = (
    Flag("leader-elect", SWITCH, True, "Schedule only while holding the lease; others wait for it."),
    Flag(
        "leader-elect-lease-duration",
        DURATION,
        "15s",
        "How long others wait after the last renewal before they take the lease over.",
    ),
    Flag(
        "leader-elect-renew-deadline",
        DURATION,
        "10s",
        "How long the holder tries to renew the lease before it gives up. Shorter than the duration.",
    ),
    Flag("leader-elect-retry-period", DURATION, "2s", "The time between attempts to get or renew it."),
    Flag("leader-elect-resource-lock", TEXT, "leases", "The kind of the lock: leases."),
    Flag("leader-elect-resource-name", TEXT, "kube-scheduler", "The name of the lease."),
    Flag("leader-elect-resource-namespace", TEXT, "kube-system", "The namespace of the lease."),
)

_GATES: Final = (
    Flag(
        "feature-gates",
        EACH,
        (),
        "Name=true|false, comma-separated (kube:Name=… is the same). Gates that differ from what stowplan "
        "does are named in a warning.",
    ),
    Flag("emulated-version", LIST, (), ignored="stowplan behaves as Kubernetes 1.36"),
    Flag("min-compatibility-version", LIST, (), ignored="stowplan behaves as Kubernetes 1.36"),
)

_METRICS: Final = (
    Flag("show-hidden-metrics-for-version", TEXT, "", ignored="no metric is hidden"),
    Flag("disabled-metrics", LIST, (), "Metrics not to show, by their full names."),
    Flag("allow-metric-labels", EACH, (), ignored="labels have few values by themselves"),
    Flag("allow-metric-labels-manifest", TEXT, "", ignored="labels have few values by themselves"),
)

_LOGS: Final = (
    Flag("v", COUNT, 0, "How much to say; 4 and up is for finding faults.", short="v"),
    Flag("vmodule", EACH, (), "-v for single modules: pattern=N,… (names of files without .py)."),
    Flag("logging-format", TEXT, "text", "text or json."),
    Flag("log-flush-frequency", PERIOD, "5s", "How often lines that wait are written."),
    Flag(
        "log-text-split-stream", SWITCH, False, "Text: errors to standard error, all else to standard output."
    ),
    Flag(
        "log-json-split-stream", SWITCH, False, "JSON: errors to standard error, all else to standard output."
    ),
    Flag(
        "log-text-info-buffer-size", SIZE, "0", "How much may wait to be written, when the streams are split."
    ),
    Flag(
        "log-json-info-buffer-size", SIZE, "0", "How much may wait to be written, when the streams are split."
    ),
)

_GLOBAL: Final = (Flag("version", VERSION, "", "Print the version and exit; --version=raw prints more."),)

_DEPRECATED: Final = (
    Flag("kubeconfig", TEXT, "", "The kubeconfig file. Without --config only."),
    Flag("kube-api-qps", REAL, 50.0, "Requests to the API server a second. Without --config only."),
    Flag("kube-api-burst", NUMBER, 100, "Requests at once. Without --config only."),
    Flag("kube-api-content-type", TEXT, "application/vnd.kubernetes.protobuf", ignored="JSON is used"),
    Flag("profiling", SWITCH, True, "Serve /debug/flags/v. Without --config only."),
    Flag("contention-profiling", SWITCH, True, ignored="there is no contention to measure"),
    Flag(
        "pod-max-in-unschedulable-pods-duration",
        DURATION,
        "5m0s",
        "After this time a pod is tried again even if nothing happened that might help it.",
    ),
)

_OLD_FIELDS: Final = ("scheduler-name", "lock-object-name", "lock-object-namespace")

ONLY_WITHOUT_CONFIG: Final = frozenset((*(flag.name for flag in _DEPRECATED[:-1]), *_OLD_FIELDS))
"""Flags whose meaning is a field of the configuration file. Were the old ones to count beside a file, this
scheduler would lead by another lease than kube-scheduler did with the same unit file."""

_POLICY = "policies were removed in Kubernetes 1.23; write the same as profiles. It is not read"
_KLOG = "logs go to standard error"
_INSECURE = "only HTTPS is served, at --secure-port"


def _old(name: str, kind: Kind[Any], instead: str, default: Any = "") -> Flag:
    return Flag(name, kind, default, "", deprecated=instead, hidden=True)


_OF_EARLIER_VERSIONS: Final = (
    _old("port", PORT, _INSECURE, 0),
    _old("address", TEXT, _INSECURE),
    _old("policy-config-file", TEXT, _POLICY),
    _old("policy-configmap", TEXT, _POLICY),
    _old("policy-configmap-namespace", TEXT, _POLICY),
    _old("use-legacy-policy-config", SWITCH, _POLICY, False),
    _old("algorithm-provider", TEXT, "there is one set of default plugins; profiles change it"),
    _old("scheduler-name", TEXT, "write profiles[0].schedulerName in --config"),
    _old("lock-object-name", TEXT, "use --leader-elect-resource-name"),
    _old("lock-object-namespace", TEXT, "use --leader-elect-resource-namespace"),
    _old(
        "hard-pod-affinity-symmetric-weight",
        NUMBER,
        "it has no effect; set hardPodAffinityWeight in the args of InterPodAffinity",
        1,
    ),
    _old("failure-domains", TEXT, "topology keys are given by pods now"),
    _old("enable-equivalence-cache", SWITCH, "what is remembered is always right", False),
    _old("pod-max-unschedulable-qtimeout", DURATION, "use --pod-max-in-unschedulable-pods-duration", "5m0s"),
    _old("experimental-logging-sanitization", SWITCH, "secrets never get into logs", False),
    _old("logging-sanitization", SWITCH, "secrets never get into logs", False),
    _old("logtostderr", SWITCH, _KLOG, True),
    _old("alsologtostderr", SWITCH, _KLOG, False),
    _old("stderrthreshold", TEXT, _KLOG),
    _old("log-dir", TEXT, _KLOG),
    _old("log-file", TEXT, _KLOG),
    _old("log-file-max-size", NUMBER, _KLOG, 0),
    _old("log-backtrace-at", TEXT, "there is no such thing here"),
    _old("add-dir-header", SWITCH, _KLOG, False),
    _old("skip-headers", SWITCH, "lines always have a header", False),
    _old("skip-log-headers", SWITCH, "lines always have a header", False),
    _old("one-output", SWITCH, _KLOG, False),
    _old("google-json-key", TEXT, "use an exec credential plugin in the kubeconfig"),
    _old("azure-container-registry-config", TEXT, "it never meant anything to a scheduler"),
    _old("cloud-provider-gce-lb-src-cidrs", TEXT, "it never meant anything to a scheduler"),
    _old("cloud-provider-gce-l7lb-src-cidrs", TEXT, "it never meant anything to a scheduler"),
)

RUN_FLAGS: Final = FlagSet(
    "stowplan run [flags]",
    {
        "Misc flags": _MISC,
        "Secure serving flags": _SERVING,
        "Authentication flags": _AUTHENTICATION,
        "Authorization flags": _AUTHORIZATION,
        "Flags that the configuration file replaces": _DEPRECATED,
        "Leader election flags (they count for more than the file)": _ELECTION,
        "Feature gate flags": _GATES,
        "Metrics flags": _METRICS,
        "Logs flags": _LOGS,
        "Global flags": _GLOBAL,
        "": _OF_EARLIER_VERSIONS,
    },
)
