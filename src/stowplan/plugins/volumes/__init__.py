"""Volumes: which nodes can reach, hold and provide what a pod wants to mount.

Four plugins: VolumeRestrictions (disks and claims that tolerate one user only), NodeVolumeLimits (how many
volumes a node can attach), VolumeBinding (which volumes claims get, and from where they can be reached) and
VolumeZone (zone labels of volumes). What they share stands in `claims.py`, `migration.py` and `reach.py`.
"""

from stowplan.plugins.volumes.binding import VolumeBinding
from stowplan.plugins.volumes.limits import NodeVolumeLimits
from stowplan.plugins.volumes.restrictions import VolumeRestrictions
from stowplan.plugins.volumes.zone import VolumeZone

__all__ = ["NodeVolumeLimits", "VolumeBinding", "VolumeRestrictions", "VolumeZone"]
