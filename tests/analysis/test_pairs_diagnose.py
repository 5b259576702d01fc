"""`diagnose`: the oracle's cases as data in and data out, its errors, its command."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from pair_cases import CASES, JOINT_TOLERANCE, TABLE_CASES, TOLERANCE

from mlm_consistency.analysis import diagnose as module
from mlm_consistency.analysis.diagnose import diagnose
from mlm_consistency.cli.diagnose import run
from mlm_consistency.errors import DataError

HALF = [[0.5, 0.5], [0.5, 0.5]]


def case_of(name: str, masked: bool = True) -> dict:
    case = CASES[name]
    given = {
        "a_given_b": case.get("A_p(a|b)", case.get("A")),
        "b_given_a": case.get("B_p(b|a)", case.get("B")),
    }
    if masked:
        given |= {"a_masked": case["pair_masked_p(a)"], "b_masked": case["pair_masked_p(b)"]}
    return given


def nulls(value, name=""):
    """Dotted names of the nulls in a result, not looking inside lists."""
    if isinstance(value, dict):
        return [n for key, v in value.items() for n in nulls(v, f"{name}.{key}".lstrip("."))]
    return [name] if value is None else []


@pytest.mark.parametrize("name", TABLE_CASES)
def test_exact_answers(name):
    case, (result,) = CASES[name], diagnose(case_of(name))
    cross = result["cross_ratio"]
    assert cross["max_abs"] == pytest.approx(case["max_abs_cross"], abs=TOLERANCE)
    for p, (i, k) in enumerate(cross["row_pairs"]):
        for q, (j, col) in enumerate(cross["column_pairs"]):
            expected = case["cross_ratio_log_discrepancy"][f"{i}{k}|{j}{col}"]
            assert cross["minors"][p][q] == pytest.approx(expected, abs=TOLERANCE)
    coherent = case["max_abs_cross"] < 1e-12
    assert result["compatibility"] == ("compatible" if coherent else "incompatible")
    for key, expected, tolerance in (
        (result["order_log_ratio"], case["order"]["log_ratio"], TOLERANCE),
        (result["joints"]["naive"], case["naive_joint"], TOLERANCE),
        (result["joints"]["mrf_local"], case["MRF_local_joint"], TOLERANCE),
        (result["joints"]["arnold_gokhale"], case["AG_joint"], JOINT_TOLERANCE),
        (result["gibbs"]["a"], case["gibbs_pi_a"], TOLERANCE),
    ):
        np.testing.assert_allclose(key, expected, rtol=0, atol=tolerance)
    pivot = str(np.argmax(case["pair_masked_p(a)"]))
    np.testing.assert_allclose(
        result["joints"]["hcb"], case["HCB_joint_by_pivot"][pivot], rtol=0, atol=TOLERANCE
    )
    objective = case["AG_objective_sum_KL"]
    assert result["arnold_gokhale_objective"] == pytest.approx(objective, abs=TOLERANCE)
    for joint, key in (("naive", "naive"), ("mrf_local", "MRF_local")):
        found = result["divergences"][joint]["objective"]
        assert found == pytest.approx(case[f"{key}_objective_sum_KL"], abs=TOLERANCE)
    assert result["reasons"] == {}
    json.dumps(result, allow_nan=False)


def test_shared_zero_is_null_with_a_reason():
    (result,) = diagnose(case_of("c15_structural_zero", masked=False))
    assert result["cross_ratio"]["max_abs"] is None
    assert "probability zero" in result["reasons"]["cross_ratio.max_abs"]
    assert result["cross_ratio"]["minors"] == [[None]]
    assert result["compatibility"] == "undefined_by_zeros"
    for joint in ("hcb", "arnold_gokhale"):
        np.testing.assert_allclose(
            result["joints"][joint], CASES["c15_structural_zero"]["true_joint"], atol=1e-7
        )
    assert result["hcb_pivot"] == {"index": 1, "from": "mean of a_given_b"}
    json.dumps(result, allow_nan=False)


def test_a_pivot_that_the_zeros_rule_out():
    given = case_of("c15_structural_zero", masked=False)
    (result,) = diagnose(given | {"a_masked": [0.7, 0.3]})
    assert result["joints"]["hcb"] is None
    assert result["hcb_pivot"] is None
    assert "valid pivots: [1]" in result["reasons"]["joints.hcb"]


def test_disjoint_modes():
    (result,) = diagnose(case_of("c16_disjoint_modes", masked=False))
    assert result["compatibility"] == "compatible_not_unique"
    assert result["joints"]["hcb"] is None
    assert "2 blocks" in result["reasons"]["gibbs"]


@pytest.mark.parametrize(
    "given",
    [
        case_of("c16_disjoint_modes", masked=False),
        case_of("c15_structural_zero", masked=False) | {"gold": [0, 1]},
        {"a_given_b": [[1.0]], "b_given_a": [[1.0]]},
        {"a_given_b": [[1.0, 0.5], [0.0, 0.5]], "b_given_a": HALF, "a_masked": [0.0, 1.0],
         "b_masked": [1.0, 0.0], "gold": [1, 1]},
        {"a_given_b": [[0.0, 1.0], [1.0, 0.0]], "b_given_a": [[1.0, 0.0], [0.0, 1.0]]},
        {"a_given_b": [[0.1, 0.2]], "b_given_a": [[0.3, 0.4]], "subset": True},
        {"a_given_b": [[0.0, 0.0]], "b_given_a": [[0.0, 0.4]], "subset": True},
    ],
)  # fmt: skip
def test_every_null_has_a_reason(given):
    (result,) = diagnose(given)
    json.dumps(result, allow_nan=False)
    for name in nulls({k: v for k, v in result.items() if k != "reasons"}):
        names = [".".join(name.split(".")[:n]) for n in range(1, name.count(".") + 2)]
        if names[0] == "gold" and len(names) == 2:
            names.append(name.replace("gold", "joints"))
        assert any(n in result["reasons"] for n in names), name


def test_a_subset_keeps_what_stays_defined():
    given = CASES["c5_restricted_vocab_eight_conditionals"]["perturbed"]["given"]
    tables = {
        "a_given_b": [[given[f"p0{i}_1{j}"] for j in (0, 1)] for i in (0, 1)],
        "b_given_a": [[given[f"p1{j}_0{i}"] for j in (0, 1)] for i in (0, 1)],
    }
    with pytest.raises(DataError, match="must sum to one"):
        diagnose(tables)
    (result,) = diagnose(tables | {"subset": True, "a_masked": [0.2, 0.1], "b_masked": [0.3, 0.2]})
    assert result["cross_ratio"]["max_abs"] == pytest.approx(np.log(3.0), abs=TOLERANCE)
    assert result["order_log_ratio"][0][0] == pytest.approx(
        np.log(0.2 * given["p10_00"]) - np.log(0.3 * given["p00_10"]), abs=TOLERANCE
    )
    assert np.sum(result["joints"]["mrf_local"]) == pytest.approx(1.0)
    assert result["arnold_gokhale_objective"] is None
    assert "subset" in result["reasons"]["arnold_gokhale_objective"]


def test_gold_names_and_lists():
    first = case_of("c1_coherent_2x2") | {"gold": [0, 1], "name": "first", "source": "here"}
    results = diagnose([first, case_of("c4_perturbed_2x2_ln2")])
    assert [r["name"] for r in results] == ["first", "tables[1]"]
    assert results[0]["gold"]["arnold_gokhale"]["p_nll"] == pytest.approx(-np.log(0.1))
    assert results[0]["ignored_keys"] == ["source"]
    assert "gold" not in results[1]


def test_many_minors_fall_back_to_adjacent_ones(monkeypatch):
    monkeypatch.setattr(module, "MOST_MINORS", 8)
    (result,) = diagnose(case_of("c2_coherent_3x3"))
    assert result["cross_ratio"]["kind"] == "adjacent"
    assert np.shape(result["cross_ratio"]["minors"]) == (2, 2)
    assert result["cross_ratio"]["total"] == 9


def test_the_tolerance_decides():
    given = {"a_given_b": [[0.5001, 0.5], [0.4999, 0.5]], "b_given_a": HALF}
    assert diagnose(given)[0]["compatibility"] == "incompatible"
    assert diagnose(given, tolerance=1e-2)[0]["compatibility"] == "compatible"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a_given_b": HALF}, '"b_given_a" is missing'),
        ({"a_given_b": HALF, "b_given_a": [[0.5, 0.5]]}, "b_given_a must have shape"),
        ({"a_given_b": HALF, "b_given_a": [[0.5, 0.5], [1.0]]}, r"b_given_a\[1\] has 1 entries"),
        ({"a_given_b": HALF, "b_given_a": [[-0.5, 1.5], [0.5, 0.5]]}, r"\[0\]\[0\] = -0.5"),
        ({"a_given_b": HALF, "b_given_a": [[float("nan"), 1], [0.5, 0.5]]}, r"\[0\]\[0\] = nan"),
        ({"a_given_b": HALF, "b_given_a": [[float("inf"), 1], [0.5, 0.5]]}, r"\[0\]\[0\] = inf"),
        ({"a_given_b": HALF, "b_given_a": [[0.5, 0.4], [0.5, 0.5]]}, "sum to one over b for each"),
        ({"a_given_b": HALF, "b_given_a": HALF, "a_maskd": [1]}, "Did you mean 'a_masked'"),
        ({"a_given_b": HALF, "b_given_a": HALF, "a_masked": [0.5]}, "a_masked must have shape"),
        ({"a_given_b": HALF, "b_given_a": HALF, "a_masked": 0.5}, "expected a list of numbers"),
        ({"a_given_b": [["x"]], "b_given_a": HALF}, r"a_given_b\[0\]\[0\]: expected a number"),
        ({"a_given_b": [[True]], "b_given_a": [[1]]}, "Got true or false"),
        ({"a_given_b": 3, "b_given_a": HALF}, "expected a list of rows"),
        ({"a_given_b": [], "b_given_a": HALF}, "an empty list"),
        ({"a_given_b": HALF, "b_given_a": HALF, "gold": [0, 2]}, r"0 <= j < 2. Got \[0, 2\]"),
        ({"a_given_b": HALF, "b_given_a": HALF, "subset": "yes"}, "expected true or false"),
        ([], "a list of such"),
        ("text", "Got a string"),
        ([{"a_given_b": HALF, "b_given_a": HALF}, 3], r"tables\[1\]: expected an object"),
    ],
)
def test_malformed_cases_are_refused(given, message):
    with pytest.raises(DataError, match=message):
        diagnose(given)


def test_command(tmp_path, capsys, monkeypatch):
    path = tmp_path / "tables.json"
    path.write_text(json.dumps(case_of("c1_coherent_2x2")))
    assert run([str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["compatibility"] == "compatible"
    path.write_text(json.dumps([case_of("c1_coherent_2x2")]))
    assert run([str(path), "-o", str(tmp_path / "out.json")]) == 0
    assert capsys.readouterr().out == ""
    assert isinstance(json.loads((tmp_path / "out.json").read_text()), list)
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(case_of("c4_perturbed_2x2_ln2"))))
    assert run(["-"]) == 0
    assert json.loads(capsys.readouterr().out)["compatibility"] == "incompatible"


def test_command_names_the_file(tmp_path):
    path = tmp_path / "tables.json"
    with pytest.raises(DataError, match=r"tables\.json: cannot be read"):
        run([str(path)])
    path.write_text('{"a_given_b": [[1,]]}')
    with pytest.raises(DataError, match=r"tables\.json, line 1, column \d+: not JSON"):
        run([str(path)])
    path.write_text('{"a_given_b": [[NaN]], "b_given_a": [[1]]}')
    with pytest.raises(DataError, match=r"tables\.json: tables: a_given_b\[0\]\[0\] = nan"):
        run([str(path)])
    path.write_text(json.dumps(case_of("c1_coherent_2x2")))
    with pytest.raises(DataError, match="cannot be written"):
        run([str(path), "-o", str(tmp_path / "no" / "out.json")])
