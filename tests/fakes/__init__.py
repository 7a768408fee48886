"""A real HTTP server of ours that speaks the wire formats of Anthropic, OpenAI and Gemini, for tests without a key.

from tests.fakes import Behaviour, FakeServer, Fault, Said
with FakeServer(Behaviour(judge=lambda system, user: "VERDICT: A")) as server:
    AnthropicProvider(api_key="any", base_url=server.anthropic_url)
    OpenAIProvider(api_key="any", base_url=server.openai_url)
    GeminiProvider(api_key="any", base_url=server.gemini_url)
"""

from tests.fakes.behaviour import Behaviour, Fault, Said, verdict_by_hash
from tests.fakes.server import FakeServer, FakeServerProcess

__all__ = ["Behaviour", "FakeServer", "FakeServerProcess", "Fault", "Said", "verdict_by_hash"]
