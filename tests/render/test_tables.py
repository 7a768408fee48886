"""One table in all its forms."""

from __future__ import annotations

from tiltyard.render import Table, TableColumn, environment

NAMES = Table(
    [TableColumn("name"), TableColumn("battles", "count"), TableColumn("rating", "figure", 1, "–")],
    [["otter", 1200.0, 1012.34], ["<b>|heron</b>", 2.5, None], ["wren", "never met anybody who was rated"]],
)


def test_numbers_stand_to_the_right_and_a_short_row_runs_on() -> None:
    assert NAMES.text() == [
        "name           battles  rating",
        "─" * 46,
        "otter            1,200  1012.3",
        "<b>|heron</b>      2.5       –",
        "wren           never met anybody who was rated",
    ]


def test_no_cell_becomes_markup_or_a_column() -> None:
    assert "| &lt;b>\\|heron&lt;/b> | 2.5 | – |" in NAMES.markdown()
    assert "<td>&lt;b&gt;|heron&lt;/b&gt;</td>" in NAMES.html()


def test_csv_has_the_values_themselves() -> None:
    assert NAMES.csv().splitlines()[1:3] == ["otter,1200.0,1012.34", "<b>|heron</b>,2.5,"]


def test_a_template_escapes_every_text_and_shows_control_characters() -> None:
    shown = environment().from_string('<i title="{{ name }}">{{ name }}</i>').render(name='"<script>\x07\x1b')
    assert shown == '<i title="&#34;&lt;script&gt;␇␛">&#34;&lt;script&gt;␇␛</i>'


def test_in_latex_no_name_is_a_command_and_figures_stand_to_the_right() -> None:
    table = Table([TableColumn("model"), TableColumn("95 % interval", left=False)], [[r"a_b & \x{#}", "−3 – 4"], ["c"]])
    assert table.latex("50 % of $", ["† few"]).splitlines() == [
        r"\begin{table}",
        r"\centering",
        r"\caption{50 \% of \$}",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"model & 95 \% interval \\",
        r"\midrule",
        r"a\_b \& \textbackslash{}x\{\#\} & $-$3 -- 4 \\",
        r"c &  \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\par\smallskip\footnotesize \dag{} few",
        r"\end{table}",
    ]
