"""`--to`: the numbers of an answer written back to where a team keeps its results; one small adapter each.

Every adapter uses the tool's own client, which takes its address and keys from its own environment variables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from tiltyard.cli.output import note, working
from tiltyard.errors import MissingExtra, OptionError, TiltyardError

if TYPE_CHECKING:
    from tiltyard.verbs.figures import Figures

ToOption = Annotated[
    list[str] | None,
    typer.Option("--to", metavar="TOOL", hidden=True, help="Also send the numbers to mlflow, langfuse or otel."),
]


def _to_mlflow(figures: Figures) -> str:
    """A run of MLflow with the numbers as metrics; `MLFLOW_RUN_ID` adds them to a run that there is."""
    import mlflow

    with mlflow.start_run(run_name=figures.title) as run:
        mlflow.log_metrics({re.sub(r"[^\w./ :-]", "_", name): value for name, value in figures.numbers.items()})
        mlflow.set_tags({f"tiltyard.{name}": text[:5000] for name, text in figures.labels.items()})
    return f"run {run.info.run_id}"


def _to_langfuse(figures: Figures) -> str:
    """A trace of Langfuse with the numbers as scores."""
    from langfuse import get_client

    client = get_client()
    client.auth_check()  # what fails later is only logged
    with client.start_as_current_observation(name=f"tiltyard: {figures.title}", as_type="span") as span:
        span.update(output=figures.labels.get("sentence"), metadata=dict(figures.labels))
        for name, value in figures.numbers.items():
            span.score_trace(name=name, value=value, data_type="NUMERIC")
        trace = span.trace_id
    client.flush()
    return f"trace {trace}"


def _to_otel(figures: Figures) -> str:
    """Gauges `tiltyard.*` over OTLP; `OTEL_EXPORTER_OTLP_ENDPOINT` says where to."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricExportResult, PeriodicExportingMetricReader

    results: list[Any] = []

    class Exporter(OTLPMetricExporter):
        def export(self, *args: Any, **options: Any) -> Any:
            results.append(super().export(*args, **options))
            return results[-1]

    provider = MeterProvider([PeriodicExportingMetricReader(Exporter(), export_interval_millis=float("inf"))])
    meter = provider.get_meter("tiltyard")
    labels = {f"tiltyard.{name}": text for name, text in figures.labels.items()} | {"tiltyard.title": figures.title}
    for name, value in figures.numbers.items():
        what, number = name.rpartition("/")[::2]
        meter.create_gauge(f"tiltyard.{number}").set(value, {**labels, **({"tiltyard.of": what} if what else {})})
    provider.force_flush()
    provider.shutdown()
    if not results or any(result is not MetricExportResult.SUCCESS for result in results):
        raise ConnectionError("the collector did not take them")
    return f"{len(figures.numbers)} gauges"


class Tracker(msgspec.Struct, frozen=True):
    """Where numbers are sent: the modules of its client, which its extra installs, and what sends."""

    modules: Sequence[str]
    send: Callable[[Figures], str]


TRACKERS = {
    "mlflow": Tracker(["mlflow"], _to_mlflow),
    "langfuse": Tracker(["langfuse"], _to_langfuse),
    "otel": Tracker(["opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"], _to_otel),
}


def check_trackers(names: Iterable[str] | None) -> None:
    """Refuse a tool that is not known or whose client is missing, before any work is done."""
    for name in names or ():
        if name not in TRACKERS:
            raise OptionError(f"--to {name}: expected {', '.join(TRACKERS)}.")
        if not all(_installed(module) for module in TRACKERS[name].modules):
            raise MissingExtra(f"--to {name}", name)


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def send(names: Iterable[str] | None, figures: Callable[[], Figures]) -> None:
    """Send the numbers to every tool, and say where they are."""
    for name in names or ():
        with working(f"sending to {name} …"):
            try:
                where = TRACKERS[name].send(figures())
            except Exception as error:  # whatever a client raises
                first = (str(error).strip() or type(error).__name__).splitlines()[0]
                raise TiltyardError(f"{name} did not take the numbers: {first}. Check its address and keys.") from None
        note(f"sent to {name}: {where}")
