"""
One module (or package) for each protocol: sockets, routes, one table from error codes to statuses, its own flags.

Each module has a class `Frontend` (see `core.frontend`) and a dataclass `Options` whose fields become flags.
Frontends speak to `core.server.InferenceServer` only; they do not know the engine or each other.
"""
