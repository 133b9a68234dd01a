"""Figures → the pictures that README shows: bars of requests a second, one picture a wire, as SVG without a library."""

from pathlib import Path
from xml.sax.saxutils import escape

from tests.benchmarks.serving.peer import load_peer
from tests.benchmarks.serving.report import Cells, rate_of
from tests.benchmarks.serving.workload import ROWS, Row

_COLOURS = ("#c2410c", "#4b5563", "#9ca3af", "#60a5fa", "#a78bfa", "#34d399")
_WIDTH, _LABEL, _BAR, _GAP, _HEAD = 760, 210, 16, 14, 34
_SCALE = _WIDTH - _LABEL - 90
"""The length of the longest bar."""


def draw(cells: Cells, folder: Path, concurrency: int = 8) -> list[Path]:
    """One SVG for each loader with figures at this concurrency: its rows, and a bar for each server in them."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for loader, name in (("wrk", "http"), ("h2load", "grpc")):
        rows = [row for row in ROWS.values() if row.loader == loader and _peers(cells, row, concurrency)]
        if rows:
            path = folder / f"{name}.svg"
            path.write_text(_picture(rows, cells, concurrency))
            written.append(path)
    return written


def _peers(cells: Cells, row: Row, concurrency: int) -> dict[str, float]:
    """Servers with a figure in the row → their rates, the fastest first."""
    rates = {key[1]: rate_of(found) for key, found in cells.items() if (key[0], key[2]) == (row.name, concurrency)}
    return dict(sorted(rates.items(), key=lambda item: -item[1]))


def _picture(rows: list[Row], cells: Cells, concurrency: int) -> str:
    servers = sorted({peer for row in rows for peer in _peers(cells, row, concurrency)})
    colours = {peer: _COLOURS[index % len(_COLOURS)] for index, peer in enumerate(servers)}
    body: list[str] = []
    top = 24
    for row in rows:
        rates = _peers(cells, row, concurrency)
        body.append(_text(8, top + 12, row.title, weight="bold"))
        top += 20
        for peer, rate in rates.items():
            length = max(_SCALE * rate / max(rates.values()), 1)
            body.append(_text(_LABEL - 8, top + 12, load_peer(peer).TITLE, anchor="end"))
            body.append(f'<rect x="{_LABEL}" y="{top}" width="{length:.0f}" height="{_BAR}" fill="{colours[peer]}"/>')
            body.append(_text(_LABEL + round(length) + 6, top + 12, f"{rate:,.0f}/s"))
            top += _BAR + 4
        top += _GAP
    title = f"requests a second with {concurrency} clients; each group has its own scale"
    body.append(_text(8, top + 14, title))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top + _HEAD}" font-family="sans-serif" '
    paper = 'font-size="12"><rect width="100%" height="100%" fill="white"/>'
    return "\n".join((head + paper, *body, "</svg>", ""))


def _text(x: int, y: int, text: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-weight="{weight}" fill="#111">{escape(text)}</text>'
