"""
Triton's platforms: what a configuration that names no backend means, by its platform, file name or model files.

Rules and texts: Triton's server-side completion, which looks at one version's folder only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InvalidArgumentError

ENSEMBLE = "ensemble"
_PYTHON_RUNTIME = "model.py"

VersionFiles = Mapping[str, bool]
"""Name → whether it is a directory, of everything in the first version's folder; empty where there is none."""


@dataclass(frozen=True, slots=True)
class _ModelKind:
    """One way to recognise a model; `as_directory` is whether `filename` must be one, None where either will do."""

    backend: str
    platform: str
    filename: str
    as_directory: bool | None = None
    found_by_any_platform: tuple[str, ...] = ()

    def lies_in(self, files: VersionFiles) -> bool:
        found = files.get(self.filename)
        return found is not None and self.as_directory in {None, found}

    def named_by(self, config: ModelConfig) -> bool:
        """Whether the configuration's platform or file name means this kind."""
        platforms = {self.platform, *self.found_by_any_platform} - {""}
        return config.platform in platforms or config.default_model_filename == self.filename


_SAVED_MODEL = _ModelKind("tensorflow", "tensorflow_savedmodel", "model.savedmodel", as_directory=True)
_GRAPH_DEF = _ModelKind("tensorflow", "tensorflow_graphdef", "model.graphdef", as_directory=False)
_KINDS = (
    _ModelKind("tensorrt", "tensorrt_plan", "model.plan", as_directory=False),
    _ModelKind("onnxruntime", "onnxruntime_onnx", "model.onnx"),
    _ModelKind("openvino", "", "model.xml"),
    _ModelKind("pytorch", "pytorch_libtorch", "model.pt", as_directory=False, found_by_any_platform=("libtorch",)),
    _ModelKind("pytorch", "torch_aoti", "model.pt2", as_directory=False),
    _ModelKind("python", "", "model.py"),
)
_KINDS_BEYOND_TRITON = tuple(
    _ModelKind(backend, "", filename)
    for backend, filename in (
        ("dali", "model.dali"),
        ("dali", "dali.py"),
        ("fil", "xgboost.json"),
        ("fil", "xgboost.ubj"),
        ("fil", "xgboost.model"),
        ("fil", "checkpoint.tl"),
        ("fil", "model.txt"),
    )
)
"""Files that Triton does not recognise: it refuses models that have nothing else."""

_FILENAME_OF_SUFFIX = {
    ".onnx": ("onnxruntime", "model.onnx"),
    ".plan": ("tensorrt", "model.plan"),
    ".engine": ("tensorrt", "model.plan"),
    ".trt": ("tensorrt", "model.plan"),
    ".xml": ("openvino", "model.xml"),
    ".pt": ("pytorch", "model.pt"),
    ".pth": ("pytorch", "model.pt"),
    ".pt2": ("pytorch", "model.pt2"),
    ".savedmodel": ("tensorflow", "model.savedmodel"),
    ".graphdef": ("tensorflow", "model.graphdef"),
    ".py": ("python", "model.py"),
    ".dali": ("dali", "model.dali"),
    ".ubj": ("fil", "xgboost.ubj"),
    ".tl": ("fil", "checkpoint.tl"),
}
"""What a file with some other name is likely to be, by its last suffix."""

PLATFORMS_OF_BACKEND: Mapping[str, frozenset[str]] = {
    "tensorflow": frozenset({"tensorflow_savedmodel", "tensorflow_graphdef"}),
    "tensorrt": frozenset({"tensorrt_plan"}),
    "onnxruntime": frozenset({"onnxruntime_onnx"}),
    "pytorch": frozenset({"pytorch_libtorch", "torch_aoti"}),
}
"""The platforms that the backends which have any accept; other backends take whatever is given."""


def derive_backend(config: ModelConfig, version_files: VersionFiles) -> ModelConfig:
    """
    `config` with backend, platform and file name filled in as far as they follow from each other and from the files.

    Raises InvalidArgumentError where nothing tells and the model's name has no `.<backend>` either.
    """
    config = _derive_tensorflow(config, version_files)
    if config.backend == "tensorflow" and config.platform:
        return config
    kind = _kind_of(config, version_files)
    if kind is not None:
        # Eager PyTorch models: their code and weights have names of their own.
        filename = "" if kind.backend == "pytorch" and config.runtime == _PYTHON_RUNTIME else kind.filename
        return replace(
            config,
            backend=kind.backend,
            platform=config.platform or kind.platform,
            default_model_filename=config.default_model_filename or filename,
        )
    if config.backend or config.platform or config.default_model_filename:
        return config
    beyond = next((kind for kind in _KINDS_BEYOND_TRITON if kind.lies_in(version_files)), None)
    if beyond is not None and "." not in config.name:
        return replace(config, backend=beyond.backend, default_model_filename=beyond.filename)
    return _derive_from_name(config)


def known_filenames() -> tuple[str, ...]:
    """Every name of a model file that tells its backend, Triton's first."""
    return tuple(kind.filename for kind in (_SAVED_MODEL, _GRAPH_DEF, *_KINDS, *_KINDS_BEYOND_TRITON))


def likely_model_file(filename: str) -> tuple[str, str] | None:
    """Backend and proper name of a model file that has this name or one of its kind; None where neither is known."""
    for kind in (_SAVED_MODEL, _GRAPH_DEF, *_KINDS, *_KINDS_BEYOND_TRITON):
        if kind.filename == filename:
            return kind.backend, filename
    return _FILENAME_OF_SUFFIX.get(filename[filename.rfind(".") :] if "." in filename else "")


def _derive_tensorflow(config: ModelConfig, files: VersionFiles) -> ModelConfig:
    """TensorFlow's backend does not tell its platform, so that is looked for even where the backend is given."""
    platform = config.platform
    if not platform and config.backend in {"", "tensorflow"}:
        for kind in (_SAVED_MODEL, _GRAPH_DEF):  # a graph beside a saved model wins
            by_file = not config.default_model_filename and kind.lies_in(files)
            if by_file or config.default_model_filename == kind.filename:
                platform = kind.platform
    for kind in (_SAVED_MODEL, _GRAPH_DEF):
        if platform == kind.platform:
            return replace(
                config,
                platform=platform,
                backend=config.backend or kind.backend,
                default_model_filename=config.default_model_filename or kind.filename,
            )
    return config


def _kind_of(config: ModelConfig, files: VersionFiles) -> _ModelKind | None:
    """What kind of model this is, if it is a known one: by the backend, else by what is given, else by the files."""
    if config.backend:
        of_backend = [kind for kind in _KINDS if kind.backend == config.backend]
        return next((kind for kind in of_backend if kind.named_by(config)), of_backend[0] if of_backend else None)
    nothing_given = not config.platform and not config.default_model_filename
    return next(
        (kind for kind in _KINDS if kind.named_by(config) or (nothing_given and kind.lies_in(files))),
        None,
    )


def _derive_from_name(config: ModelConfig) -> ModelConfig:
    _, dot, backend = config.name.partition(".")
    if not dot:
        raise InvalidArgumentError(
            f"Invalid model name: Could not determine backend for model '{config.name}' with no backend in model "
            "configuration. Expected model name of the form 'model.<backend_name>'."
        )
    return replace(config, backend=backend, default_model_filename=f"model.{backend}")
