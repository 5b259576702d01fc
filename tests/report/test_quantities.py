"""Numbers are said in one way."""

import pytest

from mlm_consistency.report import quantities as q


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (q.percent(0.7125), "71.2"),
        (q.percent(1.0), "100.0"),
        (q.points(0.018), "+1.8"),
        (q.points(-0.004), "−0.4"),
        (q.points(-0.0001), "0.0"),
        (q.interval((-0.004, 0.041)), "−0.4 to 4.1"),
        (q.p_value(0.1234), "p = 0.12"),
        (q.p_value(0.0123), "p = 0.012"),
        (q.p_value(1e-9), "p < 0.001"),
        (q.bare_p_value(0.5), "0.50"),
        (q.bare_p_value(0.0), "< 0.001"),
        (q.count(15000), "15\u202f000"),
        (q.number_word(10), "ten"),
        (q.number_word(37), "37"),
        (q.plural(1, "example"), "1 example"),
        (q.plural(2, "example"), "2 examples"),
    ],
)
def test_quantities(said, expected):
    assert said == expected
