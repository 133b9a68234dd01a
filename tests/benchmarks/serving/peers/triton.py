"""
The real Triton, out of the nvidia-pytriton wheel: server, python backend and the libraries they need.

No other backend is in that wheel, so ONNX models run in the python backend. Its stub embeds `libpython3.11.so`, which
the interpreter in BENCHMARK_PYTHON must have, and takes its packages from the first `python3` on PATH.
"""

import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

from tests.benchmarks.serving.peer import Command, Launch, has_environment, make_environment
from tests.benchmarks.serving.repositories import write_python
from tests.benchmarks.serving.workload import Row, Wire

TITLE = "Triton 2.51"
_WHEEL = "nvidia-pytriton==0.7.0"


def install(home: Path) -> None:
    environment = make_environment(home, "triton", "numpy==1.26.4", "onnxruntime")
    server = home / "tritonserver"
    if server.exists():
        return
    with tempfile.TemporaryDirectory(dir=home) as scratch:
        pip = str(environment / "bin" / "pip")
        subprocess.run([pip, "download", "-q", "--no-deps", "-d", scratch, _WHEEL], check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            wanted = ("pytriton/tritonserver/", "nvidia_pytriton.libs/")
            archive.extractall(scratch, [name for name in archive.namelist() if name.startswith(wanted)])
        unpacked = Path(scratch) / "pytriton" / "tritonserver"
        shutil.move(Path(scratch) / "nvidia_pytriton.libs", unpacked / "libs")
        stub = "triton_python_backend_stub"
        shutil.copy(unpacked / "python_backend_stubs" / "3.11" / stub, unpacked / "backends" / "python")
        for program in (unpacked / "bin" / "tritonserver", unpacked / "backends" / "python" / stub):
            program.chmod(0o755)
        unpacked.rename(server)


def is_installed(home: Path) -> bool:
    return has_environment(home, "triton") and (home / "tritonserver").exists()


def wire(row: Row) -> Wire | None:
    return row.wire


def command(launch: Launch) -> Command:
    repository = launch.folder / "models"
    write_python(repository, launch.row.network, launch.row.batch)
    server = launch.home / "tritonserver"
    print_libraries = "import sysconfig; print(sysconfig.get_config_var('LIBDIR'))"
    libraries = subprocess.check_output([launch.python("triton"), "-c", print_libraries], text=True).strip()
    environment = launch.environment()
    del environment["PYTHONPATH"]
    environment["PATH"] = f"{launch.home / 'triton' / 'bin'}:{os.environ['PATH']}"
    environment["LD_LIBRARY_PATH"] = f"{server / 'libs'}:{libraries}"
    arguments = [
        str(server / "bin" / "tritonserver"),
        f"--model-repository={repository}",
        f"--backend-directory={server / 'backends'}",
        f"--http-port={launch.http_port}",
        f"--grpc-port={launch.grpc_port}",
        f"--metrics-port={launch.metrics_port}",
    ]
    return Command(arguments, environment)
