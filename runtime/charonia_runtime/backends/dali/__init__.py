"""
The `dali` backend: data-processing pipelines of NVIDIA DALI, run in this process by the nvidia-dali package.

    backend      the life of one loaded version: auto-complete, load, instances
    library      the package itself: import, element types, errors
    settings     parameters of a model and settings of the backend → values
    sources      a model's files → a serialized pipeline
    serializer   runs in a process of its own: a pipeline written in Python → a serialized one
    description  what a serialized pipeline says of its inputs and outputs (pure)
    completion   what that tells and the configuration leaves open, and where the two disagree
    instance     one execution

Each row of a request is a sample of DALI's batch, so rows of different requests may have different shapes. A request is
answered once: what Triton does with video that is longer than one run, DALI's Python package does not offer.

nvidia.dali is imported when the first model loads.
"""

from charonia_runtime.backends.dali.backend import Backend

__all__ = ["Backend"]
