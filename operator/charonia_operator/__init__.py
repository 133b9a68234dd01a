"""
Charonia's Kubernetes operator: turns InferenceService objects into Deployments that run `charonia serve`.

Level-triggered: `reconcile` compares what `spec`, `pod` and `resources` want with what `store` has seen, and writes the
difference through `cluster`, the one module that talks to Kubernetes. kopf tells of changes (`handlers`); a queue and a
periodic look at everything do the rest. Serving never depends on it: pods start, sync, serve and drain alone.
Nothing here imports `charonia_runtime`: the two meet only at a command line.
"""

from importlib.metadata import version

__version__ = version("charonia")
"""The package's: the server of the same version is what services run by default."""
