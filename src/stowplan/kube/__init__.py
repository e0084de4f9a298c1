"""A real API server: how to reach it, and what a scheduler does with it.

From the wire up: `http1` and `pool` move bytes, `kubeconfig` and `credentials` say where to and as whom,
`client` makes typed requests, `reflector` keeps a copy of all objects of one kind, `leases` elects the one
scheduler that acts, `recorder` writes events, and `planner` carries out what the engine decided.

This room knows nothing of queues, plugins or cycles: it is told what to fetch and what to write.
"""
