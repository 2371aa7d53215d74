"""The members of units' datapaths and of their results, alike for each format."""

from typing import Any

from amaranth.lib.wiring import In, Out


def lane_members(
    v_bits: int, rates: int, sum_shape: Any, exponent: int, saturated: int
) -> dict[str, Any]:
    """Return the members of a datapath that takes one iteration after another."""
    return {
        # a sub-chunk with its operands; all but `i_valid` and `i_q` stay as they are until the next
        # sub-chunk
        "i_valid": In(1),
        "i_data": In(256),
        "i_c": In(rates),
        "i_k": In(256),
        "i_v": In(v_bits),  # one number
        "i_q": In(256),  # taken `depth` + `wait` ranks after the sub-chunk
        # of this iteration; `i_attend` and `i_score` stay as they are for a whole round
        "i_attend": In(1),
        "i_score": In(1),
        "i_first": In(1),  # begins a sum of attend
        "i_stochastic": In(1),
        "i_random": In(256),  # random bytes, taken where `o_draw` is high
        "o_draw": Out(1),
        # the new sub-chunk (in attend the sum so far), `depth` ranks after the old one
        "o_code": Out(256),
        "o_valid": Out(1),
        "o_saturated": Out(saturated),
        # the output's sum, `sum_depth` ranks after the old sub-chunk
        "o_sum": Out(sum_shape),
        "o_exponent": Out(exponent),
        "o_sum_valid": Out(1),
    }


def result_members(sum_shape: Any, exponent: int, reads: int, saturated: int) -> dict[str, Any]:
    """Return the members of what makes results of sums."""
    return {
        # the sum of a column
        "i_sum": In(sum_shape),
        "i_exponent": In(exponent),
        "i_column": In(5),
        "i_valid": In(1),
        # the results of all 32 columns as they are now: `reads` transfers of 256 bits
        "o_code": Out(256 * reads),
        "o_saturated": Out(saturated),
    }
