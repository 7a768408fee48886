"""Asking language models: one protocol, one small file per provider, batches with a journal, prices and budgets."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.llm.asking import BATCH_FLOOR, AskingParts, AskingSettings, GroupTotals, Progress, Totals, Watch
    from tiltyard.llm.direct import GIVE_UP_AFTER, FailureSummary, Trial
    from tiltyard.llm.generation import EntrantSettings, Generated, generate
    from tiltyard.llm.journal import JOURNAL_FILE, forget_batch, list_batches, shared_folder
    from tiltyard.llm.keys import load_env, redact
    from tiltyard.llm.prices import (
        IMAGE_TOKENS, GroupQuote, Price, PriceTable, Quote, add_costs, how_to_state_prices, is_old, quote, shown_path,
        user_price_file,
    )
    from tiltyard.llm.provider import (
        MAKERS, PYTHON, SPECIAL_TOKEN, TAKES_IMAGES, TIMEOUT_SECONDS, Ask, BatchProvider, Provider, Reply, ReplySchema,
        Request, SharedFingerprints, ShownImage, Stop, Usage, answer_start, parse_model_name,
    )
    from tiltyard.llm.providers import make_provider
    from tiltyard.llm.providers.in_process import weights_of
    from tiltyard.llm.providers.wire import one_line
    from tiltyard.llm.runner import ask_all

__getattr__ = names_on_demand(__name__)
