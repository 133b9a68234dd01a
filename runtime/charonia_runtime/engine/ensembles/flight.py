"""One request on its way through an ensemble: steps submitted as their inputs come, answers sent as they are made."""

import time
from collections.abc import Callable

from charonia_runtime.core.device import DeviceBuffer
from charonia_runtime.core.errors import (
    CancelledError,
    InferenceError,
    InternalError,
    InvalidArgumentError,
    UnavailableError,
)
from charonia_runtime.core.request import (
    InferenceRequest,
    InferenceResponse,
    ResponseFlow,
)
from charonia_runtime.core.statistics import ExecutionTimes, FailureReason
from charonia_runtime.engine.ensembles.crew import Crew, Member
from charonia_runtime.engine.ensembles.delivery import Delivery
from charonia_runtime.engine.ensembles.graph import Plan
from charonia_runtime.engine.ensembles.propagation import Lineage, Progress, Propagation, StepRun, Value
from charonia_runtime.engine.ensembles.sequences import sequence_of, sequence_parameters


class Flight:
    """
    From `start` until `landed` is called: then nothing of the request runs any more.

    Its client has its final answer by then. An error goes out at once, except that what decoupled steps sent before it
    goes first; steps whose results nobody will see are cancelled.
    """

    __slots__ = (
        "_computed", "_crew", "_delivery", "_failure", "_held", "_landed", "_over", "_propagation", "_regions",
        "_running", "_start_ns", "_waiting", "_waiting_bytes", "request",
    )  # fmt: skip

    def __init__(self, request: InferenceRequest, plan: Plan, crew: Crew, landed: Callable[["Flight"], None]) -> None:
        self.request = request
        self._crew = crew
        self._landed = landed
        self._propagation = Propagation(plan)
        self._running: dict[StepRun, InferenceRequest | None] = {}
        """Everything that has not ended; without a request while a limit holds it back."""
        self._waiting = 0
        """How much of it a limit holds back."""
        self._waiting_bytes = 0
        """Bytes that steps made for these."""
        self._held: list[Callable[[], None]] = []
        """Decoupled steps that wait until their last responses were taken on."""
        self._computed = [0, 0, 0]
        """Nanoseconds that steps spent on inputs, on computing and on outputs."""
        self._start_ns = 0
        self._failure: tuple[Lineage, InferenceError] | None = None
        """The earliest error so far, and where it happened."""
        self._over = False
        """Whether the final answer is sent, or on its way."""
        self._delivery = Delivery(request, crew.finisher, self._land_if_done)
        self._regions = [output.name for output in request.outputs if isinstance(output.memory, DeviceBuffer)]

    # --- life ---

    def start(self) -> None:
        """Submit the steps that need the ensemble's inputs only. The sink hears nothing before this returns."""
        self._start_ns = time.monotonic_ns()
        given = self.request.inputs
        inputs = {name: self._crew.input(name, given.get(name)) for name in self._crew.inputs}
        self._advance(self._propagation.begin(inputs))
        self._delivery.release()

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
            self._step_failed(run, response.error)
        elif response.flag_only or self._is_doomed(run):
            self._finish_if_done()
        elif self._member(run).decoupled and self._waiting_bytes > self._crew.most_waiting_bytes:
            self._step_failed(run, self._too_far_ahead(run))
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
        self._waiting_bytes -= run.made_bytes
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
            if self._over or self._is_doomed(run):
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
            self._running[run] = None
            self._waiting += 1
            self._waiting_bytes += run.made_bytes

    def _submit(self, run: StepRun) -> None:
        member = self._member(run)
        request = self._step_request(run, member)
        self._running[run] = request
        if self.request.trace is not None:
            request.trace = self.request.trace.spawn(request.model_name)
            request.trace.follow(request, ensemble=bool(member.copy.composing))
        try:
            member.copy.submit(request)
        except InferenceError as error:
            if request.trace is not None:
                request.trace.refused()
            self._end_run(run)
            if not self._over:
                self._step_failed(run, error)

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
            member.outputs_for(self._regions),
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
        sequence = sequence_of(response) or run.sequence
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
        """Those whose results nobody will see; each one once."""
        for run, request in list(self._running.items()):
            unwanted = self._over or self.request.cancelled or self._is_doomed(run)
            if unwanted and request is not None and not request.cancelled and run in self._running:
                request.cancelled = True
                self._member(run).copy.cancel(request)

    def _drop_waiting(self) -> int:
        """Give up the step runs that limits hold back; how many there were."""
        dropped = [run for run, request in self._running.items() if request is None] if self._waiting else []
        for run in dropped:
            limit = self._member(run).limit
            if limit is not None:
                limit.forget(self)
            del self._running[run]
            self._propagation.end(run)
        self._waiting = self._waiting_bytes = 0
        self._resume_held()
        return len(dropped)

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
        try:
            outputs = [tensor for name, value in values if (tensor := crew.output(name, value)) is not None]
        except InternalError as error:
            self._fail(error)
            return
        final = not crew.decoupled or (self._propagation.running == 0 and self._failure is None)
        made = [value.sequence for _, value in values if value.tensor is not None and not value.given]
        parameters = sequence_parameters(made, self.request.sequence) if made else {}
        self._send(
            InferenceResponse(
                self.request.model_name, crew.version, self.request.id, outputs, parameters, final=final
            )
        )  # fmt: skip

    def _finish_if_done(self) -> None:
        """Nothing runs any more and no answer was the last one."""
        if self._failure is not None and not self._over:
            self._fail_if_due()
        elif self._propagation.running or self._over:
            self._land_if_done()
        elif self._crew.decoupled:
            request = self.request
            self._send(InferenceResponse(request.model_name, self._crew.version, request.id, flag_only=True))
            self._land_if_done()
        else:
            deadlock = "unexpected deadlock, at least one output is not set while no more ensemble steps can be made"
            self._fail(self._named(InvalidArgumentError(deadlock)))

    def _step_failed(self, run: StepRun, error: InferenceError) -> None:
        lineage = run.next_lineage(decoupled=self._member(run).decoupled)
        if self._failure is None or lineage < self._failure[0]:
            self._failure = (lineage, error)
        self._cancel_steps()
        self._fail_if_due()

    def _too_far_ahead(self, run: StepRun) -> InferenceError:
        model, most = self._member(run).copy.config.name, self._crew.most_waiting_bytes
        return UnavailableError(
            f"model '{model}' sent a response while more than {most} bytes of those before it waited for steps that "
            "'max_inflight_requests' holds back (--stream-buffer-size); it should send them within 'execute', where it "
            "is held back itself"
        )

    def _fail_if_due(self) -> None:
        """Unless something from before the error still runs."""
        if self._failure is not None and not self._over and all(self._is_doomed(run) for run in self._running):
            self._fail(self._named(self._failure[1]))

    def _is_doomed(self, run: StepRun) -> bool:
        """Whether an error has happened before, or upstream of, everything that comes of `run`."""
        if self._failure is None:
            return False
        failed, lineage = self._failure[0], run.lineage
        return lineage >= failed or lineage == failed[: len(lineage)]

    def _named(self, error: InferenceError) -> InferenceError:
        """An error of a step, in Triton's words; one that tells of a cancelled request stays as it is."""
        if self.request.cancelled and isinstance(error, CancelledError):
            return error
        return error.with_prefix(f"in ensemble '{self._crew.name}', ")

    def _fail(self, error: InferenceError) -> None:
        """Answer with `error`; nothing else will be sent."""
        request, statistics = self.request, self._crew.statistics
        cancelled = request.cancelled and isinstance(error, CancelledError)
        statistics.record_failure(
            time.monotonic_ns() - request.arrival_ns, FailureReason.CANCELED if cancelled else FailureReason.OTHER
        )
        self._over = True
        self._delivery.send(InferenceResponse(request.model_name, self._crew.version, request.id, error=error))
        self._drop_waiting()
        self._cancel_steps()
        self._land_if_done()

    def _send(self, response: InferenceResponse) -> None:
        if response.final:
            self._over = True
            self._count()
        self._delivery.send(response)

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

    def _land_if_done(self) -> None:
        if self._over and self._delivery.empty and not self._propagation.running:
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
