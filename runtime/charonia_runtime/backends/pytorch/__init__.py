"""
The `pytorch` backend: TorchScript and torch.export models, run in this process by the torch package.

    backend      the life of one loaded version: auto-complete, load, instances
    library      the package itself: import, what it is told once for the process, errors
    settings     parameters of a model → values
    naming       names of a configuration → positions in a call (pure)
    program      what a loaded model is to an instance; checks of its configuration
    torchscript  `model.pt`
    exported     `model.pt2`: archives of torch.export, packages of AOTInductor
    completion   what an archive tells and the configuration leaves open
    devices      where an instance runs: numpy arrays ⇄ tensors there
    strings      BYTES ⇄ lists of strings
    instance     one execution
    python_runtime/model  eager models (`runtime: "model.py"`); runs in processes of the python backend, not here

What a model gets and what it gives is copied between the requests' memory and torch's, once each way: a model may
change its inputs in place and keep its outputs, while other steps and clients still read them.

torch is imported when the first model loads.
"""

from charonia_runtime.backends.pytorch.backend import Backend

__all__ = ["Backend"]
