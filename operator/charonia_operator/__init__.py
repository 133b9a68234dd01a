"""
Charonia's Kubernetes operator: turns InferenceService objects into Deployments that run `charonia serve`.

Nothing here imports `charonia_runtime`: the two meet only at a command line.
"""
