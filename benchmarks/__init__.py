"""Measurements of the core alone (`python -m benchmarks.core`), beside kube-scheduler's in the same run."""
