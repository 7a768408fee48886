"""What every setting means, in the words of the manual; `settings_reference` adds names and defaults."""

from __future__ import annotations

TOURNAMENT = {
    "entrants[].entrant_id": "The contestant's id: the name on every board and of its response file. Two or more.",
    "entrants[].model": "Who answers for `tiltyard generate`: `provider/model`.",
    "entrants[].system": "System text sent before every prompt of the bank.",
    "entrants[].max_tokens": "How long an answer may be.",
    "entrants[].seed": "Seed from which a seed for each prompt is derived.",
    "entrants[].send_seed": "Whether that seed is sent to the provider; some refuse it.",
    "entrants[].options": "Further parameters for the provider, sent as they are (`temperature`, …).",
    "entrants[].base_url": "Address of the entrant's server, for `local/…`.",
    "prompts.bank_path": "The prompt bank (JSON Lines).",
    "prompts.pilot_size": "How many prompts a pilot judges.",
    "prompts.pilot_seed": "Seed of the pilot's draw: the same bank gives the same pilot everywhere.",
    "prompts.pilot_strata": "Places per source, by hand; else in proportion, by largest remainder.",
    "caches.responses_dir": "Folder of `responses_<entrant>.jsonl`.",
    "caches.judgments_dir": "Folder of verdicts and of the journal of batches; kept between runs.",
    "judge.pilot_model": "The judge of `--mode pilot`.",
    "judge.headline_model": "The judge of `--mode headline`.",
    "judge.max_tokens": "Tokens that the first ask allows; a reply that was cut off is asked for again with "
    "twice as many.",
    "judge.max_attempts": "How often a question is asked before it counts as failed, over all runs.",
    "judge.batch": "In batches, at half price; – means where the maker takes them.",
    "judge.max_batch": "Requests per batch; – means as many as the maker takes.",
    "judge.concurrency": "Direct calls at a time; fewer after a 429.",
    "judge.poll_initial_seconds": "First pause between two looks at a batch.",
    "judge.poll_max_seconds": "Longest pause between two looks.",
    "judge.budget_usd": "Stop before this much is spent.",
    "judge.base_url": "Address of the judge's server, for `local/…`.",
    "judge.prices_path": "A price file that replaces or adds models, beside the one that ships.",
    "judge.reply": "`reasoned`, `label` or `choice`:",
    "judge.min_choice_mass": "Below it a `label` or `choice` is noise and `unparsed`, not a verdict; nothing of it "
    "is sent.",
    "judge.options": "Further parameters for the provider, sent as they are.",
    "rubrics.<dimension>.path": "The rubric of a dimension. Dimensions are judged in this order.",
    "elo.n_perms": "Shuffles of permutation Elo; at least 2.",
    "elo.shuffle_seed": "Seed of the shuffles, and of the resamples of the sampling interval.",
    "elo.initial_rating": "Where every entrant starts.",
    "elo.default_k": "Points at stake, for the primary result.",
    "elo.k_factor_sweep": "Further K on the same shuffles.",
    "note": "A sentence.",
    "canaries": "Judge pairs with a known answer along with the rest; they stay out of every rating.",
}

JUDGE = {
    "model": "What is sent to the provider.",
    "name": "What verdicts call the judge; – means `provider/model`.",
    "max_tokens": "Tokens that the first ask allows; twice as many after a reply that was cut off.",
    "max_attempts": "How often a question is asked at most.",
    "options": "Further parameters for the provider, sent as they are (`temperature`, `seed`, …).",
    "reply": "`reasoned`: a few sentences and a verdict line. `label`: one word, with its probabilities where "
    "there are any. `choice`: the letter of an option, for very small judges.",
    "min_choice_mass": "How likely the allowed words must be together, where the judge gives probabilities; below it a "
    "reply is noise and `unparsed`.",
    "orders": "`both`, or `forward`: entrant_a's answer first only, so that position bias cannot be seen.",
}

ASKING = {
    "batch": "In batches; – means where the provider takes them.",
    "batch_floor": "Fewer pending questions than this go directly all the same. A placement sets 1000.",
    "concurrency": "Direct calls at a time.",
    "max_batch": "",
    "max_open": "",
    "poll_initial_seconds": "First pause between two looks at a batch.",
    "poll_max_seconds": "Longest pause.",
    "budget_usd": "Stop before this much is spent.",
    "max_tries": "",
    "max_resubmits": "",
    "adoption_grace_seconds": "",
    "interrupt_grace_seconds": "",
}

POLICY = {
    "lanes.coverage": ("Share of matchups that the coverage lane is asked for first.", "§6.1"),
    "lanes.contender": ("The same for the contender lane.", "§6.2"),
    "lanes.uncertainty": ("The same for the uncertainty lane.", "§6.3"),
    "lanes.exploration": ("The same for the exploration lane.", "§6.4"),
    "opponents.neighbour": ("Share of a contender's meetings:", "§6.2"),
    "opponents.close": ("Share of a contender's meetings:", "§6.2"),
    "opponents.challenger": ("Share of a contender's meetings:", "§6.2"),
    "rating.rating": ("Glicko-2 rating of a new model.", "§5.1"),
    "rating.deviation": ("Its deviation (RD).", "§5.1"),
    "rating.volatility": ("Its volatility.", "§5.1"),
    "rating.tau": ("How fast volatilities may change.", "§5.1"),
    "rating.deviation_min": ("Smallest deviation: 100 % confidence.", "§9.3"),
    "rating.deviation_max": ("Largest deviation: 0 % confidence.", "§9.3"),
    "rating.legacy_rating": ("Where legacy Elo starts.", "§2"),
    "rating.legacy_k": ("K of legacy Elo.", "§2"),
    "rating.legacy_baseline": ("", "§2"),
    "badges.established_decisive": ("Decisive votes for Established; below, a model is Provisional.", "§5.3"),
    "badges.established_coverage": ("Prompt coverage for Established.", "§5.3"),
    "badges.established_deviation": ("Largest deviation for Established.", "§5.3"),
    "badges.stable_decisive": ("Decisive votes for Stable.", "§9.2, number ours"),
    "badges.stable_coverage": ("Prompt coverage for Stable.", "§9.2, number ours"),
    "badges.stable_deviation": ("Largest deviation for Stable.", "§9.2, number ours"),
    "publication.top": ("How many models the rules of publication look at.", "§10"),
    "publication.median_deviation": ("Their median deviation may be at most this.", "§10"),
    "publication.adjacent_share": ("Share of neighbouring pairs that must have met their floor.", "§10"),
    "publication.mean_coverage": ("Their mean prompt coverage must be at least this.", "§10"),
    "limits.session_votes_per_minute": ("Votes of one visitor.", "§11"),
    "limits.session_matchups_per_minute": ("Matchups served to one visitor.", "§11"),
    "limits.address_votes_per_minute": ("Votes from one address (an IPv6 network counts as one).", "§11"),
    "limits.address_matchups_per_minute": ("Matchups served to one address.", "§11"),
    "limits.address_sessions_per_hour": ("New visitors from one address.", "§11"),
    "limits.session_undos_per_hour": ("Votes that one visitor may undo.", "ours"),
    "limits.address_undos_per_hour": ("Votes undone from one address.", "ours"),
    "limits.session_skips_per_hour": ("Matchups that one visitor may skip.", "ours"),
    "limits.address_skips_per_hour": ("Matchups skipped from one address.", "ours"),
    "flags.fast_votes": ("A session is looked at for speed from this many votes on.", "§11"),
    "flags.fast_seconds": ("A vote this soon after the one before is fast.", "§11"),
    "flags.fast_share": ("Flagged from this share of fast votes on.", "§11"),
    "flags.one_sided_votes": ("Looked at for one-sidedness from this many votes on.", "§11"),
    "flags.one_sided_share": ("Flagged from this share for one side on.", "§11"),
    "flags.upset_votes": ("Looked at for upsets from this many decisive votes with a clear favourite on.", "§11"),
    "flags.upset_share": ("Flagged from this share of upsets on.", "§11"),
    "flags.both_bad_votes": ("Looked at for both-bad votes from this many votes on.", "§11"),
    "flags.both_bad_share": ("Flagged from this share of both-bad votes on.", "§11"),
    "flags.undo_votes": ("Looked at for undos from this many undone votes on.", "ours"),
    "flags.undo_share": ("Flagged from this share of undone votes on.", "ours"),
    "flags.skip_matchups": ("Looked at for skips from this many skipped matchups on.", "ours"),
    "flags.skip_share": ("Flagged from this share of skipped matchups on.", "ours"),
    "flags.anomaly_alpha": ("Level at which the test for rare votes flags a session.", "§11"),
    "flags.quality_votes": ("", "§8.3"),
    "flags.quality_rise": ("", "§8.3"),
    "flags.exclude_flagged_sessions": ("Whether screening excludes the votes of flagged sessions by itself.", "§11"),
    "flags.exclude_self_identifying": ("Whether it excludes votes on answers that say who wrote them.", "§11"),
    "contender_band": ("Size of the contender band.", "§4 `K`"),
    "challenger_reach": ("", "§6.2"),
    "contender_opens_at": ("", "ours"),
    "window_matchups": ("Length of the rolling window.", "§4 `W`"),
    "exposure_tolerance": ("How far from its target a model's exposure may be.", "§7.1"),
    "prompt_floor": ("", "§4 `F_prompt`"),
    "prompt_target_top": ("", "§4 `T_prompt_top`"),
    "adjacent_floor_votes": ("Decisive votes that two rank neighbours need between them.", "§4 `F_adj_pair`"),
    "adjacent_floor_prompts": (
        "Distinct prompts under those votes (all there are, in an arena of fewer).",
        "§4 `F_adj_pair`",
    ),
    "diversity_last": ("How many of a pair's last meetings prompt diversity looks at.", "§6.2"),
    "diversity_most": ("", "§6.2"),
    "traffic_cap": (
        "=The largest share of the window's matchups that one model may take part in: a new model "
        "would otherwise take most of the traffic.",
        "ours",
    ),
    "traffic_cap_even_shares": (
        "=In small arenas the cap is this many even shares, where that is more: with "
        "three models an even share is two thirds.",
        "ours",
    ),
    "traffic_cap_from": (
        "=The cap holds once the window has this many matchups, and over the latest so many too.",
        "ours",
    ),
    "texts_public": ("When answers are public with their authors.", "ours"),
    "matchup_expires_seconds": ("How long a served matchup can be voted on.", "§11"),
    "undo_seconds": ("", "ours"),
    "snapshot_seconds": ("How often ratings are put down for histories.", "§9.2"),
}

PLACEMENT_ONLY = {"inline_human": "Save human battles one by one; `--no-inline-human` saves counts by pair."}

SITE = {
    "db": "The arena's database: `--db`, or `TILTYARD_DB`.",
    "title": "What the site is called: `--title`.",
    "secret": "Signs cookies and forms: `TILTYARD_SECRET`; if unset, a random one that the database keeps.",
    "admin_secret": "Opens `/admin`, which is off without it: `TILTYARD_ADMIN_SECRET`.",
    "trusted_proxies": "Networks whose forwarded addresses are believed: `--trusted-proxy`, given again for each.",
    "rate_limit": "Whether limits hold; `--no-rate-limit` is for load tests.",
    "public_url": "The address that visitors use, where a proxy hides it: `--public-url`.",
    "notice": "A sentence shown on every page: `--notice`.",
    "longest_wait": "Seconds: a page or a new matchup that would wait longer is refused with 503, a vote at five times "
    "as long: `--longest-wait`.",
}

SIMULATION = {
    "models": "Models in the arena: `--models`.",
    "prompts": "Prompts in the arena: `--prompts`.",
    "votes": "Counted votes to cast: `--votes`.",
    "in_flight": "Matchups being looked at all the time: `--in-flight`.",
    "seed": "Seed of everything: `--seed`.",
    "sd": "Spread of the true strengths, in Elo points: `--sd`.",
    "tie_rate": "Share of ties: `--tie-rate`.",
    "both_bad_rate": "Share of both-bad votes: `--both-bad-rate`.",
    "wobble_sd": "How much strengths differ from prompt to prompt, in Elo points.",
    "noise": "Share of honest votes that are cast by lot: `--noise`.",
    "attack": "Who else votes, and how much: `--attack`, `--attack-share`.",
    "late_model": "Whether the last model enters when half of the votes are cast: `--late-model`.",
    "skip_rate": "Share of matchups that are skipped.",
    "expire_rate": "Share that is left to expire.",
    "session_votes": "Votes of one visitor, on average.",
    "curve_points": "How often on the way the order is compared with the truth.",
    "phase": "Phase of the rollout.",
    "policy": "The policy: `--policy`; see above.",
}

GLICKO2 = {
    "rating": "Where a model starts.",
    "deviation": "How uncertain it is at first.",
    "volatility": "How much its skill is expected to drift, at first. Not Glickman's 0.06: a battle is a rating "
    "period here.",
    "tau": "How fast volatilities may change; 0.3 to 1.2 are reasonable.",
    "scale": "Rating points per unit of Glickman's internal scale: 400 / ln 10.",
    "deviation_min": "Smallest deviation.",
    "deviation_max": "Largest deviation.",
    "epsilon": "Where the solver of step 5 stops.",
    "max_iterations": "How many of its steps may pass before bisection takes over.",
}

RATING_ONLY = {
    "selection": "The filters that all methods share: `--source`, `--dimension`, `--both-bad`, "
    "`--inconsistent`, `--min-battles`.",
    "parameters": "Constants of Glicko-2; see below.",
}

ENVIRONMENT = {
    "ANTHROPIC_API_KEY": ("Key for `anthropic/…`.", "–"),
    "OPENAI_API_KEY": ("Key for `openai/…`.", "–"),
    "LOCAL_API_KEY": ("Key for `local/…` servers that want one.", "–"),
    "ANTHROPIC_BASE_URL": ("Another address for `anthropic/…`.", "the maker's"),
    "OPENAI_BASE_URL": ("Another address for `openai/…`.", "the maker's"),
    "LOCAL_BASE_URL": ("Address of `local/…`, such as `http://localhost:8000/v1`.", "–"),
    "TILTYARD_DB": ("The arena's database, in place of `--db`.", "`sqlite:///arena.db`"),
    "TILTYARD_SECRET": (
        "Signs the site's cookies and forms; at least 16 characters. Without it the site makes a random one at its "
        "first start and keeps it in its database, and so in every copy of it.",
        "random, kept",
    ),
    "TILTYARD_ADMIN_SECRET": ("Opens `/admin`; at least 16 characters.", "off"),
    "TILTYARD_SITE_SETTINGS": ("How `serve` hands its settings to worker processes. Not for people.", "–"),
    "TILTYARD_COMPILE": ("Whether Elo and Glicko-2 loops are compiled (numba): `auto`, `always` or `never`.", "`auto`"),
    "TILTYARD_CACHE_DIR": ("Folder for compiled code.", "`~/.cache/tiltyard`"),
    "XDG_CACHE_HOME": ("Where that folder lies on Linux, if `TILTYARD_CACHE_DIR` is not set.", "`~/.cache`"),
    "OPENBLAS_NUM_THREADS": (
        "Threads of the linear algebra; the command line sets 1 unless you set it, because many "
        "small systems are slower with two.",
        "`1`",
    ),
    "DATABASE_URL": ("Tests only: a PostgreSQL server to use in place of one that they start.", "–"),
}

BARE_OPTIONS = {"initial_rating": "Where every model starts."}
"""Options whose help is nothing but a default."""
