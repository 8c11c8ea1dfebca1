"""llama-perplexity's statistics, worked out once more with the standard library."""

import math
import random
import statistics

import pytest

from proxy.compare.comparison import ChoiceComparison, Comparison, Mode
from proxy.compare.llama_block import ENOUGH, llama_block, written


def scored(p, q, bounds=(), agree=(), **more):
    choice = ChoiceComparison(
        index=0,
        primary_tokens=len(p),
        shadow_tokens=len(p),
        compared=len(p),
        exposed=len(p),
        identical=False,
        primary_logprobs=tuple(p),
        shadow_logprobs=tuple(q),
        kl_lower_bounds=tuple(bounds),
        top1_agree=tuple(agree),
    )
    return Comparison(mode=Mode.FORCED, choices=(choice,), **more)


@pytest.fixture(scope="module")
def drawn():
    rng = random.Random(1)
    p = [-rng.expovariate(1.0) for _ in range(400)]
    return (
        p,
        [one + rng.gauss(0.01, 0.1) for one in p],
        [rng.random() / 100 for _ in p],
        [rng.random() < 0.9 for _ in p],
    )


def test_every_line_is_that_of_the_formulas(drawn):
    p, q, bounds, agree = drawn
    half = slice(0, 150), slice(150, 400)
    block = llama_block([scored(*(column[part] for column in drawn)) for part in half])
    n = len(p)
    nll_p, nll_q = [-one for one in p], [-one for one in q]

    def error(values):
        return statistics.pstdev(values) / math.sqrt(n - 1)

    ppl = block["perplexity"]
    mean_p, mean_q = statistics.fmean(nll_p), statistics.fmean(nll_q)
    assert ppl["Mean PPL(Q)"] == pytest.approx({"value": math.exp(mean_q), "error": math.exp(mean_q) * error(nll_q)})
    assert ppl["Mean PPL(base)"]["value"] == pytest.approx(math.exp(mean_p))
    assert ppl["Cor(ln(PPL(Q)), ln(PPL(base)))"] == pytest.approx({"value": 100 * statistics.correlation(p, q)})
    # The error of a difference of paired values is that of the differences.
    ratio_error = error([b - a for a, b in zip(nll_p, nll_q, strict=True)])
    assert ppl["Mean ln(PPL(Q)/PPL(base))"] == pytest.approx({"value": mean_q - mean_p, "error": ratio_error})
    times = math.exp(mean_q - mean_p)
    assert ppl["Mean PPL(Q)/PPL(base)"] == pytest.approx({"value": times, "error": times * ratio_error})
    scaled = error([math.exp(mean_q) * b - math.exp(mean_p) * a for a, b in zip(nll_p, nll_q, strict=True)])
    assert ppl["Mean PPL(Q)-PPL(base)"] == pytest.approx(
        {"value": math.exp(mean_q) - math.exp(mean_p), "error": scaled}
    )

    kld = block["kl_divergence"]
    assert kld["Mean KLD"] == pytest.approx({"value": statistics.fmean(bounds), "error": error(bounds)})
    assert (kld["Maximum KLD"]["value"], kld["Minimum KLD"]["value"]) == (max(bounds), min(bounds))
    cuts = statistics.quantiles(bounds, n=1000, method="inclusive")
    for name, at in (("99.9%", 999), ("99.0%", 990), ("Median", 500), ("10.0%", 100), ("1.0%", 10), ("0.1%", 1)):
        assert kld[f"{name} KLD"]["value"] == pytest.approx(cuts[at - 1])

    delta = [100 * (math.exp(min(b, 0)) - math.exp(a)) for a, b in zip(p, q, strict=True)]
    made = block["token_probability"]
    assert made["Mean Δp"] == pytest.approx({"value": statistics.fmean(delta), "error": error(delta)})
    root = math.sqrt(statistics.fmean([one**2 for one in delta]))
    assert made["RMS Δp"] == pytest.approx({"value": root, "error": 0.5 / root * error([one**2 for one in delta])})
    assert made["75.0% Δp"]["value"] == pytest.approx(statistics.quantiles(delta, n=4, method="inclusive")[2])
    share = sum(agree) / n
    assert made["Same top p"] == pytest.approx(
        {"value": 100 * share, "error": 100 * math.sqrt(share * (1 - share) / (n - 1))}
    )
    assert block["tokens"] == {"perplexity": n, "kl_divergence": n, "token_probability": n, "same_top": n}
    assert block["kld"] == "lower bound"


def test_it_is_written_as_llama_perplexity_writes_it(drawn):
    lines = written(llama_block([scored(*drawn)]))
    assert lines[0] == "====== Perplexity statistics ======"
    names = [line.partition(":")[0].rstrip() for line in lines if ":" in line]
    assert names == [
        "Mean PPL(Q)", "Mean PPL(base)", "Cor(ln(PPL(Q)), ln(PPL(base)))", "Mean ln(PPL(Q)/PPL(base))", "Mean PPL(Q)/PPL(base)",
        "Mean PPL(Q)-PPL(base)", "Mean KLD", "Maximum KLD", "99.9% KLD", "99.0% KLD", "95.0% KLD", "90.0% KLD", "Median KLD", "10.0% KLD",
        "5.0% KLD", "1.0% KLD", "0.1% KLD", "Minimum KLD", "Mean Δp", "Maximum Δp", "99.9% Δp", "99.0% Δp", "95.0% Δp", "90.0% Δp", "75.0% Δp",
        "Median Δp", "25.0% Δp", "10.0% Δp", "5.0% Δp", "1.0% Δp", "0.1% Δp", "Minimum Δp", "RMS Δp", "Same top p",
    ]  # fmt: skip
    assert next(line for line in lines if "KL" in line) == "====== KL divergence statistics (lower bounds) ======"


def test_of_few_tokens_nothing_is_said(drawn):
    p, q, bounds, agree = (column[: ENOUGH - 1] for column in drawn)
    assert llama_block([scored(p, q, bounds, agree)]) == {}
    assert llama_block([]) == {}
    values_only = llama_block([scored(drawn[0], drawn[1])])
    assert values_only.keys() == {"perplexity", "token_probability", "tokens", "kld"}
    assert "Same top p" not in values_only["token_probability"]
    assert "kl_divergence" not in "".join(written(values_only))


def test_an_arm_that_says_the_same_has_no_distance_and_nothing_divides_by_zero():
    p = [-float(number % 7) for number in range(200)]
    block = llama_block([scored(p, p, [0.0] * 200, [True] * 200)])
    assert block["perplexity"]["Mean ln(PPL(Q)/PPL(base))"] == {"value": 0.0, "error": 0.0}
    assert block["perplexity"]["Cor(ln(PPL(Q)), ln(PPL(base)))"]["value"] == 100.0
    assert block["token_probability"]["RMS Δp"] == {"value": 0.0, "error": 0.0}
    assert block["token_probability"]["Same top p"] == {"value": 100.0, "error": 0.0}
    flat = llama_block([scored([-1.0] * 200, [-1.0] * 200)])
    assert "Cor(ln(PPL(Q)), ln(PPL(base)))" not in flat["perplexity"]
