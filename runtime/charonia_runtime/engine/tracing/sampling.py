"""Which requests are traced: one counter for each set of trace settings."""

from charonia_runtime.engine.trace_options import TraceValues


class Sampler:
    """The requests that one set of settings holds for: those of all models, or of one with settings of its own."""

    __slots__ = ("_seen", "left", "sampled", "values")

    def __init__(self, values: TraceValues) -> None:
        self.values = values
        self.left = values.count
        """How many more may be traced; -1 for any number."""
        self.sampled = 0
        self._seen = 0

    def takes(self, *, forced: bool) -> bool:
        """Whether the next request is traced: every rate-th, or `forced` by the client's own trace."""
        values = self.values
        if not values.levels or self.left == 0:
            return False
        if not forced:
            if not values.rate:
                return False
            self._seen += 1
            if self._seen % values.rate:
                return False
        self.sampled += 1
        if self.left > 0:
            self.left -= 1
        return True
