"""What was found on a dataset, in a sentence or two."""

from __future__ import annotations

from collections.abc import Sequence

from cpc_tf.reporting import formats, ladder, methods, paper
from cpc_tf.reporting.collect import Run
from cpc_tf.reporting.curve import Curves, curves


def sentences(efficient: Sequence[Run], linear: Sequence[Run], detect: Sequence[Run]) -> list[str]:
    """From the results alone; about comparisons whose two sides were measured, and what else there is."""
    said = []
    if efficient:
        said += _few_labels(curves(efficient))
    if linear:
        said += _linear([run for run in linear if not methods.rung(run) and not run.get("policy")])
        said += _ladder(linear)
    if detect:
        said += _detection(detect)
    return said


def _few_labels(found: Curves) -> list[str]:
    common = found.common()
    if common:
        fewest = common[0]
        cpc, pixels = (curve.accuracy(fewest, "top1").mean for curve in (found.cpc, found.pixels))
        labels = f"With {found.cpc.labels[fewest]:,} labels ({formats.percent(fewest)})"
        first = f"{labels}, {found.cpc.title} reaches {_percent(cpc)} top-1 and training on pixels {_percent(pixels)}"
        gain = found.gain(fewest, "top1")
        if cpc <= pixels:
            return [f"{first}: the baseline is not behind."]
        needs = f"{gain.bound} {str(gain).split()[-1][:-1]} times".strip()
        beyond = gain.bound and gain.factor < 1.05  # the baseline was not measured with more labels than these
        said = [f"{first}." if beyond else f"{first}: on pixels it takes {needs} as many labels to get as far."]
        most = common[-1]
        if most != fewest:
            cpc, pixels = (curve.accuracy(most, "top1").mean for curve in (found.cpc, found.pixels))
            labels = f"{found.cpc.labels[most]:,}"
            said.append(f"With {labels} ({formats.percent(most)}): {_percent(cpc)} against {_percent(pixels)}.")
        return said
    for own, lacking in ((found.cpc, "the baseline on pixels"), (found.pixels, "CPC")):
        if own:
            fewest = min(own.runs)
            accuracy = own.accuracy(fewest, "top1").mean
            name = "training on pixels" if own is found.pixels else own.title
            labels = f"With {own.labels[fewest]:,} labels ({formats.percent(fewest)})"
            return [f"{labels}, {name} reaches {_percent(accuracy)} top-1; {lacking} is not measured there yet."]
    return []


def _linear(runs: Sequence[Run]) -> list[str]:
    by_method = methods.by_method(runs)
    mean = {method: methods.spread(run["top1"] for run in own).mean for method, own in by_method.items()}
    best = {role: max((m for m in mean if m.role == role), key=mean.get, default=None) for role in methods.ROLES}
    cpc = best["cpc"]
    if not cpc:
        return []
    count = sum(method.role == "cpc" for method in mean)
    beside = [f"the best of {count} encoders, {methods.short_encoder(cpc.key)}"] if count > 1 else []
    beside += [f"{m.name} {_percent(mean[m])}" for m in (best["random"], best["pixels"]) if m]
    end = f" ({', '.join(beside)})." if beside else "."
    return [f"A linear classifier on frozen CPC features: {_percent(mean[cpc])} top-1{end}"]


def _ladder(runs: Sequence[Run]) -> list[str]:
    found = ladder.rungs(runs)
    first, last = paper.LADDER[0].name, paper.LADDER[-1].name
    if first not in found or last not in found:
        return []
    low, high = (methods.spread(run["top1"] for run in found[name]).mean for name in (first, last))
    return [f"From CPC v1 to the whole of v2 the linear classifier goes from {_percent(low)} to {_percent(high)}."]


def _detection(runs: Sequence[Run]) -> list[str]:
    by_method = methods.by_method(runs)
    metric = "map11" if all("map11" in run.record for run in runs) else "map_all"
    said = [
        f"{name} {_percent(methods.spread(values).mean)}"
        for method, name in methods.titles(list(by_method)).items()
        if (values := [run[metric] for run in by_method[method] if metric in run.record])
    ]
    return [f"Detection, mean average precision: {', '.join(said)}."] if said else []


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"
