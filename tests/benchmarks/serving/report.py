"""Records → the Markdown that README and release notes show. Cells are medians, and their ratio to Triton in the run."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from statistics import median

from tests.benchmarks.serving.figures import Failure, Figure, Limit, Record, Start
from tests.benchmarks.serving.peer import load_peer
from tests.benchmarks.serving.workload import ROWS

REFERENCE = "triton"
_NOISE_CORES = 0.35
"""Figures above are left out where a cell has quieter ones; a cell without one is marked."""
_MEBIBYTE = 1 << 20

Cells = dict[tuple[str, str, int], list[Figure]]
"""Row, peer, concurrency → its repetitions."""


def cells_of(records: Iterable[Record]) -> Cells:
    """Figures by cell, without the noisy repetitions of cells that have quiet ones."""
    cells: Cells = defaultdict(list)
    for record in records:
        if isinstance(record, Figure):
            cells[record.row, record.peer, record.concurrency].append(record)
    return {key: _quiet(figures) or figures for key, figures in cells.items()}


def rate_of(figures: list[Figure]) -> float:
    return median(figure.rate for figure in figures)


def markdown(records: list[Record]) -> str:
    """Every table."""
    cells = cells_of(records)
    limits = {record.row: record.rate for record in records if isinstance(record, Limit)}
    parts = [_row_table(name, cells, limits.get(name)) for name in ROWS if any(key[0] == name for key in cells)]
    starts = [record for record in records if isinstance(record, Start)]
    if starts:
        parts.append(_start_table(starts))
    failures = [record for record in records if isinstance(record, Failure)]
    parts += [f"{_title(each.peer)} failed in {each.row}: {each.text.strip().splitlines()[-1]}" for each in failures]
    return "\n\n".join(parts) + "\n"


def _row_table(name: str, cells: Cells, limit: float | None) -> str:
    row = ROWS[name]
    peers = sorted({key[1] for key in cells if key[0] == name}, key=lambda peer: -_best(cells, name, peer))
    lines = [
        f"**{row.title}**" + (f" (bare onnxruntime in a loop: {_number(limit)} a second)" if limit else ""),
        "",
        "| server | "
        + " | ".join(f"c={c}, requests/s | p50 / p99, ms" for c in row.concurrency)
        + " | CPU a request |",
        "|---" * (2 * len(row.concurrency) + 2) + "|",
    ]
    for peer in peers:
        columns = [_title(peer)]
        for concurrency in row.concurrency:
            columns += _cell(cells, name, peer, concurrency)
        used = [f.cpu_microseconds for c in row.concurrency for f in cells.get((name, peer, c), [])]
        lines.append("| " + " | ".join([*columns, f"{min(used):,.0f} µs"]) + " |")
    return "\n".join(lines)


def _cell(cells: Cells, name: str, peer: str, concurrency: int) -> list[str]:
    figures = cells.get((name, peer, concurrency))
    if figures is None:
        return ["", ""]
    rate = rate_of(figures)
    text = ("" if _quiet(figures) else "~") + _number(rate)
    reference = cells.get((name, REFERENCE, concurrency))
    if reference is not None and peer != REFERENCE and rate_of(reference):
        text += f" ({rate / rate_of(reference):.2f}x)"
    errors = sum(figure.errors for figure in figures)
    times = f"{median(f.p50 for f in figures):.2f} / {median(f.p99 for f in figures):.2f}"
    return [text, times + (f", {errors} errors" if errors else "")]


def _start_table(starts: list[Start]) -> str:
    grouped: dict[tuple[str, str], list[Start]] = defaultdict(list)
    for start in starts:
        grouped[start.row, start.peer].append(start)
    lines = [
        "**Start to the first right answer, and memory once idle**",
        "",
        "| row | server | seconds | RSS, MiB | PSS, MiB |",
        "|---|---|---|---|---|",
    ]
    for (row, peer), group in grouped.items():
        middle = _medians(group)
        lines.append(
            f"| {ROWS[row].title} | {_title(peer)} | {middle(lambda start: start.seconds):.2f} "
            f"| {middle(lambda start: start.resident) / _MEBIBYTE:.0f} "
            f"| {middle(lambda start: start.proportional) / _MEBIBYTE:.0f} |"
        )
    return "\n".join(lines)


def _medians(group: list[Start]) -> Callable[[Callable[[Start], float]], float]:
    return lambda value: median(map(value, group))


def _quiet(figures: list[Figure]) -> list[Figure]:
    return [figure for figure in figures if figure.other_cores <= _NOISE_CORES]


def _best(cells: Cells, name: str, peer: str) -> float:
    return max(rate_of(figures) for key, figures in cells.items() if key[:2] == (name, peer))


def _title(peer: str) -> str:
    return load_peer(peer).TITLE


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
