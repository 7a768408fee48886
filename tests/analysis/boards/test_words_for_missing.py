"""`NA` and its like: a clear line where a value is needed, a name like any other where a model is named."""

from __future__ import annotations

import pytest

import tiltyard as ty
from tiltyard.errors import BadRow

HEAD = "model_a,model_b,winner,source,weight,score_a,timestamp,len_a,len_b,inconsistent"
GOOD = "a,b,model_a,human,1,0.9,1,3,4,false"


@pytest.mark.parametrize("word", ["NA", "null", "?"])
@pytest.mark.parametrize(
    ("column", "options"),
    [
        ("winner", {}),
        ("source", {}),
        ("weight", {}),
        ("score_a", {}),
        ("timestamp", {"method": "elo"}),
        ("len_a", {"control": ["len"]}),
        ("inconsistent", {"inconsistent": "drop"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_word_for_missing_is_one_line_with_file_line_value_and_advice(tmp_path, column, word, options):
    cells = GOOD.split(",")
    cells[HEAD.split(",").index(column)] = word
    path = tmp_path / "na.csv"
    path.write_text("\n".join([HEAD, GOOD, ",".join(cells), GOOD]) + "\n", encoding="utf-8")
    with pytest.raises(BadRow) as caught:
        ty.rate(path, **options)
    message = str(caught.value)
    assert message.startswith(f"{path}:3: ")
    assert f"{column} is '{word}'" in message
    assert 'on_bad="skip"' in message
    assert "\n" not in message


def test_a_control_that_is_text_in_memory_says_what_stands_there():
    rows = [dict(zip(HEAD.split(","), GOOD.split(","), strict=True)) | {"weight": 1, "score_a": 0.9} for _ in range(2)]
    table = ty.read_battles([{**row, "len_a": "NA"} for row in rows], columns=["len_a", "len_b"])
    with pytest.raises(ty.TiltyardError, match="'len_a' holds text, such as 'NA': expected numbers"):
        ty.rate(table, control=["len"])


@pytest.mark.parametrize("name", ["NA", "N/A", "null", "None", "nan", "true", "001", "1e3"])
@pytest.mark.parametrize("separator", [",", "\t"])
def test_a_model_may_be_called_like_a_word_for_missing(tmp_path, name, separator):
    rows = ["model_a,model_b,winner,source", f"{name},b,model_a,human", f"b,{name},model_a,human"]
    path = tmp_path / ("na.csv" if separator == "," else "na.tsv")
    path.write_text("\n".join(rows).replace(",", separator) + "\n", encoding="utf-8")
    assert {entry.model: entry.n_battles for entry in ty.rate(path)} == {name: 2, "b": 2}
