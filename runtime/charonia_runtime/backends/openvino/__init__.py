"""
The `openvino` backend: OpenVINO IR, and whatever else OpenVINO reads, run in this process by the openvino package.

    backend     the life of one loaded version: auto-complete, load, instances
    library     the package itself: import, element types, errors
    settings    parameters of a model → properties of its compilation
    network     a model's inputs and outputs in our types; a model fitted to its configuration
    checks      the model against the configuration, before anything is served
    completion  what the model tells and the configuration leaves open
    instance    one execution

Where Triton fixes the batch to `max_batch_size` and refuses or pads any other, this backend runs the batch as it is.

openvino is imported when the first model loads.
"""

from charonia_runtime.backends.openvino.backend import Backend

__all__ = ["Backend"]
