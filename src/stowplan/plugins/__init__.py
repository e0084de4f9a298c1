"""The plugins of kube-scheduler, one file each, a folder where filtering and scoring need room.

Each keeps the framework's contract and nothing else: this room knows no queue, no API server and no
other plugin's insides.
"""

from __future__ import annotations

from stowplan.framework.registry import register

IN_TREE = register([])
"""Every plugin of this package by name."""
