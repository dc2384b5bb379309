"""Large bodies: what they take of memory, and what others notice of them."""

from dataclasses import dataclass

from loadtest import procfs
from loadtest.loadtool import Figures, LoadTool
from loadtest.programs import Program
from loadtest.stage import MeasureError, Stage, running, running_own_worker
from loadtest.stats import Metric, Pick
from loadtest.trials.trial import OURS_ALONE, pid_of, tool, warm_up

CLIENTS = 8
MIB = 64
UPLOADS_SECS = 40
PATH = "/v1/chat/completions"
FORM_PATH = "/v1/audio/transcriptions"
# With this flag no body is too long to be kept; without, one of unknown length is kept.
KEEP = ("--max-buffered-request-bytes", str(512 * 2**20))


@dataclass(frozen=True, slots=True)
class Uploads:
    """Uploads at once, /health beside a large one, and forms with a large file."""

    name: str = "uploads"
    title: str = (
        f"{CLIENTS} clients upload {MIB} MiB each, streamed, then buffered; /health is "
        "asked while 200 MiB stream beside buffered bodies of 20 MiB, while one body "
        "of 200 MiB is buffered, and while a file of 200 MiB is to be transcribed."
    )
    programs: tuple[str, ...] = OURS_ALONE
    rounds: int = 1
    metrics: tuple[Metric, ...] = (
        Metric("uploads.streamed", "RSS growth, streamed, MiB", 1, Pick.MOST),
        Metric("uploads.streamed_rate", "Streamed, MiB/s"),
        Metric("uploads.buffered", "RSS growth, buffered, of the bodies", 2, Pick.MOST),
        Metric("uploads.buffered_rate", "Buffered, MiB/s"),
        Metric("uploads.beside_p99", "/health beside 200 + 20 MiB, p99, ms", 1),
        Metric("uploads.beside_max", "/health beside 200 + 20 MiB, longest, ms", 1),
        Metric("uploads.whole_p99", "/health beside 200 MiB buffered, p99, ms", 1),
        Metric("uploads.whole_max", "/health beside 200 MiB buffered, longest, ms", 1),
        Metric("uploads.passed", "RSS growth, file passed on, MiB", 1, Pick.MOST),
        Metric("uploads.passed_rate", "File passed on, MiB/s"),
        Metric("uploads.passed_p99", "/health beside it, p99, ms", 1),
        Metric("uploads.spooled", "RSS growth, file spooled, MiB", 1, Pick.MOST),
        Metric("uploads.spooled_rate", "File spooled, MiB/s"),
        Metric("uploads.spooled_p99", "/health beside it, p99, ms", 1),
    )

    def measure(self, stage: Stage, program: Program) -> Figures:
        """One round; each load on a fresh start, as freed memory hides growth."""
        total = CLIENTS * MIB
        all_at_once = [f"{PATH},{MIB},1"] * CLIENTS
        streamed = self._load(stage, program, all_at_once)
        buffered = self._load(stage, program, all_at_once, flags=KEEP)
        beside = [f"{PATH},200,3", f"{PATH},20,12,chunked"]
        mixed = self._load(stage, program, beside)
        large = [f"{PATH},200,3"]
        whole = self._load(stage, program, large, "--one-text", flags=KEEP)
        passed = self._load(stage, program, [f"{FORM_PATH},200,1,model-first"])
        spooled = self._load(stage, program, [f"{FORM_PATH},200,1,file-first"])
        return {
            "uploads.streamed": streamed["grown_mib"],
            "uploads.streamed_rate": total / streamed["seconds"],
            "uploads.buffered": buffered["grown_mib"] / total,
            "uploads.buffered_rate": total / buffered["seconds"],
            "uploads.beside_p99": mixed["health_p99_ms"],
            "uploads.beside_max": mixed["health_max_ms"],
            "uploads.whole_p99": whole["health_p99_ms"],
            "uploads.whole_max": whole["health_max_ms"],
            "uploads.passed": passed["grown_mib"],
            "uploads.passed_rate": 200 / passed["seconds"],
            "uploads.passed_p99": passed["health_p99_ms"],
            "uploads.spooled": spooled["grown_mib"],
            "uploads.spooled_rate": 200 / spooled["seconds"],
            "uploads.spooled_p99": spooled["health_p99_ms"],
        }

    def _load(
        self,
        stage: Stage,
        program: Program,
        uploads: list[str],
        *more: str,
        flags: tuple[str, ...] = (),
    ) -> Figures:
        """Run the uploads; what they say, and by how much the peak is over before."""
        with (
            running_own_worker(stage) as worker_port,
            running(stage, program, worker_port, flags) as target,
        ):
            warm_up(target)
            pid = pid_of(target)
            argv = tool(stage, "uploads", target.port, *more)
            for upload in uploads:
                argv += ["--upload", upload]
            procfs.reset_peak(pid)
            before = procfs.memory_kib(pid, "VmRSS")
            with LoadTool(stage, argv) as client:
                client.wait_for("begin", 20)
                said = client.wait_for("end", UPLOADS_SECS)
            peak = procfs.memory_kib(pid, "VmHWM")
        if said["errors"]:
            raise MeasureError(f"{said['errors']:.0f} uploads failed")
        return said | {"grown_mib": (peak - before) / 1024}
