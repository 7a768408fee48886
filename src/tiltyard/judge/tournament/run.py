"""A tournament run: judge, rate, write; what the terminal says of it, and the pilot's gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import fields, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import msgspec

from tiltyard.analysis.boards import RatingsFile, as_table
from tiltyard.data.bank import AnswerStyles, PlainValue
from tiltyard.errors import OptionError
from tiltyard.files import remove_unfinished, write_json
from tiltyard.judge.llm import AskingParts, AskingSettings, PriceTable, Watch, parse_model_name
from tiltyard.judge.tournament.artifacts import (
    RunResults,
    dimension_results,
    failed_questions,
    forget_other_dimensions,
    manifest,
    own_counts,
    write_judge_prompts,
    write_matches,
    write_panel_battles,
    write_standings,
    write_verdicts,
)
from tiltyard.judge.tournament.config import EloSettings, Setup
from tiltyard.judge.tournament.people import CalibratedBoard, calibrate_run
from tiltyard.judge.tournament.plan import RunPlan
from tiltyard.judge.tournament.ratings import DimensionRatings, baseline_text, panel_warnings, rate_dimension
from tiltyard.judge.tournament.rounds import (
    ROUNDS_FILE,
    OnRound,
    RoundsFile,
    RoundsResult,
    board_after_rounds,
    judge_in_rounds,
    outcome_lines,
    rounds_file,
)
from tiltyard.judge.tournament.scoring import DimensionScores, RunScores, people_score, rate_scores
from tiltyard.judge.verdicts import (
    MOST_INCONSISTENT,
    Case,
    Check,
    Clock,
    Judge,
    JudgeFunction,
    JudgeSettings,
    JudgingPlan,
    JudgingResult,
    Judgment,
    OnVerdict,
    PanelJudge,
    PanelMember,
    PanelStudy,
    add_stats,
    canary_cases,
    canary_report,
    case_of_each,
    iso_time,
    judge,
    judge_by_name,
    new_folder,
    panel_members,
    prompt_columns,
    scores_of,
    single_canaries,
    study_panel,
    time_stamp,
    usage_report,
    utc_now,
)
from tiltyard.render import Table, plural
from tiltyard.types import Comparable

Notice = Callable[[str], None]
JUDGE = frozenset(field.name for field in fields(JudgeSettings))
ASKING = frozenset(field.name for field in fields(AskingSettings))
"""Settings of a judge and of asking; the file states those that it has by the same names."""


class RunResult(Comparable, msgspec.Struct, frozen=True, eq=False):
    """A finished run: where it is, and its results."""

    folder: Path
    standings: dict[str, DimensionRatings]
    judged: JudgingResult
    checks: list[Check] = msgspec.field(default_factory=list)
    calibrated: dict[str, CalibratedBoard] = msgspec.field(default_factory=dict)
    studies: dict[str, PanelStudy] = msgspec.field(default_factory=dict)
    """What the judges of a panel agree on, by dimension; empty for a single judge."""
    rounds: RoundsResult | None = None
    canaries: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """How the judge did on the canaries, by dimension; empty without any."""
    scores: RunScores = msgspec.field(default_factory=lambda: RunScores({}, {}))

    @property
    def report(self) -> Path:
        return self.folder / "report.html"

    @property
    def boards(self) -> dict[str, RatingsFile]:
        return {name: one.board for name, one in self.standings.items() if one.board is not None}

    @property
    def passed(self) -> bool:
        return passes(self.checks)

    def notes(self) -> list[str]:
        one_order = f"{self.judged.judge_model} saw one order only: its position bias is in these numbers"
        return [*([] if self.judged.both_orders else [one_order]), *usage_lines(self.judged)]

    def __str__(self) -> str:
        lines = []
        for dimension, standing in self.standings.items():
            if dimension in self.calibrated:
                lines.append(f"{dimension}, corrected by people's labels\n{self.calibrated[dimension].text()}\n")
            alone = ", by the judge alone" if dimension in self.calibrated else ""
            lines.append(f"{dimension}{alone}\n{board_text(standing)}")
            if dimension in self.studies:
                study = self.studies[dimension]
                combine = "" if self.judged.panel is None else self.judged.panel.combine
                lines += [*study.lines(), *panel_warnings(msgspec.to_builtins(study), combine)]
            lines.append("")
        if self.scores.dimensions:
            lines.append(score_text(self.scores) + "\n")
        told = [*canary_lines(self.canaries), *failure_lines(self.judged)]
        ending = [summary_table(self.standings)] if self.standings else []
        lines.append("\n".join([*told, *([""] if told and ending else []), *ending]))
        lines += [] if self.rounds is None else ["", *outcome_lines(self.rounds)]
        return "\n".join([*lines, *(["", *verdict_lines(self.checks)] if self.checks else [])])


def make_judging_plan(plan: RunPlan) -> JudgingPlan:
    """What the judge is asked about: every match, and the canaries if the config enables them."""
    scored = {scores_of(name): how for name, how in plan.setup.scoring.items()}
    pairs = {rubric.dimension: rubric for rubric in plan.rubrics if plan.setup.config.judge.task != "scores"}
    rubrics = pairs | {scores_of(rubric.dimension): rubric for rubric in plan.rubrics if scored}
    canaries: dict[str, Sequence[Case]] = {}
    if plan.setup.config.canaries:
        canaries = {**canary_cases(pairs), **{name: single_canaries(name) for name in scored}}
    singles = {scores_of(name): cases for name, cases in plan.matches.answers.items()}
    return JudgingPlan(rubrics, {**plan.matches.by_dimension, **singles}, canaries, scored)


def make_judge(
    setup: Setup,
    judge_model: str,
    asking: AskingParts,
    *,
    silent: bool = False,
    functions: bool | JudgeFunction = False,
) -> Judge:
    """The judge of a run, configured as the config says; a `silent` one only reads its cache and needs no key.

    The name of a panel makes a panel. A member that the config lists has its settings from there. `functions` says
    whether a judge `python:…` may be imported, or is that judge.
    """
    members = panel_members(judge_model)
    if not members:
        return _single_judge(setup, PanelMember(model=judge_model), asking, silent=silent, functions=functions)
    listed = {member.model: member for member in setup.config.judge.members}
    chosen = [listed.get(name) or PanelMember(model=name) for name in members]
    sent: dict[str, str] = {}
    for member in chosen:
        same = sent.setdefault(parse_model_name(member.model).model, member.model)
        if same != member.model:
            raise OptionError(
                f"{same} and {member.model} send the same model name, so the cache could not tell their verdicts "
                "apart. Let one of the servers use another name."
            )
    judges = [
        _single_judge(setup, member, asking, silent=silent, in_panel=True, functions=functions) for member in chosen
    ]
    return PanelJudge(judges, folder=setup.judgments_dir, asking=asking, combine=setup.config.judge.combine)


def _single_judge(
    setup: Setup,
    member: PanelMember,
    asking: AskingParts,
    *,
    silent: bool,
    in_panel: bool = False,
    functions: bool | JudgeFunction = False,
) -> Judge:
    config, name = setup.config.judge, parse_model_name(member.model)
    if name.provider == "recorded" and config.repeats > 1 and not in_panel:
        raise OptionError(f"{member.model} is a recording, which cannot be asked {config.repeats} times. Drop repeats.")
    # The config's headers go only to the config's own address.
    address = member.base_url or None
    if address is None and config.base_url is not None:
        # It is for judges on a server of one's own, or a gateway, if every judge of the config is of one provider.
        makers = {parse_model_name(one).provider for one in config.named if one}
        gateway = makers == {name.provider}
        address = config.base_url if gateway else name.shared_address(config.base_url, config.named)
    shared = member.base_url is None and (config.base_url is None or address is not None)
    headers = member.headers if member.headers is not None else config.headers if shared else {}
    stated = {key: value for key, value in msgspec.structs.asdict(config).items() if key in JUDGE}
    settings = msgspec.structs.asdict(member)
    of_member = {key: settings[key] for key in JUDGE & settings.keys() if settings[key] is not None}
    return judge_by_name(
        JudgeSettings(**stated | of_member),
        folder=setup.judgments_dir,
        asking=replace(asking, headers=headers),
        base_url=address,
        look_in=(setup.path.parent, Path()),
        silent=silent,
        functions=functions,
    )


def asking_parts(setup: Setup, notice: Notice, *, budget_usd: float | None, max_batch: int | None) -> AskingParts:
    """How models are asked: the config's settings, with what the command line changes."""
    config = setup.config.judge
    asked = {"budget_usd": budget_usd, "max_batch": max_batch or None}
    stated = {name: value for name, value in msgspec.structs.asdict(config).items() if name in ASKING}
    settings = AskingSettings(**stated | {name: value for name, value in asked.items() if value is not None})
    return AskingParts.for_command(settings, notice, setup.prices_path, stated=config.prices)


def run_folder(plan: RunPlan, now: Clock) -> Path:
    """The folder of a run: the one given, or `runs/<mode>_<UTC time>`."""
    if plan.options.output_dir is not None:
        return plan.options.output_dir
    return new_folder(Path("runs") / f"{plan.options.mode}_{time_stamp(now)}")


async def run_tournament(
    plan: RunPlan,
    judging_plan: JudgingPlan,
    chosen: Judge,
    folder: Path,
    *,
    prices: PriceTable,
    now: Clock = utc_now,
    watch: Watch | None = None,
    on_verdict: OnVerdict | None = None,
    on_round: OnRound | None = None,
    on_standing: Callable[[DimensionRatings], None] | None = None,
) -> RunResult:
    """Judge, rate and write everything. If interrupted at any point, the same command continues where it stopped.

    With `plan.rounds` the matches are judged in adaptive rounds; `on_round` is called after each. `on_standing` is
    called with the numbers of a dimension that is settled while others are still being judged.
    """
    started = iso_time(now)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "manifest.json", manifest(plan, started_at=started, finished_at=None))
    write_judge_prompts(folder, plan)
    early: dict[str, DimensionRatings] = {}
    all_cases = judging_plan.cases

    def settled(dimension: str, judgments: Sequence[Judgment]) -> None:
        """Rate a dimension that is settled while others are still being judged, and tell."""
        cases = case_of_each(all_cases.get(dimension, ()), len(judgments))
        early[dimension] = rate_dimension(
            dimension, judgments, plan.elo, chosen.name, cases=cases, baseline=plan.baseline
        )
        if on_standing is not None:
            on_standing(early[dimension])

    rounds: RoundsResult | None = None
    async with aclosing(chosen):
        if plan.rounds is None:
            (folder / ROUNDS_FILE).unlink(missing_ok=True)
            write_matches(folder, plan.matches)
            judged = await judge(
                judging_plan,
                chosen,
                skip_judging=plan.options.skip_judging,
                prewarm=plan.prewarm,
                retry_failed=plan.options.retry_failed,
                single_order=True,
                watch=watch,
                on_verdict=on_verdict,
                on_settled=None if on_standing is None else settled,
            )
        else:
            rounds = await judge_in_rounds(
                plan.rounds,
                judging_plan,
                plan.setup.entrant_ids,
                chosen,
                folder,
                skip_judging=plan.options.skip_judging,
                prewarm=plan.prewarm,
                retry_failed=plan.options.retry_failed,
                watch=watch,
                on_verdict=on_verdict,
                on_round=on_round,
            )
            judging_plan, judged = rounds.judging_plan, rounds.judged
            plan = replace(plan, matches=replace(plan.matches, by_dimension=judging_plan.cases))
            write_matches(folder, plan.matches)
    cases = plan.matches.by_dimension
    columns = {prompt.prompt_id: prompt_columns(prompt) for prompt in plan.selected}
    standings = rate_all(
        judged,
        plan.elo,
        folder,
        cases=cases,
        columns=columns,
        baseline=plan.baseline,
        rated=early,
        rounds=None if rounds is None else rounds_file(rounds.settings, rounds.dimensions),
        entrants=plan.setup.entrant_ids,
    )
    usage = usage_report(judged, prices)
    write_json(folder / "usage.json", usage)
    by_scores = people_score(plan.labels)
    scores = rate_scores(folder, judged, plan.setup.scoring, plan.matches, usage, plan.labels if by_scores else None)
    write_panel_battles(folder, judged.panel, list(standings), columns)
    labels = None if by_scores else plan.labels
    calibrated = {} if labels is None else calibrate_run(folder, labels, standings, judged.judge_model)
    canaries = canary_report(judging_plan, judged.canaries)
    matches = plan.matches
    answers = answers_check(matches.cells_present, matches.cells_expected, plan.left_out)
    checks = gate(answers, judged, standings, canaries, scores.dimensions) if plan.options.mode == "pilot" else []
    studies = study_panel(judging_plan, judged)
    result = RunResult(folder, standings, judged, checks, calibrated, studies, rounds, canaries, scores)
    results = run_results(judged, standings, studies, canaries, checks, None if labels is None else calibrated)
    finished = manifest(plan, started_at=started, finished_at=iso_time(now), results=results)
    write_json(folder / "manifest.json", finished)
    remove_unfinished(folder)
    return result


def run_results(
    judged: JudgingResult,
    standings: Mapping[str, DimensionRatings],
    studies: Mapping[str, PanelStudy],
    canaries: Mapping[str, Any],
    checks: Sequence[Check],
    calibrated: Mapping[str, CalibratedBoard] | None,
) -> RunResults:
    """What a run's manifest says at its end."""
    unset = msgspec.UNSET
    return RunResults(
        both_orders=judged.both_orders,
        dimensions={name: dimension_results(judged, standing) for name, standing in standings.items()},
        panel=unset
        if judged.panel is None
        else {"judges": list(judged.panel.members), "combine": judged.panel.combine, "dimensions": dict(studies)},
        canaries=dict(canaries) or unset,
        calibration=unset if calibrated is None else {name: one.record() for name, one in calibrated.items()},
        gate=list(checks) or unset,
    )


def rate_all(
    judged: JudgingResult,
    elo: EloSettings,
    folder: Path,
    *,
    cases: Mapping[str, Sequence[Case]] | None = None,
    columns: Mapping[str, Mapping[str, PlainValue]] | None = None,
    baseline: str | None = None,
    rated: Mapping[str, DimensionRatings] | None = None,
    rounds: RoundsFile | None = None,
    entrants: Sequence[str] = (),
) -> dict[str, DimensionRatings]:
    """Rate every dimension, and write verdicts and numbers.

    `cases` are what was judged, by dimension; `columns` is what battles say about their prompts, by prompt; `baseline`
    is the entrant that all others met, if there is one; `rated` are the numbers of dimensions that were settled before;
    `rounds` is what adaptive rounds decided about the `entrants`.
    """
    standings, styles = {}, AnswerStyles()
    for dimension, judgments in judged.judgments.items():
        write_verdicts(folder, dimension, judgments)
        standings[dimension] = (rated or {}).get(dimension) or rate_dimension(
            dimension,
            judgments,
            elo,
            judged.judge_model,
            cases=None if cases is None else case_of_each(cases.get(dimension, ()), len(judgments)),
            styles=styles,
            baseline=baseline,
            level=0.95 if rounds is None else rounds.interval_level,
            amend=None
            if rounds is None
            else partial(board_after_rounds, rounds=rounds, dimension=dimension, entrants=entrants),
        )
    write_standings(folder, standings, elo.default_k, columns)
    forget_other_dimensions(folder, standings)
    return standings


# What the terminal says, and the gate of a pilot


_MOST_NAMED = 3
MOST_VALUES = 12
"""With more different scores than this, how often each was given is not listed."""


def summary_table(standings: Mapping[str, DimensionRatings]) -> str:
    """Entrants × dimensions: permutation Elo ± shuffle error, the sampling interval below, decisive matches last.

    The highest mean over the dimensions comes first.
    """
    ratings: dict[str, list[float]] = {}
    for standing in standings.values():
        for name, elo in standing.elo.items():
            ratings.setdefault(name, []).append(elo.mean)
    entrants = sorted(ratings, key=lambda name: (-sum(ratings[name]) / len(ratings[name]), name))
    if not entrants:
        return "no Elo results: no dimension has a decisive match"
    header = ["entrant", *standings]
    rows = []
    for name in entrants:
        means, ranges = [name], [""]
        for line in (standing.elo.get(name) for standing in standings.values()):
            sem = "" if line is None or line.sem is None else f" ± {line.sem:.2f}"
            means.append("–" if line is None else f"{line.mean:.1f}{sem}")
            if line is None or line.sampling_low is None:
                ranges.append("" if line is None else "no interval")
            else:
                ranges.append(f"{line.sampling_low:.0f} … {line.sampling_high:.0f}")
        rows += [means, ranges]
    rows.append(["decisive matches", *(f"{standing.n_decisive:,}" for standing in standings.values())])
    title = "Elo averaged over shuffles: mean ± shuffle error only; below it the 95 % interval over prompts"
    return "\n".join([title, *Table.of(header, rows).text(last=1)])


def board_text(standing: DimensionRatings) -> str:
    """A dimension's Bradley–Terry board, or why there is none, and below it what the judge's habits mean for it.

    In a run against a baseline, the win rates against it come first.
    """
    board = standing.leaderboard
    against = [] if standing.against is None else [baseline_text(standing.against), ""]
    table = f"no board: {standing.board_missing}" if board is None else as_table(board)
    return "\n".join([*against, table, *standing.habits.lines()])


def canary_lines(canaries: Mapping[str, Any]) -> list[str]:
    """Per dimension: how the judge did on the canaries, and of each that it missed, what it said."""
    lines = []
    for dimension, scores in canaries.items():
        missed, undecided = scores["missed"], scores["asked"] - scores["right"] - len(scores["missed"])
        ties = f", {undecided} tied, which this rubric allows" if undecided else ""
        if not missed:
            lines.append(f"{dimension}: canaries: {scores['right']} of {scores['asked']} right{ties}")
            continue
        lines.append(
            f"WARNING: {dimension}: the judge missed {len(missed)} of {scores['asked']} canaries, pairs with a clearly "
            f"better answer{ties}. Do not trust this board; try another judge or a clearer rubric"
        )
        lines += [f"  {one['canary']} ({one['kind']}): {one['answer']}" for one in missed]
    return lines


def failure_lines(judged: JudgingResult) -> list[str]:
    """Per dimension that has any: the failed verdicts, by name, and the missing ones."""
    lines = []
    for dimension in judged.judgments:
        counts = own_counts(judged, dimension)
        words = [f"{count:,} {name}" for name, count in counts.failed_verdicts.items()]
        words += [f"{counts.missing_verdicts:,} never asked for"] if counts.missing_verdicts else []
        if words:
            lines.append(f"{dimension}: verdicts that failed, which are in no rating: {', '.join(words)}")
            shown = failed_questions(judged, dimension, most=_MOST_NAMED)
            lines += [f"  {one.prompt_id}, {one.entrant_a} – {one.entrant_b}: {one.error}" for one in shown]
            more = counts.failed_verdicts.total() - len(shown)
            lines += [f"  and {more:,} more, named in the report"] if more else []
    return lines


def usage_lines(judged: JudgingResult) -> list[str]:
    """Per dimension: what was cached, what was asked, and its cost."""
    lines = []
    for dimension, stats in judged.stats.items():
        usage = stats.usage
        failures = ", ".join(f"{count} {name}" for name, count in stats.failures.items())
        cost = "price unknown" if stats.cost is None else f"${stats.cost:,.2f}"
        if stats.replies_without_usage:
            cost += f", and unknown for {plural(stats.replies_without_usage, 'reply')} whose tokens were not stated"
        lines.append(
            f"{dimension}: {stats.cache_hits:,} cached, {stats.fresh_calls:,} fresh; "
            f"cache written {usage.cache_creation_input_tokens:,}, read {usage.cache_read_input_tokens:,}; "
            f"input {usage.input_tokens:,}, output {usage.output_tokens:,} tokens; {cost}"
            + (f"; failed: {failures}" if failures else "")
            + (f"; {stats.missing:,} verdicts missing" if stats.missing else "")
        )
    for name, of_dimensions in judged.panel.member_stats.items() if judged.panel is not None else ():
        stats = reduce(add_stats, of_dimensions.values())
        cost = "price unknown" if stats.cost is None else f"${stats.cost:.2f}"
        failed = sum(stats.failures.values())
        lines.append(
            f"{name}: {stats.cache_hits:,} cached, {stats.fresh_calls:,} fresh; "
            f"input {stats.usage.input_tokens:,}, output {stats.usage.output_tokens:,} tokens; {cost}"
            + (f"; {failed:,} questions failed" if failed else "")
        )
    return lines


MOST_FAILED = 0.05
"""Above this share of failed judgments the judge does not follow the rubric; more money will not fix that."""

FEWEST_DECISIVE = 10
"""Below this many decisive matches a dimension cannot order even two entrants."""


def answers_check(cells_present: int, cells_expected: int, left_out: Sequence[str]) -> Check:
    """Whether every entrant answered everything."""
    return Check(
        "answers complete",
        cells_present == cells_expected and not left_out,
        f"{cells_present} of {cells_expected} cells"
        + (f", and no answers of {', '.join(left_out)}" if left_out else ""),
    )


def gate(
    answers: Check,
    judged: JudgingResult,
    standings: Mapping[str, DimensionRatings],
    canaries: Mapping[str, Any] | None = None,
    scores: Mapping[str, DimensionScores] | None = None,
) -> list[Check]:
    """The checks of every dimension, after that of the answers; `canaries` as `canary_report` gives them."""
    by_votes = judged.panel is not None and judged.panel.combine != "rows"
    why = "have no majority" if by_votes else "changed with the order of the answers"
    checks = [answers]
    for dimension, standing in standings.items():
        failures = own_counts(judged, dimension).failed_verdicts
        names = ", ".join(f"{count} {name}" for name, count in failures.items()) or "none"
        settled = sum(pair.a_wins + pair.b_wins + pair.ties for pair in standing.pairs)
        cases = own_counts(judged, dimension).judgments
        failed = cases - settled
        contradicted = sum(pair.inconsistent for pair in standing.pairs)
        checks += [
            Check(
                f"{dimension}: verdicts readable",
                failed <= MOST_FAILED * max(cases, 1),
                f"{failed} of {cases} judgments failed ({names})",
            ),
            Check(
                f"{dimension}: judge consistent",
                contradicted <= MOST_INCONSISTENT * max(settled, 1),
                f"{contradicted} of {settled} judgments {why}",
            ),
            Check(
                f"{dimension}: enough decisive matches",
                standing.n_decisive >= FEWEST_DECISIVE,
                f"{standing.n_decisive} decisive",
            ),
        ]
        checks += _canary_checks(dimension, canaries)
    for dimension, own in (scores or {}).items():
        name = scores_of(dimension)
        names = ", ".join(f"{count} {word}" for word, count in own.failures.items()) or "none"
        told = [warning for one in own.metrics if (warning := one.use.warning(one.metric))]
        checks += [
            Check(
                f"{name}: scores readable",
                own.failed <= MOST_FAILED * max(own.answers, 1),
                f"{own.failed} of {own.answers} answers failed ({names})",
            ),
            Check(f"{name}: scale used", not told, "; ".join(told) or "scores vary"),
            *_canary_checks(name, canaries),
        ]
    return checks


def _canary_checks(dimension: str, canaries: Mapping[str, Any] | None) -> list[Check]:
    if not canaries or dimension not in canaries:
        return []
    missed, asked = [one["canary"] for one in canaries[dimension]["missed"]], canaries[dimension]["asked"]
    detail = f"missed {len(missed)} of {asked}: {', '.join(missed)}" if missed else f"{asked} judged"
    return [Check(f"{dimension}: no canary missed", not missed, detail)]


def score_text(scores: RunScores) -> str:
    """The boards of means, the judge's use of its scale, and what scores and pairs cost."""
    lines: list[str] = []
    for dimension, own in scores.dimensions.items():
        for board in scores.boards[dimension]:
            lines += [*board.table().text(), ""]
        for metric in own.metrics:
            given = ", ".join(f"{value} in {count:,}" for value, count in metric.use.given.items())
            if len(metric.use.given) <= MOST_VALUES:
                lines.append(f"{metric.metric}: scores {own.scale}, given: {given or 'none'}")
            if metric.people is not msgspec.UNSET:
                both = metric.people
                matched = "–" if both.correlation is None else f"{both.correlation:.2f}"
                lines.append(
                    f"{metric.metric}: people scored {both.answers:,} of these answers: correlation {matched}, the "
                    f"judge {both.judge_minus_people:+.2f} on average, {both.equal:.0%} equal"
                )
            for one in () if metric.corrected is msgspec.UNSET else metric.corrected:
                ends = "" if one.low is None or one.high is None else f" ({one.low:+.2f} to {one.high:+.2f})"
                lines.append(
                    f"{metric.metric}, corrected by people: {one.new} − {one.old} {one.difference:+.2f}{ends}; the "
                    f"judge counts {one.judge_weight:.2f}"
                )
            if metric.corrected is not msgspec.UNSET:
                lines.append(
                    f"{metric.metric}: that holds if the prompts that people scored are a random draw; nothing "
                    "records how they were drawn"
                )
        if own.against_pairs is not msgspec.UNSET:
            lines.append(f"{dimension}: {own.against_pairs.sentence}")
        lines += [f"WARNING: {line}" for line in own.warnings]
        lines.append("")
    return "\n".join(lines).rstrip()


def passes(checks: Sequence[Check]) -> bool:
    """Whether the pilot says GO."""
    return all(check.passed for check in checks)


def verdict_lines(checks: Sequence[Check]) -> list[str]:
    """The gate as text: GO or NO-GO, then every check."""
    head = "GO: the pilot found nothing against the headline run" if passes(checks) else "NO-GO: see what failed below"
    return [head, *(f"  {'ok  ' if check.passed else 'FAIL'} {check.check}: {check.detail}" for check in checks)]
