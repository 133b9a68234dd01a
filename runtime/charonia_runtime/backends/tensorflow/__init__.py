"""
The `tensorflow` backend: SavedModels and frozen graphs, run in this process by the tensorflow package.

    backend     the life of one loaded version: auto-complete, load, instances
    library     the package itself: import, element types, errors
    settings    parameters of a model and settings of the backend → values
    signature   what a model takes and gives, in our types
    models      the two kinds of model files, opened into a session
    sessions    sessions of the instances: where they run, with which threads, who shares one
    checks      the signature against the configuration, before anything is served
    completion  what the signature tells and the configuration leaves open
    instance    one execution

Models run in sessions of TensorFlow 1, as in Triton: those have threads of their own and take frozen graphs, and to
call one from Python takes a tenth of the time that a function of TensorFlow 2 takes.

tensorflow is imported when the first model loads.
"""

from charonia_runtime.backends.tensorflow.backend import Backend

__all__ = ["Backend"]
