"""Rows of growth: one thing grows tenfold at a time, everything else is fixed.

They run only on request: together they take an hour and temporarily tens of gigabytes of disk.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import arena, data
from bench.files import z_of
from bench.judging import DIMENSION, ENTRANTS, MODEL, PAIRS, answer_text, question_text
from bench.measure import MAXRSS_PER_MB, ONE_THREAD, TILTYARD, Answer, Cost, Row, in_child, rated

BYTES = {"parquet": 40, "jsonl": 220, "vote": 2_500, "pair": 8_000}
"""Bytes of one battle in a file, one vote in a database, one judged pair with its report; twice as much must be
free."""
NO_ROOM = "not enough room on the disk"
WAYS = {"--cluster none": ("--cluster", "none"), "prompts as clusters": ()}
MOST_EXPONENT = 1.1
"""Ten times as many battles or votes may take at most 12.6 times as long."""
REPEATED_TO = 1_000_000
"""Up to this many battles a command is run three times, and the fastest run counts."""


def battles(row: Row) -> None:
    """Ten times as many battles at each step, Parquet and JSON Lines."""
    models = 400
    row.title = f"`tiltyard rate`, {models} models, closed-form intervals, whole process"
    for kind, most in (("parquet", row.size(10**8, 10**6)), ("jsonl", row.size(10**7, 10**5))):
        for size in _tenfold(10**5, most):
            _rated(row, f"{kind}, battles {size:,}", kind, size, models)
    largest = [line.cost for line in row.lines if line.job == f"parquet, battles {10**8:,}" and line.cost]
    for cost in largest[1:]:
        row.goal(f"10⁸ by prompt: goal under 80 s of CPU → {cost.cpu_seconds:.0f} s", cost.cpu_seconds < 80)
        row.goal(f"10⁸ by prompt: goal under 4,000 MB → {cost.peak_mb:,.0f} MB", cost.peak_mb < 4_000)
    _exponents(row)


def models(row: Row) -> None:
    """From ten models to five thousand, a million battles among them."""
    size = row.size(10**6, 10**5)
    row.title = f"`tiltyard rate`, {size:,} battles in Parquet, closed-form intervals, whole process"
    for count in (10, 100, 1_000, 5_000)[: row.size(4, 2)]:
        _rated(row, f"models {count:,}", "parquet", size, count)


def votes(row: Row) -> None:
    """Votes in an arena's log: written, folded, made into tables, opened, verified; the CPU seconds are the total."""
    row.title = "an arena's log in SQLite, 100 models: written, replayed, rebuilt, opened, verified"
    for count in _tenfold(10**4, row.size(10**6, 10**4)):
        job = f"votes {count:,}"
        if not _room(row, "vote", count):
            row.skip(job, "sqlite", NO_ROOM)
        elif found := row.ours(job, "sqlite", arena.long_log, home=row.data, votes=count):
            steps = ", ".join(f"{name} {found[f'{name}_seconds']:.2f} s" for name in arena.STEPS)
            text = f"{job}: verifies with every vote; {found['bytes'] / 1e6:,.0f} MB of events; wall: {steps}"
            row.check(text, found["clean"] and found["votes"] == count)
    _exponents(row)


def pairs(row: Row) -> None:
    """Judged pairs: a whole `tiltyard run` in both orders, by stage."""
    row.title = "`tiltyard run`, 15 entrants, both orders, batches over HTTP, whole process by stage"
    for count in _tenfold(10**4, row.size(10**6, 10**4)):
        job = f"judged pairs {count:,}"
        if not _room(row, "pair", count):
            row.skip(job, "all", NO_ROOM)
            continue
        answer = in_child(staged_run, home=row.data, pairs=count)
        found = answer.result
        if not found:
            row.add(job, "all", answer, ours=True)
            continue
        for name, cost in found["stages"].items():
            row.add(job, name, Answer(Cost(*cost)), ours=True)
        sent, largest = sum(size for size, _ in found["batches"]), max(bytes_ for _, bytes_ in found["batches"])
        text = f"{job}: {sent:,} questions in {len(found['batches'])} batches, the largest {largest / 1e6:,.0f} MB"
        ended = found["exit_code"] == 0 and sent == 2 * count
        row.check(f"{text}; each asked once, and the run ended well", ended)


def _exponents(row: Row) -> None:
    """How CPU time grew between the two largest sizes of each job: cost ∝ size^exponent, with a goal for each."""
    ways: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for line in row.lines:
        what, _, size = line.job.rpartition(" ")
        if line.cost is not None:
            ways.setdefault((what, line.who), []).append((int(size.replace(",", "")), line.cost.cpu_seconds))
    for (what, who), costs in ways.items():
        if len(costs) > 1:
            (small, before), (large, after) = sorted(costs)[-2:]
            power = math.log(after / before) / math.log(large / small)
            row.goal(f"{what}, {who}: goal n^{MOST_EXPONENT} → n^{power:.2f}", power <= MOST_EXPONENT)


def _tenfold(first: int, last: int) -> list[int]:
    sizes = [first]
    while sizes[-1] < last:
        sizes.append(10 * sizes[-1])
    return sizes


def _room(row: Row, kind: str, size: int) -> bool:
    return shutil.disk_usage(row.data).free > 2 * BYTES[kind] * size


def _rated(row: Row, job: str, kind: str, size: int, count: int) -> None:
    """Rate a temporary file both ways, and check that the errors of the ratings match their intervals."""
    if not _room(row, kind, size):
        for way in WAYS:
            row.skip(job, f"tiltyard, {way}", NO_ROOM)
        return
    with tempfile.TemporaryDirectory(prefix="growth-", dir=row.data) as folder:
        path = data.battle_file(Path(folder), kind, size, count)
        for way, options in WAYS.items():
            answer = rated(path, *options, repeats=3 if size <= REPEATED_TO else 1)
            if board := row.add(job, f"tiltyard, {way}", answer, ours=True):
                z = z_of(board, path)
                low, high = (0.6, 1.5) if count >= 100 else (0.1, 3.0)  # the mean of few errors is itself uncertain
                row.check(f"{job}, {way}: errors as large as the intervals say: mean z² {z:.2f}", low < z < high)


# --- A whole run, observed from outside ------------------------------------------------------------------------------

LOOK_SECONDS = 0.02
STAGES = {
    "plan and quote": "manifest.json",
    "write matches": "matches/matches.jsonl",
    "ask and collect": "verdicts/*",
    "write verdicts": f"verdicts/{DIMENSION}.jsonl",
    "rate": "battles.jsonl",
    "usage": "usage.json",
    "report": "nothing ends it but the process",
}
"""Each stage, and the file whose appearance ends it. That of verdicts is first written under another name."""


def staged_run(home: str, pairs: int) -> dict[str, Any]:
    """CPU seconds, wall seconds and peak memory of each stage of `tiltyard run`, and of all of it."""
    import psutil

    with tempfile.TemporaryDirectory(prefix="judging-", dir=home) as name, batch_server(Path(name)) as (port, batches):
        folder, cpu, wall = Path(name), 0.0, 0.0
        command = [TILTYARD, "run", str(write_tournament(folder, pairs, port)), "--mode", "headline", "--yes"]
        command += ["--output-dir", str(folder / "run"), "--limit-pairs", str(pairs)]
        began, costs, stages = time.perf_counter(), {stage: [0.0] * 3 for stage in STAGES}, iter(STAGES.items())
        stage, end = next(stages)
        with (folder / "said.txt").open("w") as said:
            settings = os.environ | ONE_THREAD | {"ANTHROPIC_API_KEY": "none"}
            run = subprocess.Popen(command, env=settings, stdout=said, stderr=said)
        process = psutil.Process(run.pid)
        while not (ended := os.wait4(run.pid, os.WNOHANG))[0]:
            while any((folder / "run").glob(end)):
                stage, end = next(stages)
            spent, now, held = sum(process.cpu_times()[:4]), time.perf_counter() - began, process.memory_info().rss
            cost = costs[stage]
            costs[stage] = [cost[0] + spent - cpu, cost[1] + now - wall, max(cost[2], held / 2**20)]
            cpu, wall = spent, now
            time.sleep(LOOK_SECONDS)
        _, status, use = ended
        run.returncode = os.waitstatus_to_exitcode(status)
        all_of_it = [use.ru_utime + use.ru_stime, time.perf_counter() - began, use.ru_maxrss / MAXRSS_PER_MB]
        if run.returncode:
            raise RuntimeError((folder / "said.txt").read_text()[-1000:])
        return {"stages": costs | {"all": all_of_it}, "batches": list(batches.values()), "exit_code": run.returncode}


def write_tournament(folder: Path, pairs: int, port: int) -> Path:
    """A config with its bank, answers and rubric, for at least this many pairs."""
    names = [f"p{number:06d}" for number in range(-(-pairs // len(PAIRS)))]
    with (folder / "bank.jsonl").open("w") as bank:
        for number, name in enumerate(names):
            bank.write(json.dumps({"prompt_id": name, "text": question_text(number), "source": "bench"}) + "\n")
    (folder / "answers").mkdir()
    for entrant in ENTRANTS:
        with (folder / "answers" / f"responses_{entrant}.jsonl").open("w") as file:
            for name in names:
                row = {"entrant_id": entrant, "prompt_id": name, "response_text": answer_text(entrant, name)}
                file.write(json.dumps(row) + "\n")
    (folder / "rubric.txt").write_text("# version: 1\nPrefer the answer that answers the question and is right.\n")
    polls = {"poll_initial_seconds": 0.05, "poll_max_seconds": 1.0}
    models = {"pilot_model": f"anthropic/{MODEL}", "headline_model": f"anthropic/{MODEL}"}
    config = {
        "entrants": [{"entrant_id": name} for name in ENTRANTS],
        "prompts": {"bank_path": "bank.jsonl"},
        "caches": {"responses_dir": "answers", "judgments_dir": "judgments"},
        "judge": {**models, "base_url": f"http://127.0.0.1:{port}", **polls},
        "rubrics": {DIMENSION: {"path": "rubric.txt"}},
    }
    path = folder / "tournament.yaml"
    path.write_text(json.dumps(config))
    return path


ANSWERS = re.compile(r"\[ANSWER ([AB]) \w+\]\nentrant-(\d+) on (\w+)")


def verdict(user: str) -> str:
    """`A`, `B` or `TIE`: a higher number wins more often, and one pair in seven flips with the order."""
    (_, first, prompt), (_, second, _) = ANSWERS.findall(user)
    low, high = sorted((int(first), int(second)))
    draw = hashlib.sha256(f"{low}-{high}-{prompt}".encode()).digest()
    if draw[2] % 7 == 0:
        return "A"
    if draw[1] % 10 == 0:
        return "TIE"
    better = high if draw[0] < 128 + 6 * (high - low) else low
    return "A" if int(first) == better else "B"


@contextmanager
def batch_server(folder: Path) -> Iterator[tuple[int, dict[str, tuple[int, int]]]]:
    """A stand-in for Anthropic's batches on loopback: its port, and requests and bytes of every batch so far.

    A batch has ended when it is first polled. Unlike the tests' fake server it keeps requests on disk, so that it can
    take millions of them.
    """
    import msgspec
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    sizes: dict[str, tuple[int, int]] = {}

    def shown(name: str, request: Request) -> dict[str, Any]:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((folder / name).stat().st_mtime))
        return {
            "id": name,
            "type": "message_batch",
            "processing_status": "ended",
            "request_counts": dict.fromkeys(("processing", "errored", "canceled", "expired"), 0)
            | {"succeeded": sizes[name][0]},
            **dict.fromkeys(("created_at", "expires_at", "ended_at"), stamp),
            **dict.fromkeys(("archived_at", "cancel_initiated_at")),
            "results_url": f"{request.base_url}v1/messages/batches/{name}/results",
        }

    async def create(request: Request) -> Response:
        name, body = f"msgbatch_{len(sizes) + 1:06d}", await request.body()
        (folder / name).write_bytes(body)
        sizes[name] = (len(msgspec.json.decode(body)["requests"]), len(body))
        return JSONResponse(shown(name, request))

    async def retrieve(request: Request) -> Response:
        return JSONResponse(shown(request.path_params["name"], request))

    async def every(request: Request) -> Response:
        data = [shown(name, request) for name in reversed(sizes)]
        return JSONResponse({"data": data, "has_more": False, "first_id": None, "last_id": None})

    async def results(request: Request) -> Response:
        batch = msgspec.json.decode((folder / request.path_params["name"]).read_bytes())
        return Response(b"".join(map(result, batch["requests"])), media_type="application/x-jsonl")

    def result(entry: dict[str, Any]) -> bytes:
        params, (message,) = entry["params"], entry["params"]["messages"]
        said = f"VERDICT: {verdict(message['content'])}"
        text = f"{'x' * 386}\n{said}"
        usage = {"input_tokens": (len(message["content"]) + len(params["system"][0]["text"])) // 4}
        usage |= {"output_tokens": 100, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        reply = {
            "id": f"msg_{entry['custom_id']}",
            "type": "message",
            "role": "assistant",
            "model": params["model"],
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": usage,
        }
        line = {"custom_id": entry["custom_id"], "result": {"type": "succeeded", "message": reply}}
        return msgspec.json.encode(line) + b"\n"

    place = "/v1/messages/batches"
    routes = [
        Route(place, create, methods=["POST"]),
        Route(place, every),
        Route(place + "/{name}", retrieve),
        Route(place + "/{name}/results", results),
    ]
    sock = socket.create_server(("127.0.0.1", 0))
    # With less patience, a client that collects for minutes would send the next batch into a closed connection.
    config = uvicorn.Config(Starlette(routes=routes), log_level="critical", lifespan="off", timeout_keep_alive=600)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    try:
        yield sock.getsockname()[1], sizes
    finally:
        server.should_exit = True
        thread.join()
