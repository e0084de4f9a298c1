"""Devices for pods: finds, for every node, devices that satisfy a pod's resource claims.

`cel` judges one device by one expression, `pools` knows which devices a node can reach, `search` picks
devices for all requests of all claims, and `allocator` turns a pick into what is written into a claim.
None of these knows the plugin contract; `plugin` joins them to it.
"""
