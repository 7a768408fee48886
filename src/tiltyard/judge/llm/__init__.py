"""Asking language models: one protocol, one small file per provider, batches with a journal, prices and budgets."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.judge.llm.asking import BATCH_FLOOR, AskingParts, AskingSettings, GroupTotals, Progress, Totals, Watch
    from tiltyard.judge.llm.direct import GIVE_UP_AFTER, FailureSummary, Trial
    from tiltyard.judge.llm.generation import EntrantSettings, Generated, generate
    from tiltyard.judge.llm.journal import JOURNAL_FILE, forget_batch, list_batches, shared_folder
    from tiltyard.judge.llm.keys import load_env, redact
    from tiltyard.judge.llm.prices import (
        IMAGE_TOKENS,
        GroupQuote,
        Price,
        PriceTable,
        Quote,
        add_costs,
        how_to_state_prices,
        is_old,
        quote,
        shown_path,
        user_price_file,
    )
    from tiltyard.judge.llm.provider import (
        MAKERS,
        PYTHON,
        SPECIAL_TOKEN,
        TAKES_IMAGES,
        TIMEOUT_SECONDS,
        Ask,
        BatchProvider,
        Provider,
        Reply,
        ReplySchema,
        Request,
        SharedFingerprints,
        ShownImage,
        Stop,
        Usage,
        answer_start,
        parse_model_name,
    )
    from tiltyard.judge.llm.providers import make_provider
    from tiltyard.judge.llm.providers.in_process import weights_of
    from tiltyard.judge.llm.providers.wire import one_line
    from tiltyard.judge.llm.runner import ask_all

__getattr__ = names_on_demand(__name__)
