"""stowplan: the Kubernetes scheduler in Python.

Data flows down this list of rooms, and each imports only from those above it:
objects, cluster, framework, plugins, contrib, config, queue, engine, kube, embedded, extender,
simulate, ops, cli. What each is for, and what it must not know, stands in its docstring.
"""

__version__ = "0.1.0"
