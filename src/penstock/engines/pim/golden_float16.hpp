// models.pim.unit.Float16Unit beside a pair of banks. Numbers of INNER are float32 numbers: products of two are exact there, and the second rounding of
// sums is harmless, for 24 >= 2 * 11 + 2 (Figueroa, "When is double rounding innocuous?", 1995).
#pragma once
#include "golden_lanes.hpp"

namespace {

constexpr int32_t SIGN = INT32_MIN, INFINITE = 0x7F800000, NOT = 0x7FC00000;

// Numbers rounded to 10 bits of fraction, zero below 2^least, infinite from 2^beyond on.
INLINE F rounded(F x, int least, int beyond) {
  const V bits = bits_of(x), size = bits & ~SIGN;
  V kept = (size + 0xFFF + (size >> 13 & 1)) & ~0x1FFF;
  kept = kept & (kept >= (127 + least) << 23);
  kept = select(kept >= (127 + beyond) << 23, all(INFINITE), kept) | (bits & SIGN);
  return numbers_of(select(size > INFINITE, all(NOT), kept));
}

INLINE F inner(F x) { return rounded(x, -30, 32); }

// The numbers of float16 codes; a subnormal one is a zero.
INLINE F held(V code) {
  const V size = code & 0x7FFF;
  V wide = (size >= 1024) & ((size << 13) + (112 << 23));
  wide = select(size >= 0x7C00, all(INFINITE), wide) | (code & 0x8000) << 16;
  return numbers_of(select(size > 0x7C00, all(NOT), wide));
}

// The float16 codes of numbers of INNER.
INLINE V stored(F x) {
  const V bits = bits_of(rounded(x, -14, 16)), size = bits & ~SIGN;
  V code = (size > 0) & ((size - (112 << 23)) >> 13);
  code = select(size == INFINITE, all(0x7C00), code) | (bits >> 16 & 0x8000);
  return select(size > INFINITE, all(0x7E00), code);
}

INLINE V zero(F x) { return (bits_of(x) & ~SIGN) == 0; }
INLINE F product_of(F a, F b) { return numbers_of(bits_of(inner(a * b)) & ~(zero(a) | zero(b))); }

// What is added: -0 for every zero.
INLINE F change_of(F x) { return numbers_of(bits_of(x) | (zero(x) & SIGN)); }

// Rates, with gradual underflow.
INLINE F rates_of(V code) {
  const V size = code & 0x7FFF, sign = (code & 0x8000) << 16;
  const F whole = {__builtin_convertvector(size.a, R), __builtin_convertvector(size.b, R)}, small = whole * all(0x1p-24f);
  return numbers_of(select(size < 1024, bits_of(small) | sign, bits_of(held(code))));
}

INLINE V special(V code) { return (code & 0x7C00) == 0x7C00; }

// Float16Unit.update, as the specification has it.
INLINE V wide_updated(F k, F v, F rate, F old) {
  return stored(inner(old + change_of(inner(product_of(k, v) - product_of(rate, old)))));
}

INLINE V nearest(F x) {
  const V bits = bits_of(x);
  return (bits + 0xFFF + (bits >> 13 & 1)) & ~0x1FFF;
}
INLINE V normal(V bits, int least) { return (bits & ~SIGN) >= (127 + least) << 23; }

INLINE F finite_of(V code) {
  const V size = code & 0x7FFF;
  return numbers_of(((size >= 1024) & ((size << 13) + (112 << 23))) | (code & 0x8000) << 16);
}

// The same where none of its operands is infinite or no number: no NaN arises; what is beyond INNER leaves float16 as
// well, whatever is added, and what INNER takes as 0 at the end is a 0 of float16. The sign of a product of 0 is lost.
INLINE V finite_updated(F k, F v, F rate, F old) {
  const V added = nearest(k * v), taken = nearest(rate * old);
  const F kept = numbers_of(added & normal(added, -30)), gone = numbers_of(taken & normal(taken, -30));
  const V change = nearest(kept - gone);
  const V sum = nearest(old + numbers_of(select(normal(change, -30), change, all(SIGN))));
  const V size = sum & ~SIGN, code = (size - (112 << 23)) >> 13;
  return (normal(sum, -14) & select(code < 0x7C00, code, all(0x7C00))) | (sum >> 16 & 0x8000);
}

INLINE int put(uint8_t* data, V code) {
  put_codes(data, code);
  return __builtin_popcount(uint32_t(mask_of(special(code))));
}

struct Query {  // of numbers: significands, 0 where the exponent is 0, exponents and signs
  V size, exponent, code;
};

INLINE Query query_of(V code) {
  const V exponent = code >> 10 & 31;
  return {(exponent > 0) & ((code & 1023) | 1024), exponent, code};
}

INLINE Sum wide_dot(V code, const Query& q) {
  const V exponent = code >> 10 & 31, own = (exponent > 0) & ((code & 1023) | 1024);
  const V size = (own * q.size) << GUARD, power = (size > 0) & (exponent + q.exponent);
  const int32_t top = largest(power);
  const V shift = top - power, kept = size >> select(shift < 31, shift, all(31)), sign = (code ^ q.code) << 16 >> 31;
  return {sum((kept ^ sign) - sign), top};
}

// float16.encode of value * 2^exponent.
INLINE uint32_t encoded(int64_t value, int64_t exponent) {
  const double x = std::ldexp(double(value), int(exponent));
  int64_t bits;
  std::memcpy(&bits, &x, 8);
  int64_t size = bits & INT64_MAX;
  size = (size + ((int64_t(1) << 41) - 1) + (size >> 42 & 1)) >> 42;
  size -= int64_t(1008) << 10;
  if (size < 1024) size = 0;
  return uint32_t(std::min<int64_t>(size, 0x7C00)) | (bits < 0 ? 0x8000 : 0);
}

// The numbers of a bank's register v.
INLINE void values(const Registers& r, int64_t at, float* each) {
  const F both[2] = {held(codes_of(r.v0 + at)), held(codes_of(r.v1 + at))};
  std::memcpy(each, both, sizeof both);
}

template <bool updates>
INLINE int64_t wide_pair(uint8_t* const* rows, int64_t bank, const Registers& r, uint8_t* out) {
  int64_t lost = 0;
  Sum sums[2][COLUMNS];
  for (int side = 0; side < 2; side++) {
    const int64_t at = 32 * (bank + side);
    const V c = codes_of(r.c0 + at);
    const Query q = query_of(codes_of(r.q + at));
    const F k = held(codes_of(r.k + at)), rate = rates_of(c);
    float v[COLUMNS];
    values(r, at, v);
    const bool gone = !mask_of(c != ONE);
    const V first = codes_of(r.v0 + at), second = codes_of(r.v1 + at), ks = codes_of(r.k + at);
    const bool finite = !mask_of(special(c) | special(ks) | special(first) | special(second));
    for (int column = 0; column < COLUMNS; column++) {
      uint8_t* data = rows[side] + 32 * column;
      V codes = codes_of(data);
      if (updates) {
        const V held_codes = gone ? all(0) : codes;
        const F one = all(v[column]);
        codes = finite && !mask_of(special(held_codes)) ? finite_updated(k, one, rate, finite_of(held_codes))
                                                        : wide_updated(k, one, rate, held(held_codes));
        lost += put(data, codes);
      }
      sums[side][column] = wide_dot(codes, q);
    }
  }
  for (int column = 0; column < COLUMNS; column++) {
    const Sum total = joined(sums[0][column], sums[1][column]);
    const uint32_t code = encoded(total.value, total.exponent - 30 - 20 - GUARD);
    out[2 * column] = uint8_t(code);
    out[2 * column + 1] = uint8_t(code >> 8);
    lost += r.reads && (code & 0x7C00) == 0x7C00;
  }
  return lost;
}

INLINE int64_t wide_attend(uint8_t* const* rows, int64_t bank, const Registers& r, uint8_t* out) {
  F total = all(0.0f);
  float scores[2][COLUMNS];
  for (int side = 0; side < 2; side++) values(r, 32 * (bank + side), scores[side]);
  for (int step = 0; step < 2 * COLUMNS; step++) {
    const int side = step % 2, column = step / 2;
    const F s = all(scores[side][column]);
    total = inner(total + change_of(product_of(held(codes_of(rows[side] + 32 * column)), s)));
  }
  return put(out, stored(total));
}

}  // namespace
