"""
The `tensorrt` backend: engine plans, run on NVIDIA GPUs by the tensorrt package, TensorRT 10 or newer.

    backend        the life of one loaded version: auto-complete, load, instances
    library        the package itself: import, log, plugins, reading a plan
    engine         what a plan says of its tensors and optimisation profiles
    completion     engine → what the configuration leaves open
    checks         engine against configuration, before anything is served
    settings       parameters and `--backend-config` settings as values
    profiles       which profile takes a batch
    memory         a batch's inputs on their way to the GPU, its outputs on their way back
    outputs        what the engine allocates as it goes: outputs whose shapes depend on data
    graphs         CUDA graphs: executions that are recorded once and launched again
    contexts       an engine bound to one profile
    instance       one execution

Every instance has a stream, and an execution context for each of its profiles; the engine with its weights is shared
by the instances of a GPU. Inputs are gathered in pinned memory and copied once; those that lie on a GPU already are
used where they lie or copied there. Outputs leave the GPU only for requests that want them on the host.

Everything but `library` and the calls on its objects is pure; the library is imported when the first model loads.
Plans with an implicit batch dimension cannot be read by TensorRT 10 and are refused.
"""

from charonia_runtime.backends.tensorrt.backend import Backend

__all__ = ["Backend"]
