"""The environment variables of Triton's users, and what is made of senseless ones."""

from charonia_runtime.environment import Environment


def test_an_empty_environment():
    environment = Environment.read({"TRITON_SERVER_CPU_ONLY": "1"})

    assert environment == Environment()


def test_every_variable():
    environment = Environment.read(
        {
            "TRITON_SERVER_CPU_ONLY": "1",
            "TRITON_SERVER_ESCAPE_LOG_MESSAGES": "0",
            "TRITON_PARALLEL_INSTANCE_LOADING": "0",
            "TRITONSERVER_DELAY_SCHEDULER": "12",
            "TRITONSERVER_BACKLOG_DELAY_SCHEDULER": "3",
            "TRITONSERVER_SERVER_DELAY_GRPC_RESPONSE_SEC": "2",
            "TRITONCACHE_REDIS_PASSWORD": "secret",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
    )

    assert environment == Environment(
        quote_log_messages=False,
        parallel_instances=False,
        scheduler_waits_for=12,
        backlog_waits_for=3,
        grpc_delay_seconds=2.0,
        redis_credentials={"password": "secret"},
        span_batches={"bsp_schedule_delay": "100"},
    )


def test_values_that_make_no_sense_are_as_good_as_none():
    senseless = dict.fromkeys(
        (
            "TRITON_PARALLEL_INSTANCE_LOADING",
            "TRITONSERVER_DELAY_SCHEDULER",
            "TRITON_SERVER_ESCAPE_LOG_MESSAGES",
        ),
        "x",
    )

    assert Environment.read({"TRITON_SERVER_CPU_ONLY": "1", **senseless}) == Environment()
