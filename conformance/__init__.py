"""Compares what this scheduler decides with what kube-scheduler decided.

`cases/` holds small clusters with pending pods, and for each pod everything kube-scheduler 1.36 said of it:
which nodes it rejected and why, every score, the best nodes, the messages, whom it would preempt, which
devices it would allocate. `python -m conformance` decides the same pods here and compares all of it.
"""
