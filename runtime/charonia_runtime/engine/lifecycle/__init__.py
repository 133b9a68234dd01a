"""
From folders to models that serve: repositories read, versions chosen, loads, swaps, reloads and unloads.

What serves and in which state it is, is kept by `engine.registry`; what a model does with its requests is the
business of `engine.execution`. Files are read in threads, everything else happens on the event loop.
"""
