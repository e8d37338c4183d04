"""Confidence of means of a few runs, in numpy alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def student_cdf(t: float, freedom: float) -> float:
    """Return Student's distribution function, by the incomplete beta function."""
    x = freedom / (freedom + t * t)
    tail = 0.5 * _incomplete_beta(freedom / 2, 0.5, x)
    return 1.0 - tail if t > 0 else tail


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function (Numerical Recipes, 6.4)."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1.0 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    result = d
    for m in range(1, 300):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + numerator * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + numerator / c
            c = c if abs(c) > tiny else tiny
            result *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return result


def student_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t, by bisection."""
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        if student_cdf(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def half_width(values: Floats, confidence: float) -> float:
    """Return half the width of the mean's confidence interval; NaN with fewer than two values."""
    if len(values) < 2:
        return float("nan")
    t = student_quantile(0.5 + confidence / 2, len(values) - 1)
    return float(t * values.std(ddof=1) / math.sqrt(len(values)))


def paired_p(differences: Floats) -> float:
    """Return the two-sided p of Student's paired test; NaN with fewer than two differences.

    Differences that are all equal leave no doubt: p is 1 if they are zero, else 0.
    """
    if len(differences) < 2:
        return float("nan")
    deviation = float(differences.std(ddof=1))
    mean = float(differences.mean())
    if deviation == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    t = abs(mean) / (deviation / math.sqrt(len(differences)))
    return 2.0 * (1.0 - student_cdf(t, len(differences) - 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected by Holm's method; NaN stay, and do not count."""
    known = [(p, at) for at, p in enumerate(p_values) if not math.isnan(p)]
    corrected = [float("nan")] * len(p_values)
    largest = 0.0
    for rank, (p, at) in enumerate(sorted(known)):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        corrected[at] = largest
    return corrected
