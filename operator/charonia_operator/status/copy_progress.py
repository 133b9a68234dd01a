"""How far pods are that copy the models, for people: bytes and per cent."""

from charonia_operator.observation import CopyProgress, Observation

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def progress_text(seen: Observation) -> str:
    """The pod that has copied least, as a sentence with a space before it; empty where no pod tells."""
    told = {pod: report.progress for pod, report in seen.models.items() if report.progress}
    if not told:
        return ""
    pod, progress = min(told.items(), key=lambda each: _share(each[1]))
    if progress.phase != "Downloading" or not progress.bytes:
        return f" {pod}: {progress.phase}."
    done, total = _size_text(progress.bytes_done), _size_text(progress.bytes)
    return f" {pod}: {done} of {total} ({int(100 * _share(progress))} %)."


def _share(progress: CopyProgress) -> float:
    return min(progress.bytes_done / progress.bytes, 1.0) if progress.bytes else 0.0


def _size_text(size: float) -> str:
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{size:.1f} {unit}" if unit != "B" else f"{size:.0f} B"
        size /= 1024
    return f"{size:.1f} {_UNITS[-1]}"
