"""The plugins of kube-scheduler, one file each, a folder where filtering and scoring need room.

Each keeps the framework's contract and nothing else: this room knows no queue, no API server and no
other plugin's insides.
"""

from __future__ import annotations

from stowplan.framework.registry import Registry, register
from stowplan.plugins.default_binder import DefaultBinder
from stowplan.plugins.defaultpreemption.plugin import DefaultPreemption
from stowplan.plugins.dynamicresources.plugin import DynamicResources
from stowplan.plugins.image_locality import ImageLocality
from stowplan.plugins.interpodaffinity.plugin import InterPodAffinity
from stowplan.plugins.node_affinity import NodeAffinity
from stowplan.plugins.node_declared_features import NodeDeclaredFeatures
from stowplan.plugins.node_name import NodeName
from stowplan.plugins.node_ports import NodePorts
from stowplan.plugins.node_unschedulable import NodeUnschedulable
from stowplan.plugins.noderesources.balanced import NodeResourcesBalancedAllocation
from stowplan.plugins.noderesources.fit import NodeResourcesFit
from stowplan.plugins.podtopologyspread.plugin import PodTopologySpread
from stowplan.plugins.priority_sort import PrioritySort
from stowplan.plugins.scheduling_gates import SchedulingGates
from stowplan.plugins.taint_toleration import TaintToleration
from stowplan.plugins.volumes.binding import VolumeBinding
from stowplan.plugins.volumes.limits import NodeVolumeLimits
from stowplan.plugins.volumes.restrictions import VolumeRestrictions
from stowplan.plugins.volumes.zone import VolumeZone

IN_TREE: Registry = register(
    [
        SchedulingGates,
        PrioritySort,
        NodeUnschedulable,
        NodeName,
        TaintToleration,
        NodeAffinity,
        NodePorts,
        NodeResourcesFit,
        VolumeRestrictions,
        NodeVolumeLimits,
        VolumeBinding,
        VolumeZone,
        PodTopologySpread,
        InterPodAffinity,
        DynamicResources,
        DefaultPreemption,
        NodeResourcesBalancedAllocation,
        ImageLocality,
        DefaultBinder,
        NodeDeclaredFeatures,
    ]
)
"""Every plugin of this package by name."""
