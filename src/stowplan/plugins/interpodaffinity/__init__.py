"""InterPodAffinity: pods want to be near to, or far from, other pods."""

from stowplan.plugins.interpodaffinity.plugin import InterPodAffinity, InterPodAffinityArgs

__all__ = ["InterPodAffinity", "InterPodAffinityArgs"]
