"""
What is asked of both servers. A scenario gives back all that its clients hear, as JSON: the same, whoever answers.

Nothing is timed: requests are sent one by one, each when the server counts the last one as waiting, and what they wait
for is held by the model until the scenario opens its gate.
"""

import http.client
import json
import re
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

FLAGS = ("--cache-config=local,size=1048576",)
_PATIENCE_SECONDS = 20


class Conversation:
    """A client that sends many requests at the same time. `folder` is the one that the models were written to."""

    def __init__(self, address: str, metrics: str, folder: Path) -> None:
        self._address = address
        self._metrics = metrics
        self._gate = folder / "gate"
        self._threads = ThreadPoolExecutor(16)
        self._doors = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Open every gate: nothing waits for ever, even where a scenario failed."""
        for door in range(1, self._doors + 1):
            (self._gate / str(-door)).touch()
        self._threads.shutdown()

    def ask(
        self, model: str, *values: int, outputs: tuple[str, ...] = (), request_id: str = "", **parameters: Any
    ) -> Any:
        """The answer to a request with a row for each value."""
        return self.begin(model, *values, outputs=outputs, request_id=request_id, **parameters).result(
            _PATIENCE_SECONDS
        )

    def begin(
        self, model: str, *values: int, outputs: tuple[str, ...] = (), request_id: str = "", **parameters: Any
    ) -> Future[Any]:
        """Send a request; what comes of it is there later."""
        body: dict[str, Any] = {"id": request_id, "parameters": parameters}
        shape = [len(values)] if model in {"single", "to_batches", "stream"} else [len(values), 1]
        body["inputs"] = [{"name": "VALUE", "datatype": "INT32", "shape": shape, "data": list(values)}]
        if outputs:
            body["outputs"] = [{"name": name} for name in outputs]
        return self._threads.submit(self._infer, model, body)

    def queue(self, model: str, *values: int, **fields: Any) -> Future[Any]:
        """Send a request and return when it waits."""
        before = self.waiting(model)
        future = self.begin(model, *values, **fields)
        self._until(lambda: self.waiting(model) > before or future.done())
        return future

    def occupy(self, model: str, **fields: Any) -> "Occupation":
        """Keep the model busy with a request."""
        self._doors += 1
        door = self._gate / str(-self._doors)
        occupation = Occupation(self.begin(model, -self._doors, **fields), door)
        self._until(door.with_name(f"{door.name}-reached").exists)
        return occupation

    def stream(self, model: str, value: int) -> list[Any]:
        """Every response of a decoupled model, what models saw left out."""
        _, text = self._request("POST", f"/v2/models/{model}/generate_stream", json.dumps({"VALUE": value}))
        events = [json.loads(line.removeprefix("data: ")) for line in text.decode().splitlines() if line]
        return [{name: said for name, said in event.items() if name != "SEEN"} for event in events]

    def is_ready(self) -> bool:
        try:
            return self._request("GET", "/v2/health/ready")[0] == 200
        except OSError:
            return False

    def waiting(self, model: str) -> int:
        """Requests that are accepted and do not run."""
        with closing(http.client.HTTPConnection(self._metrics, timeout=_PATIENCE_SECONDS)) as connection:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        found = re.search(
            rf'^nv_inference_pending_request_count{{model="{model}",version="1"}} (\S+)$', text, re.MULTILINE
        )
        assert found is not None, model
        return int(float(found[1]))

    def statistics(self, model: str) -> dict[str, Any]:
        """The counts that do not depend on time."""
        _, body = self._request("GET", f"/v2/models/{model}/stats")
        statistics = json.loads(body)["model_stats"][0]
        counts = {name: one["count"] for name, one in statistics["inference_stats"].items()}
        return {
            "inferences": statistics["inference_count"], "executions": statistics["execution_count"], **counts,
        }  # fmt: skip

    def _infer(self, model: str, body: dict[str, Any]) -> Any:
        status, text = self._request("POST", f"/v2/models/{model}/infer", json.dumps(body))
        answer = json.loads(text)
        if status != 200:
            return {"status": status, "error": answer["error"]}
        said = {output["name"]: output["data"] for output in answer["outputs"]}
        if "SEEN" in said:
            said["SEEN"] = json.loads(said["SEEN"][0])
        return {"said": said, "shapes": {output["name"]: output["shape"] for output in answer["outputs"]}} | (
            {"parameters": answer["parameters"]} if "parameters" in answer else {}
        )

    def _request(self, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
        with closing(http.client.HTTPConnection(self._address, timeout=_PATIENCE_SECONDS)) as connection:
            connection.request(method, path, body)
            response = connection.getresponse()
            return response.status, response.read()

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, "the server does not do what the scenario waits for"
            time.sleep(0.005)


class Occupation:
    """A request that keeps its model busy until it is ended."""

    def __init__(self, future: Future[Any], door: Path) -> None:
        self._future = future
        self._door = door

    def end(self) -> Any:
        """Let the model go on; the request's answer."""
        self._door.touch()
        return self._future.result(_PATIENCE_SECONDS)


def answers(*futures: Future[Any]) -> list[Any]:
    return [future.result(_PATIENCE_SECONDS) for future in futures]


# --- no scheduler ---


def plain(talk: Conversation) -> Any:
    """Requests run alone, whatever waits and however large batches may be."""
    busy = talk.occupy("plain")
    waiting = [talk.queue("plain", *range(rows)) for rows in (1, 4, 2)]
    return [busy.end(), *answers(*waiting), talk.ask("plain", 1, 2, 3, 4, 5), talk.ask("plain", 1, outputs=("OUT",))]


# --- dynamic batching ---


def batching(talk: Conversation) -> Any:
    """What waits runs together as far as it fits."""
    busy = talk.occupy("batching")
    waiting = [talk.queue("batching", *range(rows)) for rows in (1, 2, 1, 4, 3, 2, 1)]
    return [busy.end(), *answers(*waiting), talk.statistics("batching")]


def preferring(talk: Conversation) -> Any:
    """With a delay, batches of other sizes than the preferred one are held back; more rows than that go at once."""
    three = [talk.queue("preferring", 1), talk.queue("preferring", 2), talk.begin("preferring", 3)]
    made = answers(*three)
    return [*made, talk.ask("preferring", 1, 2, 3), talk.ask("preferring", 1, 2, 3, 4)]


def levels(talk: Conversation) -> Any:
    """Urgent levels first; two of the first, for the real server takes what waits first out of the queue at once."""
    busy = talk.occupy("levels")
    first = [talk.queue("levels", number, priority=1) for number in (100, 101)]
    priorities = (3, 0, 1, 2, 1, 99, 3)
    waiting = [talk.queue("levels", number, priority=priority) for number, priority in enumerate(priorities)]
    busy.end()
    return answers(*first, *waiting)


def limited(talk: Conversation) -> Any:
    """Who finds the queue full is refused: of nine three at least, whatever the real server has taken out of it."""
    busy = talk.occupy("limited")
    waiting = [talk.queue("limited", number, request_id=str(number)) for number in range(9)]
    refused = [future.result(_PATIENCE_SECONDS)["error"] for future in waiting if future.done()]
    busy.end()
    return [*sorted(refused)[-3:], talk.statistics("limited")["fail"], *answers(waiting[0])]


def rejecting(talk: Conversation) -> Any:
    """Who waits for longer than the policy says is told so."""
    busy = talk.occupy("rejecting")
    waiting = [talk.queue("rejecting", number) for number in range(5)]
    time.sleep(0.2)
    busy.end()
    return [answers(*waiting)[-1], talk.statistics("rejecting")["fail"] > 0, talk.ask("rejecting", 9)["said"]["OUT"]]


def overriding(talk: Conversation) -> Any:
    """A request's own timeout counts where it is the smaller one."""
    busy = talk.occupy("overriding")
    waiting = [talk.queue("overriding", number) for number in range(4)]
    waiting += [talk.queue("overriding", 8, timeout=90_000_000), talk.begin("overriding", 7, timeout=10_000)]
    time.sleep(0.2)
    busy.end()
    return answers(*waiting)[4:]


def putting_off(talk: Conversation) -> Any:
    """Those that are late are not refused but run last."""
    busy = talk.occupy("putting_off")
    waiting = [talk.queue("putting_off", number) for number in range(4)]
    waiting += [talk.queue("putting_off", 7, timeout=10_000), talk.queue("putting_off", 8)]
    time.sleep(0.2)
    busy.end()
    return answers(*waiting)


# --- sequences ---


def step(number: int | str, *, start: bool = False, end: bool = False) -> dict[str, Any]:
    return {"sequence_id": number, "sequence_start": start, "sequence_end": end}


def direct(talk: Conversation) -> Any:
    """Each sequence has its place in every batch; places that have nothing to run are filled up to the last one."""
    heard = [talk.ask("direct", 1, **step(11, start=True)), talk.ask("direct", 2, **step(12, start=True))]
    busy = talk.occupy("direct", **step(11))
    waiting = [
        talk.queue("direct", 3, **step(12)), talk.queue("direct", 4, **step(12, end=True)),
        talk.queue("direct", 5, **step(11, end=True)), talk.queue("direct", 6, **step(13, start=True)),
        talk.queue("direct", 7, **step(14, start=True, end=True)), talk.queue("direct", 8, **step(13, end=True)),
    ]  # fmt: skip
    heard += [busy.end(), *answers(*waiting)]
    heard += [talk.ask("direct", 9, **step(15, start=True, end=True)), talk.statistics("direct")]
    return heard


def refusals(talk: Conversation) -> Any:
    """What no sequence batcher takes."""
    return [
        talk.ask("direct", 1, **step(21)),
        talk.ask("direct", 1, **step(0, start=True)),
        talk.ask("direct", 1),
        talk.ask("direct", 1, 2, **step(22, start=True)),
        talk.ask("direct", 1, outputs=("NONE",), **step(24, start=True)),
        talk.ask("direct", 1, **step(21, end=True)),
    ]


def started_twice(talk: Conversation) -> Any:
    """A start in the midst of a sequence begins it anew, an end alone ends it."""
    return [
        talk.ask("direct", 1, **step(31, start=True)),
        talk.ask("direct", 2, **step(31, start=True)),
        talk.ask("direct", 3, **step(31, end=True)),
        talk.ask("direct", 4, **step(31)),
    ]


def waiting_for_a_place(talk: Conversation) -> Any:
    """More sequences than places: those without one wait until another is over, each with all of its requests."""
    heard = [talk.ask("direct", 1, **step(number, start=True)) for number in (41, 42)]
    waiting = [talk.queue("direct", 5, **step(43, start=True)), talk.queue("direct", 6, **step(43, end=True))]
    heard.append(talk.ask("direct", 2, **step(41)))
    heard.append([future.done() for future in waiting])
    heard.append(talk.ask("direct", 3, **step(41, end=True)))
    heard += answers(*waiting)
    heard.append(talk.ask("direct", 4, **step(42, end=True)))
    return heard


def out_of_patience(talk: Conversation) -> Any:
    """Who waits for a place has a timeout; its sequence is over then."""
    heard = [talk.ask("direct", 1, **step(number, start=True)) for number in (51, 52)]
    waiting = [talk.queue("direct", 5, timeout=50_000, **step(53, start=True)), talk.queue("direct", 6, **step(53))]
    heard += answers(*waiting)
    heard += [talk.ask("direct", 1, **step(number, end=True)) for number in (51, 52)]
    heard.append(talk.ask("direct", 7, **step(53)))
    return heard


def oldest(talk: Conversation) -> Any:
    """The requests of different sequences run together, the oldest first."""
    heard = [talk.ask("oldest", 1, **step(number, start=True)) for number in (61, 62, 63, 64)]
    busy = talk.occupy("oldest", **step(61))
    waiting = [talk.queue("oldest", value, **step(value)) for value in (63, 64, 62)]
    heard += [busy.end(), *answers(*waiting)]
    heard += [talk.ask("oldest", 1, **step(number, end=True)) for number in (61, 62, 63, 64)]
    return [*heard, talk.statistics("oldest")]


def stateful(talk: Conversation) -> Any:
    """A new sequence has the states that the configuration says."""
    return [
        talk.ask("stateful", 1, **step(71, start=True)),
        talk.ask("stateful", 2, **step(71)),
        talk.ask("stateful", 3, **step(71, end=True)),
    ]


def iterative(talk: Conversation) -> Any:
    """The model asks for a request again and again; nobody numbers the sequence."""
    return [talk.ask("iterative", 1), talk.ask("iterative", 2)]


# --- ensembles ---


def ensembles(talk: Conversation) -> Any:
    """Steps one after the other, side by side, in one another, between models with and without batches."""
    heard = [talk.ask(name, 1, 2, request_id=name) for name in ("chain", "nested", "branches")]
    heard += [talk.ask("to_batches", 1), talk.ask("from_batches", 1), talk.ask("from_batches", 1, 2)]
    heard += [talk.ask("branches", 1, outputs=("OUT",)), talk.ask("chain", 1, 2, outputs=("OUT",))]
    heard += [talk.statistics(name) for name in ("chain", "nested", "branches")]
    return heard


def failing_ensembles(talk: Conversation) -> Any:
    """Who fails where is told."""
    heard = [talk.ask(name, 666, request_id="7") for name in ("chain", "nested", "branches")]
    heard += [talk.ask("chain", 665), talk.ask("chain", 1, 2, 3, 4, 5), talk.ask("chain", 1, outputs=("NONE",))]
    return heard


def streams(talk: Conversation) -> Any:
    """Each response of a decoupled step goes its own way through the rest; an error of it ends the ensemble."""
    heard: list[Any] = [talk.stream("repeating", value) for value in (0, 1, 3, 15)]
    heard += [talk.stream("stream", value) for value in (1, 3)]
    heard += [talk.ask("stream", 3), talk.statistics("stream")["executions"] > 0]
    return heard


def sequences_in_ensembles(talk: Conversation) -> Any:
    """A step's sequence is the ensemble's."""
    return [
        talk.ask("sequences", 1, **step(81, start=True)),
        talk.ask("sequences", 2, **step(81)),
        talk.ask("sequences", 3, **step(81, end=True)),
        talk.ask("sequences", 4),
        talk.ask("sequences", 5, **step(82)),
        talk.ask("chain", 5, **step(83, start=True)),
    ]


# --- cache ---


def cached(talk: Conversation) -> Any:
    """The same inputs are computed once; the answer has the id of who asks."""
    heard = [
        talk.ask("cached", *values, request_id=str(number))
        for number, values in enumerate([(1,), (1,), (2,), (1, 2), (1,)])
    ]
    heard += [talk.ask("cached_chain", 1), talk.ask("cached_chain", 1)["said"]]
    heard += [talk.ask("cached", 1, 2, 3, 4, 5)]
    heard += [talk.statistics("cached"), talk.statistics("cached_chain")]
    return heard


SCENARIOS = (
    plain, batching, preferring, levels, limited, rejecting, overriding, putting_off,
    direct, refusals, started_twice, waiting_for_a_place, out_of_patience, oldest, stateful, iterative,
    ensembles, failing_ensembles, streams, sequences_in_ensembles, cached,
)  # fmt: skip
