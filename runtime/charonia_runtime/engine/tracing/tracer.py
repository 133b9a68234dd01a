"""`Tracer`: decides which requests are traced, by the settings that hold for their model."""

import itertools
import logging
from typing import Protocol

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.request import Trace
from charonia_runtime.engine.trace_options import TraceStart
from charonia_runtime.engine.tracing.files import FileTraces
from charonia_runtime.engine.tracing.request_trace import Destination, RequestTrace
from charonia_runtime.engine.tracing.sampling import Sampler
from charonia_runtime.installation import install_command

logger = logging.getLogger(__name__)


class SampledSettings(Protocol):
    """What a tracer needs of the settings; `engine.settings.SettingsStore` has it."""

    @property
    def traces(self) -> bool:
        """Whether the trace level of any model is not OFF."""

    def sampler(self, model: str) -> Sampler:
        """The counter of the settings that hold for the model now."""


class Tracer:
    """Implements `core.tracing.Tracing`. Used on the event loop's thread."""

    def __init__(self, destination: Destination | None) -> None:
        """Without a destination nothing is traced, whatever the settings say."""
        self.active = False
        self._destination = destination
        self._settings: SampledSettings | None = None
        self._ids = itertools.count(1)

    def use(self, settings: SampledSettings) -> None:
        """Trace by these settings from now on."""
        self._settings = settings
        self.settings_changed([])

    def settings_changed(self, replaced: list[Sampler]) -> None:
        """The settings say something else now; `replaced` are the counters that count no more."""
        settings, destination = self._settings, self._destination
        self.active = settings is not None and destination is not None and settings.traces
        if destination is not None:
            for sampler in replaced:
                destination.drop(sampler)

    def sample(self, model: str, parent: str | None) -> Trace | None:
        if self._settings is None or self._destination is None:
            return None
        sampler = self._settings.sampler(model)
        if not sampler.takes(forced=parent is not None and self._destination.joins_traces):
            return None
        return RequestTrace(model, sampler, self._destination, lambda: next(self._ids), traceparent=parent)

    def close(self) -> None:
        """Write what is left; blocks."""
        self.active = False
        if self._destination is not None:
            self._destination.close()


def make_destination(start: TraceStart) -> Destination | None:
    """Where traces go, by `--trace-config`. Raises InvalidArgumentError when a package for it is missing."""
    if start.mode == "triton":
        return FileTraces(start.file) if start.file else None
    try:
        from charonia_runtime.engine.tracing.opentelemetry import OpenTelemetryTraces
    except ImportError as error:
        if not start.values.levels:
            logger.warning("traces cannot be exported: the extra 'opentelemetry' is not installed")
            return None
        raise InvalidArgumentError(
            "trace mode 'opentelemetry' needs the packages of the extra 'opentelemetry': "
            f"{install_command('opentelemetry')}"
        ) from error
    return OpenTelemetryTraces(start.mode_settings)
