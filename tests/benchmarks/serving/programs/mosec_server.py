"""mosec with one worker: raw bytes in and out."""

import os

import numpy as np
from compute import load
from mosec import Server, Worker

NAME, BATCH = os.environ["BENCHMARK_MODEL"], int(os.environ["BENCHMARK_BATCH"])
SHAPE = tuple(map(int, os.environ["BENCHMARK_SHAPE"].split(",")))


class Model(Worker):
    resp_mime_type = "application/octet-stream"

    def __init__(self):
        super().__init__()
        self.run = load(NAME)

    def deserialize(self, data):
        return np.frombuffer(data, np.float32).reshape(SHAPE)

    def serialize(self, data):
        return np.ascontiguousarray(data).tobytes()

    def forward(self, data):
        return list(self.run(np.stack(data))) if BATCH else self.run(data[None])[0]


if __name__ == "__main__":
    server = Server()
    server.append_worker(Model, num=1, max_batch_size=BATCH or 1, max_wait_time=1 if BATCH else 0)
    server.run()
