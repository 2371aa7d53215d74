"""The members of units' datapaths and of their results, alike for each format."""

from __future__ import annotations

from typing import Any

from amaranth.lib.wiring import In, Out

__all__ = ["lane_members", "result_members"]


def lane_members(
    v_bits: int, rates: int, sum_shape: Any, exponent: int, saturated: int
) -> dict[str, Any]:
    """Return the members of a datapath that takes one iteration after another.

    i_valid, i_data, i_c, i_k, i_v, i_q : In
        A sub-chunk with its operands; `i_v` is one number of `v_bits`, and all rates have `rates` bits. All but `i_valid` and
        `i_q` stay as they are until the next sub-chunk; `i_q` is taken `depth` + `wait` ranks after the sub-chunk.
    i_attend, i_score, i_first, i_stochastic : In
        Of this iteration: `i_first` begins a sum of attend. The first two stay as they are for a whole round.
    i_random : In(256)
        Random bytes, taken where `o_draw` is high.
    o_code, o_valid, o_saturated : Out
        The new sub-chunk (in attend the sum so far), `depth` ranks after the old one.
    o_sum, o_exponent, o_sum_valid : Out
        The output's sum, `sum_depth` ranks after the old sub-chunk.
    """
    return {
        "i_valid": In(1),
        "i_data": In(256),
        "i_c": In(rates),
        "i_k": In(256),
        "i_v": In(v_bits),
        "i_q": In(256),
        "i_attend": In(1),
        "i_score": In(1),
        "i_first": In(1),
        "i_stochastic": In(1),
        "i_random": In(256),
        "o_draw": Out(1),
        "o_code": Out(256),
        "o_valid": Out(1),
        "o_saturated": Out(saturated),
        "o_sum": Out(sum_shape),
        "o_exponent": Out(exponent),
        "o_sum_valid": Out(1),
    }


def result_members(sum_shape: Any, exponent: int, reads: int, saturated: int) -> dict[str, Any]:
    """Return the members of what makes results of sums.

    i_sum, i_exponent, i_column, i_valid : In
        The sum of a column.
    o_code, o_saturated : Out
        The results of all 32 columns as they are now: `reads` transfers of 256 bits.
    """
    return {
        "i_sum": In(sum_shape),
        "i_exponent": In(exponent),
        "i_column": In(5),
        "i_valid": In(1),
        "o_code": Out(256 * reads),
        "o_saturated": Out(saturated),
    }
