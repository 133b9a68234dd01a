"""
The `onnxruntime` backend: ONNX models, run in this process by the onnxruntime package.

    backend        the life of one loaded version: auto-complete, load, instances
    library        the package itself: import, errors, process-wide thread pool
    graph          what a session says of its inputs and outputs
    completion     graph → what the configuration leaves open
    checks         graph against configuration, before anything is served
    providers      execution accelerators and devices → execution providers
    sessions       session options; sessions shared by instances
    tensors        numpy arrays ⇄ what a session takes and gives
    device_runs    executions on tensors that lie on a GPU
    instance       one execution

Threads of a session sleep between two runs instead of spinning, which is onnxruntime's default: a spinning pool burns
the core that the event loop needs (measured on two cores, a small MLP called 900 times a second: 0.06 ms instead of
1.18 ms of processor time for each run; ResNet-50: the same latency, a fifth less processor time). The parameter
`session.intra_op.allow_spinning` of a model turns it on again, as any `session.…` parameter sets its session option.

Everything but `library` and the calls on its objects is pure; the library is imported when the first model loads.
"""

from charonia_runtime.backends.onnxruntime.backend import Backend

__all__ = ["Backend"]
