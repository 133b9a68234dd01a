"""
Ensembles: models that are a graph of other models, each tensor passed on to whoever reads it.

Belongs here: the graph and which part of it a request needs (`graph`), how tensors spread through it (`propagation`,
without I/O), the checks against the composing models (`composition`), one request's way (`flight`), and the model that
the rest of the engine sees (`model`). Which models an ensemble keeps alive and when it is loaded anew is the loader's
business (`engine.dependencies`, `engine.loading`).
"""
