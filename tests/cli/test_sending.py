"""`--to`: the numbers of an answer reach each tool through its own client, on loopback or in a local store.

The clients are extras of their own (`pip install '.[mlflow]'` and so on); a test whose client is missing is skipped.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tiltyard.cli.sending import TRACKERS, check_trackers, send
from tiltyard.errors import MissingExtra, OptionError, TiltyardError
from tiltyard.verbs.figures import Figures, figures_of_boards

FIGURES = Figures("v2 against v1", {"difference": 0.25, "f1/high": 0.5}, {"new": "v2", "sentence": "v2 is better"})


class Recorder(ThreadingHTTPServer):
    """A server that takes everything and keeps it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[tuple[str, bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        plain = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
        assert isinstance(self.server, Recorder)
        self.server.bodies.append((self.path, plain))
        self._answer(b'{"successes": [], "errors": []}' if "scores" in self.path else b"")

    def do_GET(self) -> None:
        project = {"id": "p", "name": "p", "organization": {"id": "o", "name": "o"}, "metadata": {}}
        self._answer(json.dumps({"data": [project]}).encode())

    def _answer(self, answer: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json" if answer else "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with Recorder() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(5)


def test_a_run_of_mlflow_has_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    send(["mlflow"], lambda: FIGURES)
    (run,) = mlflow.search_runs(output_format="list")
    assert run.info.run_name == "v2 against v1"
    assert run.data.metrics == {"difference": 0.25, "f1/high": 0.5}
    assert run.data.tags["tiltyard.sentence"] == "v2 is better"


def test_a_trace_of_langfuse_has_the_scores(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("langfuse")
    for name, value in (("PUBLIC_KEY", "pk"), ("SECRET_KEY", "sk"), ("HOST", recorder.url), ("BASE_URL", recorder.url)):
        monkeypatch.setenv(f"LANGFUSE_{name}", value)
    send(["langfuse"], lambda: FIGURES)
    events = [event for path, body in recorder.bodies if path.endswith("/scores") for event in json.loads(body)]
    assert {event["name"]: event["value"] for event in events} == {"difference": 0.25, "f1/high": 0.5}
    spans = [body for path, body in recorder.bodies if path.endswith("/traces")]
    assert any(b"tiltyard: v2 against v1" in body for body in spans)


def test_gauges_go_to_a_collector(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", recorder.url)
    send(["otel"], lambda: FIGURES)
    found = {}
    for _, body in recorder.bodies:
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for metric in resource.scope_metrics[0].metrics:
                found[metric.name] = metric.gauge.data_points[0].as_double
    assert found == {"tiltyard.difference": 0.25, "tiltyard.high": 0.5}


def test_what_cannot_be_sent_is_said_before_the_work_or_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match="--to excel: expected mlflow, langfuse, otel"):
        check_trackers(["excel"])
    monkeypatch.setattr("tiltyard.cli.sending.find_spec", lambda name: None)
    for name in TRACKERS:
        with pytest.raises(MissingExtra, match=rf"--to {name} needs the \[{name}\] extra"):
            check_trackers([name])

    def refuse(figures: Figures) -> str:
        raise ConnectionError("no route\nat all")

    monkeypatch.setitem(TRACKERS, "mlflow", TRACKERS["mlflow"].__class__(["mlflow"], refuse))
    with pytest.raises(TiltyardError, match=r"mlflow did not take the numbers: no route\. Check"):
        send(["mlflow"], lambda: FIGURES)


def test_compare_gate_and_rate_send_what_they_print(
    tiltyard: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Figures] = []
    tracker = TRACKERS["mlflow"].__class__(["json"], lambda figures: kept.append(figures) or "run 1")
    monkeypatch.setitem(TRACKERS, "mlflow", tracker)
    for name, last in (("v2", 1), ("v1", 0)):
        rows = [f"q{n},{1 if n % 5 else last}" for n in range(40)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,correct", *rows]) + "\n")
    files = [str(tmp_path / "v2.csv"), str(tmp_path / "v1.csv")]
    assert "sent to mlflow: run 1" in tiltyard("compare", *files, "--to", "mlflow").stderr
    assert tiltyard("gate", *files, "--to", "mlflow").returncode == 0
    assert tiltyard("rate", *files, "--to", "mlflow").returncode == 0
    battles = tmp_path / "b.csv"
    battles.write_text("model_a,model_b,winner,source\n" + "a,b,model_a,human\na,b,model_b,human\n" * 4)
    assert tiltyard("rate", str(battles), "--to", "mlflow").returncode == 0
    assert tiltyard("compare", "a", "b", "--in", str(battles), "--to", "mlflow").returncode == 0
    compared, gated, means, ratings, fought = kept
    assert compared.numbers["difference"] == pytest.approx(0.2)
    assert (compared.numbers["new_mean"], compared.labels["new"]) == (1.0, "v2")
    assert (gated.numbers["passed"], gated.labels["verdict"]) == (1.0, "better")
    assert means.numbers["correct/v1/mean"] == pytest.approx(0.8)
    assert ratings.numbers["a/rating"] == pytest.approx(ratings.numbers["b/rating"])
    assert fought.numbers["n_battles"] == 8.0


def test_the_boards_of_a_run_are_told_apart_by_dimension() -> None:
    import tiltyard as ty

    row = {"model_a": "a", "model_b": "b", "source": "llm-judge"}
    board = ty.rate([{**row, "winner": winner} for winner in ("model_a", "model_b")])
    report = ty.RatingsFile.of(board)
    assert figures_of_boards({"facts": report}).numbers["facts/a/rating"] == pytest.approx(board["a"].rating)
