# SPDX-License-Identifier: Apache-2.0
"""Variants that were measured side by side: what one takes beside another, and how far that can be relied on.

Lives here: the arithmetic of rounds, and the cells of a table made of it. A round is {variant: {name: figure}}; variants
are compared within a round alone, so that a machine that is slow for a while is slow for all of them.
Must not live here: measuring (bench.py).
"""
import statistics


def quartiles(values):
    """(first, median, third), each within the values; None where there are none."""
    if not values:
        return None
    if len(values) == 1:
        return values[0], values[0], values[0]
    return tuple(statistics.quantiles(values, n=4, method="inclusive"))


def figures_of(rounds, variant, key):
    return [r[variant][key] for r in rounds if variant in r]


def paired(rounds, variant, base, key):
    """[(figure of the variant, figure of the base)] of the rounds that have both."""
    return [(r[variant][key], r[base][key]) for r in rounds if variant in r and base in r]


def beyond(rounds, variant, base, key):
    """Quartiles of what the variant takes beyond the base."""
    return quartiles([value - floor for value, floor in paired(rounds, variant, base, key)])


def times(rounds, variant, base, key):
    """Quartiles of how many times the base's the variant takes."""
    return quartiles([value / floor for value, floor in paired(rounds, variant, base, key) if floor > 0])


def spread(three, digits, sign="", unit=""):
    """'median (first to third)'"""
    first, middle, third = (f"{value:{sign}.{digits}f}" for value in three)
    return f"{middle}{unit} ({first} to {third})"


def cell(rounds, variant, base, key):
    """The variant beside the base: '+19.2 (+18.0 to +20.1), 1.92 x (1.88 to 1.95)'; '-' where it was never measured."""
    more, ratio = beyond(rounds, variant, base, key), times(rounds, variant, base, key)
    return f"{spread(more, 1, '+')}, {spread(ratio, 2, unit=' x')}" if more and ratio else "-"


def side_by_side(rounds, variants, bare, base, keys):
    """Rows of a table: the bare program and the base by what they take, all others beside the base."""
    def one(variant, key):
        if variant not in (bare, base):
            return cell(rounds, variant, base, key)
        own = quartiles(figures_of(rounds, variant, key))
        return spread(own, 1) if own else "-"
    return [[variant] + [one(variant, key) for key in keys] for variant in variants]
