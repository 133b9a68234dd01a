"""What a copy tells the world: lines for people, a status file and a termination message for programs."""

import json
import logging
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from charonia_runtime.storage.failures import StorageError
from charonia_runtime.storage.generations import Generation
from charonia_runtime.storage.progress import Progress, size_text

logger = logging.getLogger(__name__)

_LONGEST_MESSAGE = 3000
"""Characters; a termination message may have 4,096 bytes."""
_WORTH_A_LINE = ("Downloading", "Waiting")
_MOVING_SECONDS = 0.5
_LINE_SECONDS = 10.0


@dataclass(slots=True)
class Report:
    """What is said at the end of a pass, and stays true until the next one."""

    reason: str = ""
    """`Synced`, or the cause of the failure."""
    message: str = ""
    revision: str = ""
    """Of what is live."""
    generation: str = ""
    objects: int = 0
    bytes: int = 0
    synced_at: str = ""
    """When the live content was last known to be the store's."""
    failures: int = 0
    """Passes that failed since."""
    started_at: str = ""

    def __post_init__(self) -> None:
        self.started_at = self.started_at or _now()

    def succeed(self, generation: Generation) -> None:
        """The live generation is what the store holds."""
        manifest = generation.manifest
        self.reason, self.failures, self.synced_at = "Synced", 0, _now()
        self.revision, self.generation = manifest.revision, generation.name
        self.objects, self.bytes = len(manifest.files), manifest.size
        self.message = f"{self.objects} objects, {size_text(self.bytes)}, {self.revision}"

    def fail(self, error: StorageError) -> None:
        """What is live stays."""
        self.reason, self.message, self.failures = error.cause, error.message, self.failures + 1

    def termination_message(self) -> str:
        """JSON for `kubectl describe pod`, and for the operator."""
        return json.dumps(
            {
                "reason": self.reason,
                "message": self.message[:_LONGEST_MESSAGE],
                "revision": self.revision,
                "objects": self.objects,
                "bytes": self.bytes,
            },
            ensure_ascii=False,
        )

    def status(self, progress: Progress) -> dict[str, Any]:
        """The document of the status file."""
        counts, refusal = progress.counts(), progress.refusal()
        again = refusal and {
            "reason": refusal.cause,
            "message": refusal.message[:_LONGEST_MESSAGE],
            "seconds": round(refusal.seconds),
        }
        return {
            "phase": counts.phase,
            "retrying": again,
            "reason": self.reason,
            "message": self.message,
            "revision": self.revision,
            "generation": self.generation,
            "objects": {"total": counts.objects, "done": counts.objects_done},
            "bytes": {"total": counts.bytes, "done": counts.bytes_done, "fetched": counts.fetched_bytes},
            "bytesPerSecond": round(counts.bytes_per_second),
            "failures": self.failures,
            "startedAt": self.started_at,
            "syncedAt": self.synced_at,
            "updatedAt": _now(),
        }


class Reporter:
    """
    A thread that shows the progress while the context is open: on `stream`, and in `status_file` where one is named.

    A terminal gets one line that moves, anything else a line every ten seconds.
    """

    def __init__(self, report: Report, progress: Progress, stream: TextIO, status_file: Path | None) -> None:
        self._report = report
        self._progress = progress
        self._stream = stream
        self._status_file = status_file
        self._moving = stream.isatty()
        self._ending = threading.Event()
        self._shown = ""
        self._thread = threading.Thread(target=self._run, name="charonia-sync-reporter", daemon=True)

    def __enter__(self) -> Self:
        self.write_status()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()
        self.write_status()

    def say(self, text: str) -> None:
        """A line of its own."""
        clear = "\r\033[K" if self._moving and self._shown else ""
        self._shown = ""
        print(f"{clear}{text}", file=self._stream, flush=True)

    def write_status(self) -> None:
        """Replace the status file as a whole, so that nobody reads half of it."""
        if self._status_file is None:
            return
        _replace(self._status_file, json.dumps(self._report.status(self._progress), ensure_ascii=False))

    def _run(self) -> None:
        waited = 0.0
        while not self._ending.wait(_MOVING_SECONDS):
            waited += _MOVING_SECONDS
            self.write_status()
            text = self._progress.counts().text()
            if self._moving:
                self._shown = text
                print(f"\r\033[K{text}", end="", file=self._stream, flush=True)
            elif waited >= _LINE_SECONDS and text != self._shown and text.startswith(_WORTH_A_LINE):
                waited = 0.0
                self._shown = text
                print(text, file=self._stream, flush=True)


def _replace(path: Path, text: str) -> None:
    """In one rename; what cannot be written is logged, for it must not stop a copy."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.write_text(f"{text}\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        logger.warning("cannot write %s: %s", path, error.strerror)


def write_termination_message(path: Path, report: Report) -> None:
    """The file is mounted into the container, so it is written in place."""
    try:
        path.write_text(report.termination_message(), encoding="utf-8")
    except OSError as error:
        logger.warning("cannot write the termination message %s: %s", path, error.strerror)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
