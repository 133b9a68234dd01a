"""Traces in Triton's JSON files: one array at the end, or one file for every so many traces."""

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import orjson

from charonia_runtime.engine.tracing.elements import elements_of
from charonia_runtime.engine.tracing.request_trace import RequestTrace
from charonia_runtime.engine.tracing.sampling import Sampler

logger = logging.getLogger(__name__)

_MOST_KEPT: Final = 1000
_MOST_KEPT_WITH_TENSORS: Final = 10
"""Traces that are kept in memory before they are appended to the array of an endless collection."""


class FileTraces:
    """
    See `request_trace.Destination`. A collection is what was traced under one set of settings.

    With a log frequency it is written to `<file>.<index>` every so many traces; where each request is traced, also when
    the count is used up. What is left goes to the array in `<file>`, or to the next index where there are indexes.
    Texts are made and files written in a thread of their own.
    """

    joins_traces = False

    def __init__(self, file: str) -> None:
        self._file = Path(file)
        self._collections: dict[Sampler, list[RequestTrace]] = {}
        self._ended: dict[Sampler, int] = {}
        self._index = 0
        self._is_begun = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="traces")

    def write(self, trace: RequestTrace) -> None:
        sampler = trace.sampler
        collection = self._collections.setdefault(sampler, [])
        collection.append(trace)
        if trace.parent is not None:
            return  # written together with that of the request that made it
        finished = self._ended[sampler] = self._ended.get(sampler, 0) + 1
        frequency = sampler.values.log_frequency
        used_up = sampler.left == 0 and sampler.values.rate == 1 and finished == sampler.sampled
        if used_up or (frequency and finished % frequency == 0):
            self._to_next_file(sampler)
        elif not frequency and sampler.left < 0:
            most = _MOST_KEPT_WITH_TENSORS if trace.wants_tensors else _MOST_KEPT
            if len(collection) >= most:
                self._to_array(sampler)

    def context_of(self, trace: RequestTrace) -> str | None:  # noqa: ARG002 - files name their traces by numbers
        return None

    def drop(self, sampler: Sampler) -> None:
        if sampler.values.log_frequency:
            self._to_next_file(sampler)
        else:
            self._to_array(sampler)
        self._ended.pop(sampler, None)

    def close(self) -> None:
        for sampler in list(self._collections):
            self.drop(sampler)
        self._thread.submit(self._end_array)
        self._thread.shutdown()

    def _to_next_file(self, sampler: Sampler) -> None:
        traces = self._collections.pop(sampler, [])
        if traces:
            path = self._file.with_name(f"{self._file.name}.{self._index}")
            self._index += 1
            self._thread.submit(self._write_file, path, traces)

    def _to_array(self, sampler: Sampler) -> None:
        traces = self._collections.pop(sampler, [])
        if traces:
            self._thread.submit(self._append, traces)

    # --- in the thread ---

    def _write_file(self, path: Path, traces: list[RequestTrace]) -> None:
        try:
            path.write_bytes(b"[" + _text(traces) + b"]")
        except Exception:
            logger.exception("failed creating trace file '%s'", path)

    def _append(self, traces: list[RequestTrace]) -> None:
        try:
            with self._file.open("ab" if self._is_begun else "wb") as file:
                file.write((b"," if self._is_begun else b"[") + _text(traces))
            self._is_begun = True
        except Exception:
            logger.exception("failed writing trace file '%s'", self._file)

    def _end_array(self) -> None:
        try:
            if self._is_begun:
                with self._file.open("ab") as file:
                    file.write(b"]")
        except OSError:
            logger.exception("failed writing trace file '%s'", self._file)


def _text(traces: list[RequestTrace]) -> bytes:
    return b",".join(orjson.dumps(element) for trace in traces for element in elements_of(trace))
