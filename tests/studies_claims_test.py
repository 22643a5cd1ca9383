"""The statistics of the claims against SciPy's, examples by hand and closed forms."""

import math
import random

import pytest
from scipy import stats

from studies import answers, claims
from studies.judging import ERROR, Effect, difference, holm


@pytest.mark.parametrize("differences", [[0.7, 1.3, 3.6], [-3.0, -4.0, -5.5, -4.0]])
def test_effect_of_a_mean_is_students(differences):
    """That of scipy; 0.7, 1.3 and 3.6 are ahead in each of three, with p = 0.17."""
    found = difference(differences)
    wanted = stats.ttest_1samp(differences, 0)
    low, high = wanted.confidence_interval(0.95)
    assert found.p == pytest.approx(wanted.pvalue)
    assert found.interval(0.05) == pytest.approx((low, high))


def test_holm_equals_an_example_by_hand():
    """0.005 x 4, 0.01 x 3, 0.03 x 2 = 0.06 is not rejected, nor is then 0.04, which keeps level
    and p.
    """
    tests = holm([0.01, 0.04, 0.03, 0.005])
    assert [test.p for test in tests] == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert [test.error for test in tests] == pytest.approx([0.05 / 3, 0.05 / 2, 0.05 / 2, 0.05 / 4])
    assert holm([]) == []


def test_interval_and_adjusted_p_agree():
    draw = random.Random(0)
    for _ in range(50):
        effects = [Effect(draw.gauss(0, 6), draw.uniform(0.2, 2), 3) for _ in range(6)]
        for one, test in zip(effects, holm([one.p for one in effects])):
            low, high = one.interval(test.error)
            assert (low > 0 or high < 0) == (test.p <= ERROR)


def test_holm_is_seldom_wrong_where_nothing_is():
    """In one family of twenty at most; without it in three of ten."""
    draw = random.Random(1)
    wrong = [0, 0]
    for _ in range(1000):
        p_values = [draw.random() for _ in range(8)]
        wrong[0] += min(p_values) <= ERROR
        wrong[1] += min(test.p for test in holm(p_values)) <= ERROR
    assert wrong[0] > 300
    assert wrong[1] < 70


def test_page_one_shows_what_is_judged_beside_the_range_of_the_rest(monkeypatch):
    def compared(points, judged):
        effect = Effect(points, 0.1, 3)
        [test] = holm([effect.p]) if judged else [None]
        return claims.Comparison("somewhere", effect, "runs", test=test)

    alone = claims.Claim("alone", [compared(5.0, True)])
    beside = claims.Claim(
        "beside", [compared(5.0, True), compared(-2.0, False), compared(1, False)]
    )
    unjudged = claims.Claim("unjudged", [compared(1.0, False)])
    monkeypatch.setattr(claims, "claims", lambda read: [alone, beside, unjudged])
    *_, first, second = claims.page_one(lambda study: []).splitlines()
    assert first.startswith("| alone | **yes** | somewhere: +5.0 points (")
    assert first.endswith("| - |")
    assert second.endswith("| -2.0 to +1.0 points |")


def _record(features, part, seed, top1, dataset="imagenette-128px"):
    return {
        "dataset": dataset,
        "features": features,
        "label_fraction": part,
        "num_train_labels": 10_000 * part,
        "seed": seed,
        "top1": top1,
        "phases": {"frozen": {"top1": top1 - 0.01}},
    }


def _read(**found):
    return lambda study, **fields: found.get(study, [])


def _of(text, read):
    return next(claim for claim in claims.claims(read) if claim.text.startswith(text))


# The baseline gains 0.2 with ten times as many labels, whatever the seed.
CURVE = [_record("pixels", part, seed, 0.5 + 0.1 * (part == 0.1) * 2 + 0.02 * seed)
         for seed in range(3) for part in (0.01, 0.1)]  # fmt: skip
CPC = [_record("CPC", 0.01, seed, top1) for seed, top1 in enumerate((0.62, 0.66, 0.64))]


def test_interval_of_a_gain_has_its_closed_form():
    """On a straight curve the logarithm of a gain is linear in what CPC is ahead by."""
    ahead = [0.62 - 0.5, 0.66 - 0.52, 0.64 - 0.54]
    logs = [each / 0.2 * math.log(10) for each in ahead]
    (found,) = _of("2 times", _read(label_curve=[*CURVE, *CPC])).comparisons
    test = stats.ttest_1samp(logs, math.log(2))
    assert found.effect.p == pytest.approx(test.pvalue)
    low, high = test.confidence_interval(1 - found.test.error)
    assert found.interval == pytest.approx((math.exp(low), math.exp(high)))
    assert found.ahead == f"{math.exp(sum(logs) / 3):.1f} times"


def test_order_of_records_changes_no_interval():
    forwards, backwards = (
        claims.comparisons(_read(label_curve=records))
        for records in ([*CURVE, *CPC], [*CPC[::-1], *CURVE[::-1]])
    )
    assert forwards == backwards


@pytest.mark.parametrize(("records", "doubt"), [
    ([{**record, "dataset": "photos"} for record in (*CURVE, *CPC)], claims.PHOTOS),
    ([{**record, "dataset": "imagenette-224"} for record in (*CURVE, *CPC)], claims.CHOSEN),
    ([{**record, "label_fraction": 0.2} for record in (*CURVE[::2], *CPC)], claims.CHOSEN_STEPS),
    ([record for record in (*CURVE, *CPC) if record["seed"] < 2], claims.FEW),
])  # fmt: skip
def test_what_carries_no_claim_is_not_judged(records, doubt):
    claim = _of("above pixels", _read(label_curve=records))
    assert (claim.verdict, {each.doubt for each in claim.comparisons}) == ("not judged", {doubt})
    assert claim.cells()[3].startswith(f"`{records[0]['dataset']}` +")


def test_what_is_not_judged_widens_no_interval():
    photos = [{**record, "dataset": "photos"} for record in (*CURVE, *CPC)]
    alone, beside = (
        _of("above pixels", _read(label_curve=records)).judged
        for records in ([*CURVE, *CPC], [*CURVE, *CPC, *photos])
    )
    assert alone == beside


def test_gain_beyond_chosen_steps_is_not_judged():
    """Where CPC's accuracy is between the baseline's with 10 and with 20 % of the labels."""
    longer = [_record("pixels", 0.2, seed, 0.8 + 0.02 * seed) for seed in range(3)]
    better = [{**record, "top1": record["top1"] + 0.11} for record in CPC]
    (found,) = _of("2 times", _read(label_curve=[*CURVE, *longer, *better])).comparisons
    assert found.doubt == claims.CHOSEN_STEPS


def test_gain_beyond_the_curve_is_not_judged():
    """Of one of three choices: how much better it is, nobody knows."""
    best = [_record("CPC", 0.01, 2, 0.8), *CPC[:2]]
    (found,) = _of("2 times", _read(label_curve=[*CURVE, *best])).comparisons
    assert (found.doubt, found.interval) == (claims.BEYOND, None)


def _ladder(rung, seed, top1, dataset="imagenette-224"):
    return {"dataset": dataset, "rung": rung, "classifier": "augmented", "seed": seed, "top1": 0.0,
            "by_channel": {"top1": top1}}  # fmt: skip


def test_ladder_on_imagenette_is_judged():
    """By what classifiers saw, one channel; photographs stay as they are."""
    tops = {"v1": (0.40, 0.41, 0.42), "BU": (0.5, 0.5, 0.5), "LN": (0.5, 0.5, 0.5),
            "LP": (0.60, 0.62, 0.61)}  # fmt: skip
    records = [
        _ladder(rung, seed, top1, images)
        for images in ("imagenette-224", "photos")
        for rung, values in tops.items()
        for seed, top1 in enumerate(values)
    ]
    read = _read(ladder=records)
    claim = _of("linear, v1 to v2", read)
    assert [each.outcome for each in claim.comparisons] == [
        "yes", f"not judged: {claims.PHOTOS}"]  # fmt: skip
    assert claim.judged[0].ahead == "+20.0 points"
    assert _of("layer norm", read).verdict == "not shown"


def test_wide_is_judged_beside_pixels():
    wide = [
        _record("CPC, wide", 0.01, r["seed"], r["top1"] + 0.05 + 0.001 * r["seed"]) for r in CPC
    ]
    pixels = [_record("pixels, base_wide", 0.01, r["seed"], r["top1"] + 0.01) for r in CURVE[::2]]
    claim = _of("a wide encoder", _read(label_curve=[*CURVE, *CPC, *wide, *pixels]))
    assert [each.ahead for each in claim.comparisons] == ["+5.1 points", "+4.1 points"]
    assert claim.verdict == "yes"


def test_cpc_is_judged_beside_each_label_propagation():
    runs = {("CPC", "none"): 0.7, ("pixels", "none"): 0.5, ("pixels", "vat"): 0.6,
            ("pixels", "uda"): 0.75, ("CPC", "uda"): 0.8}  # fmt: skip
    records = [
        {**_record(features, 0.1, seed, top1 + 0.001 * seed * (features == "CPC")),
         "propagation": method}
        for (features, method), top1 in runs.items()
        for seed in range(3)
    ]  # fmt: skip
    claim = _of("above label propagation", _read(propagation=records))
    assert [(each.where, each.outcome) for each in claim.judged] == [
        ("`imagenette-128px` with 10 %, vat", "yes"),
        ("`imagenette-128px` with 10 %, uda", "no"),
    ]
    assert claim.verdict == "in part"


def test_claim_without_records_is_not_tested():
    assert _of("above label", _read()).verdict == claims.UNTESTED


@pytest.mark.parametrize("question", answers.ANSWERS)
def test_without_records_nothing_is_claimed(question):
    answer = answers.ANSWERS[question](_read())
    assert "Nothing is claimed" in answer or f"{claims.UNTESTED}: 10" in answer


def test_an_answer_follows_its_records():
    """Where CPC is behind, the sentence says so."""
    worse = [{**record, "top1": record["top1"] - 0.4} for record in CPC]
    answer = answers.of_labels(_read(label_curve=[*CURVE, *worse]))
    assert "is -28.0 points ahead" in answer
    assert "): no." in answer
