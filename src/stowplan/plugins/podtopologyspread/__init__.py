"""PodTopologySpread: pods are spread evenly over zones, hosts or whatever nodes are divided into."""

from stowplan.plugins.podtopologyspread.args import PodTopologySpreadArgs
from stowplan.plugins.podtopologyspread.plugin import PodTopologySpread

__all__ = ["PodTopologySpread", "PodTopologySpreadArgs"]
