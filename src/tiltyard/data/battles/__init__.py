"""Battles: one as a record, files of them, and tables of millions."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.data.battles.battle import FLAGS, OUTCOME_LABELS, SOURCE_LABELS, Battle, Outcome, Source
    from tiltyard.data.battles.careful import BadRows, file_lines
    from tiltyard.data.battles.conversations import (
        COLUMNS,
        BattleConversations,
        Dialogue,
        MissingText,
        Turns,
        read_conversations,
        read_dialogue,
    )
    from tiltyard.data.battles.eval_logs import (
        ScoredAnswer,
        ScoredRun,
        battle_score,
        check_tie_band,
        distinct_names,
        pair_scores,
        path_ends,
    )
    from tiltyard.data.battles.fast import (
        LONG_LINE_BYTES,
        about_rows,
        cell_sql,
        cells_of,
        check_condition,
        check_where,
        enumerated,
        file_rows,
        filtered,
        identifier,
        literal,
        session,
        text_sql,
    )
    from tiltyard.data.battles.formats import (
        FORMAT_NAMES,
        FORMATS,
        LIKELY,
        LOG_FORMATS,
        NO_MAP,
        OTHER_NAMES,
        PROMPT_COLUMNS,
        Format,
        likely_clusters,
        likely_dimension,
        listed,
    )
    from tiltyard.data.battles.frames import (
        ReusableFrame,
        columns_to_arrow,
        columns_to_frame,
        columns_to_pandas,
        columns_to_polars,
    )
    from tiltyard.data.battles.inputs import (
        BATTLES,
        MANIFEST,
        MATCHES,
        SCORES,
        BattleFile,
        FileKind,
        Header,
        RawColumn,
        find_parts,
        header_of_rows,
        json_object,
        run_files,
        suffix_kind,
    )
    from tiltyard.data.battles.label_sheets import (
        SIDES,
        SheetDraw,
        SheetKey,
        SheetMatchup,
        draw_matchups,
        find_key,
        from_spreadsheet,
        is_sheet,
        read_filled_rows,
        read_sheet,
    )
    from tiltyard.data.battles.layout import Layout, ReadBattlesOptions, plain_columns
    from tiltyard.data.battles.log_readers import LM_EVAL_SUMMARY, PAIR_KEYS, log_reader, read_runs
    from tiltyard.data.battles.missing_verdicts import (
        NO_ANSWER,
        MissingCounts,
        MissingMatchup,
        MissingVerdicts,
        no_go,
        read_missing,
        together,
    )
    from tiltyard.data.battles.reading import (
        BattleData,
        Opened,
        Peek,
        find_problems,
        frame_rows,
        oddities,
        peek,
        read_battles,
    )
    from tiltyard.data.battles.spark import GroupScores, SparkSource, groups
    from tiltyard.data.battles.stats import BattleStats, battle_stats
    from tiltyard.data.battles.table import MISSING, BattleTable, Codes, Column, concat, merge_equal
    from tiltyard.data.battles.writing import (
        battles_to_frame,
        kind_to_write,
        same_parquet,
        write_battles,
        write_dataset,
        write_lines,
    )

__all__ = [
    "FORMAT_NAMES", "Battle", "BattleStats", "BattleTable", "Codes", "Outcome", "Source", "battle_score",
    "battle_stats", "battles_to_frame", "find_problems", "peek", "read_battles", "write_battles",
]

__getattr__ = names_on_demand(__name__)
