"""
Model repositories that live elsewhere: a bucket or a folder is copied here, verified, and switched to in one rename.

`schemes` holds one module for each URI scheme; everything else is scheme-free and blocks, so that it belongs in a
thread or a process of its own. Nothing here knows the engine or a wire; the way in is `mirror.Mirror`.
"""
