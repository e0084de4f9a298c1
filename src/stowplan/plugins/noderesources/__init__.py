"""The plugins that weigh resources: whether a pod fits, how full its node gets, and how evenly."""
