"""
Charonia beside its peers, on this machine, in one run.

    python -m tests.benchmarks.serving --home FOLDER --install triton mosec     fetch peers (about 1 GB each), once
    python -m tests.benchmarks.serving --home FOLDER                            measure everything that is installed
    python -m tests.benchmarks.serving --home FOLDER identity-grpc --peers charonia triton --repetitions 5

Servers are interleaved (A B C, A B C, …), one at a time, each start a fresh process that answers one request rightly
before it is loaded. Prints Markdown tables; `--results` keeps every figure as a line of JSON, `--plots` draws pictures.
Loaders are wrk (HTTP), h2load (gRPC) and perf_analyzer (shared memory; the environment's PERF_ANALYZER names it).
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.benchmarks.serving import figures, plots, report
from tests.benchmarks.serving.limits import bare_onnxruntime
from tests.benchmarks.serving.loaders import LoaderError, missing_program
from tests.benchmarks.serving.networks import write_all
from tests.benchmarks.serving.peer import load_peer, peer_names
from tests.benchmarks.serving.process import ServerError, ServerProcess
from tests.benchmarks.serving.workload import ROWS, Row

_WARM_SECONDS = 1


def measure_peer(row: Row, name: str, repetition: int, home: Path, seconds: int) -> Iterator[figures.Record]:
    """A fresh start of one server, loaded at each of the row's concurrencies."""
    peer = load_peer(name)
    wire = peer.wire(row)
    if wire is None:
        return
    try:
        with ServerProcess(peer, row, wire, home) as server:
            server.settle()
            yield figures.Start(row.name, name, repetition, round(server.start_seconds, 3), *server.memory_bytes())
            for concurrency in (None, *row.concurrency):
                yield from _figure(server, name, repetition, concurrency, max(seconds, row.least_seconds))
    except ServerError as error:
        yield figures.Failure(row.name, name, repetition, str(error))


def _figure(
    server: ServerProcess, name: str, repetition: int, concurrency: int | None, seconds: int
) -> Iterator[figures.Record]:
    """A figure, or why there is none; for no concurrency only a load that warms the server."""
    try:
        if concurrency is not None:
            yield figures.measure(server, name, repetition, concurrency, seconds)
        elif not server.row.loader.startswith("perf_analyzer"):
            figures.measure(server, name, repetition, 8, _WARM_SECONDS)
    except LoaderError as error:
        yield figures.Failure(server.row.name, name, repetition, f"c={concurrency}: {error}")


def run(rows: list[Row], peers: list[str], repetitions: int, home: Path, seconds: int) -> Iterator[figures.Record]:
    """Every figure of the run, as it is taken."""
    for row in rows:
        lacking = missing_program(row.loader)
        if lacking:
            yield figures.Failure(row.name, peers[0], 0, f"'{lacking}' is not installed")
            continue
        if row.network.is_onnx:
            yield bare_onnxruntime(row, home / "onnx", seconds)
        for repetition in range(repetitions):
            for peer in peers:
                yield from measure_peer(row, peer, repetition, home, seconds)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"which rows; default: all of {', '.join(ROWS)}")
    parser.add_argument("--home", type=Path, default=Path("/tmp/charonia-benchmark"), help="where peers are installed")
    parser.add_argument("--install", nargs="+", choices=peer_names(), metavar="PEER", help="fetch these and end")
    parser.add_argument("--peers", nargs="+", choices=peer_names(), metavar="PEER", help="default: what is installed")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2, help="time for each figure")
    parser.add_argument("--results", type=Path, help="add every figure to this file, a line of JSON each")
    parser.add_argument("--report", action="store_true", help="measure nothing: print the tables of --results")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="draw pictures there")
    options = parser.parse_args()
    unknown = set(options.rows) - set(ROWS)
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    if options.report and options.results is None:
        parser.error("--report needs --results")
    return options


def collect(options: argparse.Namespace, keep: Callable[[str], object]) -> list[figures.Record]:
    """Measure, say each figure as it comes, and keep it."""
    write_all(options.home / "onnx")
    peers = options.peers or [name for name in peer_names() if load_peer(name).is_installed(options.home)]
    rows = [ROWS[name] for name in options.rows] or list(ROWS.values())
    begun, records = time.monotonic(), []
    for record in run(rows, peers, options.repetitions, options.home, options.seconds):
        records.append(record)
        keep(figures.line_of(record) + "\n")
        sys.stderr.write(f"{time.monotonic() - begun:6.0f} s  {_summary(record)}\n")
    return records


def _summary(record: figures.Record) -> str:
    if isinstance(record, figures.Figure):
        return f"{record.row} {record.peer} c={record.concurrency}: {record.rate:,.1f}/s, p50 {record.p50:.3f} ms"
    if isinstance(record, figures.Start):
        return f"{record.row} {record.peer} answers after {record.seconds:.2f} s"
    if isinstance(record, figures.Limit):
        return f"{record.row} bare onnxruntime: {record.rate:,.1f}/s"
    return f"{record.row} {record.peer} FAILED: {record.text}"


def main() -> None:
    options = arguments()
    options.home.mkdir(parents=True, exist_ok=True)
    if options.install:
        for name in options.install:
            load_peer(name).install(options.home)
        return
    if options.report:
        records = figures.read(options.results)
    elif options.results is None:
        records = collect(options, lambda line: None)
    else:
        with options.results.open("a", buffering=1) as file:
            records = collect(options, file.write)
    sys.stdout.write(report.markdown(records))
    if options.plots is not None:
        plots.draw(report.cells_of(records), options.plots)


if __name__ == "__main__":
    main()
