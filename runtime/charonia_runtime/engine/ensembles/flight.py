"""One request on its way through an ensemble: steps submitted as their inputs come, answers sent as they are made."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from charonia_runtime.core.errors import CancelledError, InferenceError, InvalidArgumentError
from charonia_runtime.core.request import (
    InferenceRequest,
    InferenceResponse,
    ParameterValue,
    ResponseFlow,
    SequenceId,
)
from charonia_runtime.core.statistics import ExecutionTimes, FailureReason
from charonia_runtime.engine.ensembles.crew import Crew, Member
from charonia_runtime.engine.ensembles.graph import Plan
from charonia_runtime.engine.ensembles.propagation import Progress, Propagation, StepRun, Value

logger = logging.getLogger(__name__)

_NO_SEQUENCE: Mapping[str, ParameterValue] = {"sequence_id": 0, "sequence_start": False, "sequence_end": False}
_SEQUENCE_PARAMETERS = _NO_SEQUENCE.keys()


class Flight:
    """
    From `start` until `landed` is called: then nothing of the request runs any more.

    Its client gets its final answer at the latest then; an error goes out at once, while steps that run are cancelled.
    """

    __slots__ = (
        "_computed", "_crew", "_delivery", "_finishes", "_held", "_landed", "_loop", "_over", "_propagation",
        "_running", "_start_ns", "_starting", "_waiting", "request",
    )  # fmt: skip

    def __init__(self, request: InferenceRequest, plan: Plan, crew: Crew, landed: Callable[["Flight"], None]) -> None:
        self.request = request
        self._crew = crew
        self._landed = landed
        self._loop = asyncio.get_running_loop()
        self._propagation = Propagation(plan)
        self._running: dict[StepRun, InferenceRequest] = {}
        self._waiting = 0
        """Step runs that a limit holds back."""
        self._held: list[Callable[[], None]] = []
        """Decoupled steps that wait until their last responses were taken on."""
        self._computed = [0, 0, 0]
        """Nanoseconds that steps spent on inputs, on computing and on outputs."""
        self._start_ns = 0
        self._starting = True
        self._over = False
        """Whether the final answer is sent, or on its way."""
        self._finishes = any(output.classes or output.memory is not None for output in request.outputs)
        """Whether the client wants something else of its outputs than the tensors."""
        self._delivery: asyncio.Task[None] | None = None
        """Sends the last answer that had to be finished in a thread; all later ones wait for it."""

    # --- life ---

    def start(self) -> None:
        """Submit the steps that need the ensemble's inputs only. The sink hears nothing before this returns."""
        self._start_ns = time.monotonic_ns()
        given, batched = self.request.inputs, self._crew.batches
        inputs = {name: Value(given.get(name), batched=batched, given=True) for name in self._crew.inputs}
        self._advance(self._propagation.begin(inputs))
        self._starting = False

    def cancel(self) -> None:
        """Steps that wait are dropped, those that run are told, no other starts."""
        self.request.cancelled = True
        if self._drop_waiting() and not self._over:
            self._fail(CancelledError(""))
        self._cancel_steps()

    def responded(self, run: StepRun, response: InferenceResponse) -> None:
        """A step answers: once, unless it is decoupled."""
        if response.final:
            self._end_run(run)
        if self._over:
            self._land_if_done()
        elif response.error is not None:
            self._fail(response.error)
        elif response.flag_only:
            self._finish_if_done()
        else:
            values = self._values(run, response)
            self._advance(self._propagation.receive(run, values, decoupled=self._member(run).decoupled))

    def computed(self, times: ExecutionTimes) -> None:
        """A step was executed."""
        total = self._computed
        total[0] += times.inputs_ready - times.start
        total[1] += times.outputs_ready - times.inputs_ready
        total[2] += times.end - times.outputs_ready

    def admit(self, run: StepRun) -> None:
        """A limit lets a step run that had to wait."""
        self._waiting -= 1
        self._submit(run)
        self._resume_held()

    def hold(self, resume: Callable[[], None]) -> None:
        """Call `resume` when nothing that a decoupled step has sent waits for a limit."""
        if self._waiting and not self._over:
            self._held.append(resume)
        else:
            resume()

    # --- steps ---

    def _advance(self, progress: Progress) -> None:
        for answer in progress.answers:
            self._answer(answer)
        for index, run in enumerate(progress.runs):
            if self.request.cancelled and not self._over:
                self._fail(CancelledError(""))
            if self._over:
                for dropped in progress.runs[index:]:
                    self._propagation.end(dropped)
                break
            self._launch(run)
        self._finish_if_done()

    def _launch(self, run: StepRun) -> None:
        limit = self._member(run).limit
        if limit is None or limit.enter(self, run):
            self._submit(run)
        else:
            self._waiting += 1

    def _submit(self, run: StepRun) -> None:
        member = self._member(run)
        request = self._step_request(run, member)
        self._running[run] = request
        try:
            member.copy.submit(request)
        except InferenceError as error:
            self._end_run(run)
            if not self._over:
                self._fail(error)

    def _step_request(self, run: StepRun, member: Member) -> InferenceRequest:
        request = self.request
        inputs = {}
        for name, value in run.inputs:
            tensor = member.input(name, value)
            if tensor is not None:
                inputs[name] = tensor
        flow = request.flow
        if member.decoupled and member.limit is not None:
            flow = _ProducerFlow(self, flow)
        return InferenceRequest(
            member.copy.config.name,
            inputs,
            _StepSink(self, run),
            member.copy.version,
            request.id,
            member.outputs,
            request.parameters,
            run.sequence or request.sequence,
            request.priority,
            request.timeout_us,
            flow=flow,
            callers=request.callers,
            executed=self.computed,
        )

    def _values(self, run: StepRun, response: InferenceResponse) -> dict[str, Value]:
        """What a step's response gives to the ensemble's tensors."""
        batched = self._member(run).batches
        sequence = _sequence_of(response) or run.sequence
        names = run.step.outputs
        return {
            names[tensor.name]: Value(tensor, batched=batched, sequence=sequence)
            for tensor in response.outputs
            if tensor.name in names
        }

    def _end_run(self, run: StepRun) -> None:
        del self._running[run]
        self._propagation.end(run)
        limit = self._member(run).limit
        if limit is not None:
            limit.leave()

    def _cancel_steps(self) -> None:
        for run, request in list(self._running.items()):
            if run in self._running:
                self._member(run).copy.cancel(request)

    def _drop_waiting(self) -> int:
        """Give up the step runs that limits hold back; how many there were."""
        dropped = self._waiting
        if dropped:
            for member in self._crew.members:
                if member.limit is not None:
                    member.limit.forget(self)
            self._propagation.running -= dropped
            self._waiting = 0
        self._resume_held()
        return dropped

    def _resume_held(self) -> None:
        if not self._waiting:
            held, self._held = self._held, []
            for resume in held:
                resume()

    def _member(self, run: StepRun) -> Member:
        return self._crew.members[run.step.index]

    # --- answers ---

    def _answer(self, values: list[tuple[str, Value]]) -> None:
        """All requested outputs of one lineage are there."""
        crew = self._crew
        outputs = [tensor for name, value in values if (tensor := crew.output(name, value)) is not None]
        final = not crew.decoupled or self._propagation.running == 0
        made = [value for _, value in values if value.tensor is not None and not value.given]
        parameters = _sequence_parameters(made, self.request.sequence) if made else {}
        self._send(
            InferenceResponse(
                self.request.model_name, crew.version, self.request.id, outputs, parameters, final=final
            )
        )  # fmt: skip

    def _finish_if_done(self) -> None:
        """Nothing runs any more and no answer was the last one."""
        if self._propagation.running or self._over:
            self._land_if_done()
        elif self._crew.decoupled:
            request = self.request
            self._send(InferenceResponse(request.model_name, self._crew.version, request.id, flag_only=True))
            self._land_if_done()
        else:
            self._fail(
                InvalidArgumentError(
                    "unexpected deadlock, at least one output is not set while no more ensemble steps can be made"
                )
            )

    def _fail(self, error: InferenceError) -> None:
        request, statistics = self.request, self._crew.statistics
        cancelled = request.cancelled and isinstance(error, CancelledError)
        if not cancelled:
            error = error.with_prefix(f"in ensemble '{self._crew.name}', ")
        statistics.record_failure(
            time.monotonic_ns() - request.arrival_ns, FailureReason.CANCELED if cancelled else FailureReason.OTHER
        )
        self._over = True
        self._deliver(InferenceResponse(request.model_name, self._crew.version, request.id, error=error))
        self._drop_waiting()
        self._cancel_steps()
        self._land_if_done()

    def _send(self, response: InferenceResponse) -> None:
        if response.final:
            self._over = True
            self._count()
        self._deliver(response)

    def _count(self) -> None:
        request, statistics = self.request, self._crew.statistics
        now_ns = time.monotonic_ns()
        inputs_ready = self._start_ns + self._computed[0]
        outputs_ready = inputs_ready + self._computed[1]
        times = ExecutionTimes(self._start_ns, inputs_ready, outputs_ready, outputs_ready + self._computed[2])
        statistics.record_execution(request.batch_size, times, time.time_ns() // 1_000_000)
        statistics.record_successes(
            1, request.batch_size, now_ns - request.arrival_ns, self._start_ns - request.queued_ns, times
        )
        if statistics.observer is not None:
            statistics.observer(request.arrival_ns, request.queued_ns, times)
        if request.executed is not None:
            request.executed(times)

    def _deliver(self, response: InferenceResponse) -> None:
        """Send in order; what takes copying or sorting is done in a thread first."""
        if self._delivery is not None or (self._finishes and response.outputs):
            self._delivery = asyncio.create_task(self._deliver_finished(response, self._delivery))
        elif self._starting:
            self._loop.call_soon(_send, self.request, response)
        else:
            _send(self.request, response)

    async def _deliver_finished(self, response: InferenceResponse, before: asyncio.Task[None] | None) -> None:
        answers = [(self.request, response)]
        if response.outputs:
            await asyncio.to_thread(self._crew.finisher.finish, answers)
        if before is not None:
            await before
        _send(*answers[0])
        if self._delivery is asyncio.current_task():
            self._delivery = None
            self._land_if_done()

    def _land_if_done(self) -> None:
        if self._over and self._delivery is None and not self._propagation.running:
            self._landed(self)


class _StepSink:
    """Takes the responses of one step run to its flight."""

    __slots__ = ("_flight", "_run")

    def __init__(self, flight: Flight, run: StepRun) -> None:
        self._flight = flight
        self._run = run

    def send(self, response: InferenceResponse) -> None:
        self._flight.responded(self._run, response)


class _ProducerFlow:
    """Holds a decoupled step back while what it has sent waits for a limit, or its client reads slowly."""

    __slots__ = ("_client", "_flight")

    def __init__(self, flight: Flight, client: ResponseFlow | None) -> None:
        self._flight = flight
        self._client = client

    def when_ready(self, resume: Callable[[], None]) -> None:
        client = self._client
        self._flight.hold(resume if client is None else lambda: client.when_ready(resume))


def _sequence_of(response: InferenceResponse) -> SequenceId | None:
    """The sequence that a model puts its response into by parameters; None where it does not."""
    given = response.parameters
    if not given or not _SEQUENCE_PARAMETERS & given.keys():
        return None
    identity = given.get("sequence_id", 0)
    return SequenceId(
        identity if isinstance(identity, int | str) else 0,
        start=given.get("sequence_start") is True,
        end=given.get("sequence_end") is True,
    )


def _sequence_parameters(values: list[Value], own: SequenceId | None) -> Mapping[str, ParameterValue]:
    """Every answer says which sequence its outputs belong to; the last output's where they differ."""
    sequence = own
    for value in values:
        sequence = value.sequence or sequence
    if sequence is None:
        return _NO_SEQUENCE
    return {
        "sequence_id": sequence.correlation_id,
        "sequence_start": sequence.start,
        "sequence_end": sequence.end,
    }


def _send(request: InferenceRequest, response: InferenceResponse) -> None:
    """A sink that breaks must not take the ensemble along."""
    try:
        request.sink.send(response)
    except Exception:
        logger.exception("model '%s': delivering a response failed", request.model_name)
