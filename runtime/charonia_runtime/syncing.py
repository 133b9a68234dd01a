"""`charonia sync`: copy a model repository to this machine, once or again and again."""

import logging
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from charonia_runtime.core.frontend import OptionError, option
from charonia_runtime.flags import Flags, Group, UsageError
from charonia_runtime.storage.access import FIELDS, Access, CredentialsFolder
from charonia_runtime.storage.download import DownloadOptions
from charonia_runtime.storage.failures import LocationError, StoppedError, StorageError
from charonia_runtime.storage.generations import Generations
from charonia_runtime.storage.location import parse_location
from charonia_runtime.storage.mirror import Mirror, MirrorOptions, Outcome
from charonia_runtime.storage.patterns import Selection
from charonia_runtime.storage.progress import Progress
from charonia_runtime.storage.reports import Report, Reporter, write_termination_message
from charonia_runtime.storage.retrying import Retries
from charonia_runtime.storage.schemes import open_store
from charonia_runtime.storage.status_page import StatusPage
from charonia_runtime.storage.transfer import Integrity
from charonia_runtime.storage.watching import Pace, Watch

_USAGE = "Usage: charonia sync URI DIRECTORY [options]"
_TERMINATION_LOG = Path("/dev/termination-log")
_STYLES = ("auto", "virtual", "path")


@dataclass(frozen=True)
class SyncOptions:
    """What `charonia sync` was told. Raises OptionError for a malformed value."""

    once: bool = option(False, "Copy once and exit; the default.", switch=True)
    watch: bool = option(False, "Copy, then look for changes until stopped.", switch=True)
    store: str = option(
        "", "Where the copies are kept; DIRECTORY links into it. Default: .<name>.store beside DIRECTORY.",
        metavar="<directory>",
    )  # fmt: skip
    endpoint: str = option("", "The service's address where it is not the scheme's own.", metavar="<url>")
    region: str = option("", "The bucket's region.")
    addressing_style: str = option("auto", "Where requests name the bucket.", metavar="<auto|virtual|path>")
    credentials_dir: str = option(
        "", "Folder with one file a setting (accessKeyId, accessKeySecret, sessionToken, endpoint, region, "
        "serviceAccountKey with the JSON key of gs://, or the names of AWS_*, OSS_* and AZURE_STORAGE_* variables; for "
        "as:// the first two are the account and its key), read again when it changes. Default: the environment.",
        metavar="<directory>",
    )  # fmt: skip
    credentials_key: tuple[str, ...] = option(
        (), "The file of that folder that holds a setting. May be given several times.", metavar="<setting>=<file>"
    )
    anonymous: bool = option(False, "Sign no request.", switch=True)
    ca_bundle: str = option("", "Authorities to trust instead of the system's, as PEM.", metavar="<file>")
    include: tuple[str, ...] = option(
        (), "Copy only what fits; *, ? and ** are wild. May be given several times.", metavar="<pattern>"
    )
    exclude: tuple[str, ...] = option((), "Do not copy what fits. May be given several times.", metavar="<pattern>")
    integrity: str = option(
        "Auto", "Hold files against the store's checksums, against their sizes alone, against checksums and nothing "
        "less, or against a manifest of SHA-256.", metavar="<Auto|Size|Checksum|Manifest>",
    )  # fmt: skip
    manifest: str = option("", "The SHA256SUMS file in the repository, for integrity Manifest.", metavar="<key>")
    revision: str = option("", "Go live with this content only.", metavar="sha256:<digest>")
    size_limit: int = option(0, "Most bytes that the repository may have. 0: what the disk has room for.")
    parallelism: int = option(8, "How many requests may be under way.")
    part_size: int = option(16 << 20, "Bytes in which larger objects are fetched.")
    timeout_seconds: int = option(60, "How long the service may be silent before a request is given up.")
    stall_timeout_seconds: int = option(120, "How long nothing at all may arrive before the copy is given up.")
    interval_seconds: int = option(60, "Seconds between two looks, with --watch.")
    settle_seconds: int = option(
        5, "Seconds for which a changed repository must stay as it is before it is copied, with --watch."
    )
    history_limit: int = option(2, "How many copies are kept, the live one included.")
    status_file: str = option("", "File that always tells how things stand, as JSON.", metavar="<file>")
    status_port: int = option(0, "Port on which the same is served over HTTP. 0: none.")
    termination_log: str = option(
        "", "File that tells in the end how it went, as JSON. Default: /dev/termination-log where there is one.",
        metavar="<file>",
    )  # fmt: skip

    def __post_init__(self) -> None:
        if self.once and self.watch:
            raise OptionError("watch", "--once and --watch exclude each other")
        if self.addressing_style not in _STYLES:
            raise OptionError("addressing-style", f"expected {', '.join(_STYLES)}, got '{self.addressing_style}'")
        if self.integrity not in {kind.value for kind in Integrity}:
            names = ", ".join(kind.value for kind in Integrity)
            raise OptionError("integrity", f"expected {names}, got '{self.integrity}'")
        for field, least in (
            ("parallelism", 1), ("part_size", 1 << 16), ("timeout_seconds", 1), ("stall_timeout_seconds", 1),
            ("interval_seconds", 1), ("settle_seconds", 0), ("history_limit", 1), ("size_limit", 0),
            ("status_port", 0),
        ):  # fmt: skip
            if (value := getattr(self, field)) < least:
                flag = field.replace("_", "-")
                raise OptionError(flag, f"invalid value for --{flag}: expected an integer >= {least}, got {value}")
        self.credentials_names  # noqa: B018 - refuse malformed settings now
        self.mirror_options("")

    @property
    def credentials_names(self) -> Mapping[str, str]:
        """Setting → the file that holds it, for those that are named. Raises OptionError."""
        pairs = [text.partition("=") for text in self.credentials_key]
        for setting, equals, file in pairs:
            if setting not in FIELDS or not equals or not file or "/" in file:
                raise OptionError(
                    "credentials-key", f"expected <setting>=<file> with a setting of {', '.join(sorted(FIELDS))}"
                )
        return {setting: file for setting, _, file in pairs}

    @property
    def access(self) -> Access:
        """How the store is reached."""
        folder = CredentialsFolder(Path(self.credentials_dir), self.credentials_names) if self.credentials_dir else None
        return Access(
            endpoint=self.endpoint,
            region=self.region,
            addressing_style=self.addressing_style,
            folder=folder,
            anonymous=self.anonymous,
            ca_bundle=self.ca_bundle,
            connections=self.parallelism,
            timeout_seconds=self.timeout_seconds,
        )

    def mirror_options(self, source: str) -> MirrorOptions:
        """What is copied from `source`. Raises LocationError."""
        return MirrorOptions(
            source=source,
            selection=Selection(self.include, self.exclude),
            download=DownloadOptions(
                self.parallelism, self.part_size, Integrity(self.integrity), self.stall_timeout_seconds
            ),
            manifest=self.manifest,
            revision=self.revision,
            size_limit=self.size_limit,
            history_limit=self.history_limit,
        )


_FLAGS = Flags([Group("Options", SyncOptions)])


def sync(arguments: Sequence[str]) -> int:
    """Run `charonia sync`. Returns 0 when the copy is live, 1 for a failure, 2 for a wrong call."""
    if not arguments or {"-h", "--help"} & set(arguments):
        print(f"{_USAGE}\n{_FLAGS.help()}")
        return 0 if arguments else 2
    try:
        parsed = _FLAGS.parse(arguments, positional=True)
    except UsageError as error:
        return _refuse(f"--{error.flag}: {error}" if error.flag else str(error))
    if len(parsed.positions) != 2:
        return _refuse("expected a URI and a directory")
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("charonia_runtime").setLevel(logging.INFO)
    uri, target = parsed.positions
    return _Synchronisation(uri, Path(target).absolute(), parsed.get(SyncOptions)).run()


def _refuse(message: str) -> int:
    print(f"charonia sync: {message}\n{_USAGE}", file=sys.stderr)
    return 2


class _Synchronisation:
    """One life of the process: copy, report, perhaps watch."""

    def __init__(self, uri: str, target: Path, options: SyncOptions) -> None:
        self._uri = uri
        self._target = target
        self._options = options
        self._report = Report()
        self._progress = Progress()
        self._stopping = threading.Event()
        status_file = Path(options.status_file) if options.status_file else None
        self._reporter = Reporter(self._report, self._progress, sys.stderr, status_file)

    def run(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self._stopping.set())
        code = 0
        with self._reporter:
            try:
                with StatusPage(self._options.status_port, lambda: self._report.status(self._progress)):
                    mirror = self._mirror()
                    self._succeed(mirror.sync())
                    if self._options.watch:
                        self._watch(mirror)
            except StorageError as error:
                self._fail(error)
                code = 1
        self._write_termination_message()
        return code

    def _mirror(self) -> Mirror:
        """Raises StorageError."""
        options = self._options
        location, access = parse_location(self._uri), options.access
        store = open_store(location, access)
        if not self._target.name:
            raise LocationError(f"{self._target} cannot be made to show a repository: name a directory in it")
        place = Path(options.store) if options.store else self._target.with_name(f".{self._target.name}.store")
        retries = Retries(stopping=self._stopping, folder=access.folder, refused=self._progress.refuse)
        source = f"{options.endpoint}|{location.endpoint}|{location.uri}"
        return Mirror(store, Generations(place, self._target), options.mirror_options(source), retries, self._progress)

    def _watch(self, mirror: Mirror) -> None:
        pace = Pace(self._options.interval_seconds, self._options.settle_seconds)
        Watch(mirror, pace, self._stopping, self._succeed, self._fail).run()

    def _succeed(self, outcome: Outcome) -> None:
        failed_before = self._report.failures > 0
        self._report.succeed(outcome.generation)
        if outcome.switched:
            self._reporter.say(f"live: {self._report.message}")
        elif failed_before or not self._options.watch:
            self._reporter.say(f"unchanged: {self._report.message}")

    def _fail(self, error: StorageError) -> None:
        repeated = (self._report.reason, self._report.message) == (error.cause, error.message)
        self._report.fail(error)
        self._progress.enter("Stopped" if isinstance(error, StoppedError) else "Failed")
        if not repeated:
            self._reporter.say(f"charonia sync: {error.cause}: {error.message}")

    def _write_termination_message(self) -> None:
        given = self._options.termination_log
        if given or _TERMINATION_LOG.is_file():
            write_termination_message(Path(given) if given else _TERMINATION_LOG, self._report)
