"""Makes room for a pod that fits nowhere, by removing less important pods from one node.

`plugin.py` is the plugin: who may preempt, which node, and what is said when none will do. `victims.py` and
`budgets.py` hold the rules: which pod is more important, whose removal a disruption budget forbids, which
candidate is best. `trial.py` tries one node by removing pods, in a trial, and asking the filters: always
right, and slow. `room.py` judges all nodes at once where only room matters, with `columns.py` for the rounds,
`ranking.py` for the placed pods of every node in order, and `outcomes.py` for what is remembered; a property
test holds both ways against each other.
"""

from stowplan.plugins.defaultpreemption.plugin import DefaultPreemption

__all__ = ["DefaultPreemption"]
