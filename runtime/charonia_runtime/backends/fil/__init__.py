"""
The `fil` backend: tree ensembles of XGBoost, LightGBM and treelite, run in this process by the treelite package.

    backend     the life of one loaded version: auto-complete, load, instances
    library     the package itself: import, files → models, errors
    settings    parameters of a model → values
    completion  what the trees tell and the configuration leaves open
    prediction  what treelite predicts → what clients get (pure)
    trees       the trees as arrays: what decides at each node, the ways to the leaves
    shap        Shapley values of trees (pure), which treelite does not have
    checks      the model against the configuration, before anything is served
    instance    one execution

Everything runs on the processor, also for instances on GPUs. treelite is imported when the first model loads.
"""

from charonia_runtime.backends.fil.backend import Backend

__all__ = ["Backend"]
