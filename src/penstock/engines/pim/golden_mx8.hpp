// models.pim.unit.MxUnit beside a pair of banks.
#pragma once
#include "golden_lanes.hpp"

namespace {

struct Group {
  int32_t exponent;
  H micro, value;  // -1 where the microexponent of a number's pair is 1
};

// Eight numbers of 7 bits as bytes, and back.
INLINE uint64_t spread(uint64_t word) {
#ifdef __BMI2__
  return __builtin_ia32_pdep_di(word, 0x7f7f7f7f7f7f7f7fu);
#else
  uint64_t bytes = 0;
  for (int i = 0; i < 8; i++) bytes |= (word >> (7 * i) & 127) << (8 * i);
  return bytes;
#endif
}

INLINE uint64_t gathered(uint64_t bytes) {
#ifdef __BMI2__
  return __builtin_ia32_pext_di(bytes, 0x7f7f7f7f7f7f7f7fu);
#else
  uint64_t word = 0;
  for (int i = 0; i < 8; i++) word |= (bytes >> (8 * i) & 127) << (7 * i);
  return word;
#endif
}

INLINE Group unpack(const uint8_t* data) {
  uint64_t words[2], first, second;
  std::memcpy(&first, data, 8);
  std::memcpy(&second, data + 8, 8);
  words[0] = spread((first >> 16) | (second & 255) << 48);
  words[1] = spread(second >> 8);
  const H codes = bytes_of(reinterpret_cast<const uint8_t*>(words));
  const H size = codes & 63, sign = -(codes >> 6);
  return {int32_t(first & 255), (each(int32_t(first >> 8 & 255)) & PAIR) != 0, (size ^ sign) - sign};
}

// Packs codes of 7 bits.
INLINE void pack(int32_t exponent, int32_t micro, H codes, uint8_t* data) {
  uint64_t words[2];
  put_bytes(words, codes);
  words[0] = gathered(words[0]);
  words[1] = gathered(words[1]);
  const uint64_t first = uint64_t(exponent) | uint64_t(micro) << 8 | words[0] << 16, second = words[0] >> 48 | words[1] << 8;
  std::memcpy(data, &first, 8);
  std::memcpy(data + 8, &second, 8);
}

INLINE int32_t leading(uint64_t x) { return x ? 63 - __builtin_clzll(x) : -1; }

// Numbers with their microexponents folded in: 7 bits.
INLINE H scaled(const Group& g) { return g.value + (g.value & ~g.micro); }

// SharedMicroexponents.renormalise of one group below 2^WIDTH in units of 2^exponent: packs it, and returns it.
template <bool stochastic>
INLINE Group coded(V total, const int32_t exponent, const uint8_t* random, uint8_t* data, int64_t& saturated) {
  constexpr int32_t half = 1 << (RANDOM - 1), top = LOW - 1;
  const V size = absolute(total);
  const int32_t most = any(size);  // its leading one is the largest's
  const int32_t lead = std::max(leading(uint64_t(most)), 0);
  const H x = narrow(size << (WIDTH - 1 - lead) >> (WIDTH - LOW)), drawn = stochastic ? bytes_of(random) : each(half);
  const H over0 = (x >> 1) + drawn >= int16_t(1 << top);  // at the top, rounding carries
  // one below it may, which is as good as a number at the top
  const H over1 = x >= int16_t((1 << top) - (1 << RANDOM) + (stochastic ? 1 : half));
  const int32_t bump = some(over0) ? 1 : 0, biased = exponent + lead + BIAS + bump;
  if (most == 0 || biased < 0) {
    std::memset(data, 0, GROUP);
    return {0, H{}, H{}};
  }
  const H covers = bump ? over0 : over1, micro = ~(covers | other(covers));
  const H cut = select(micro, x >> bump, x >> (bump + 1));
  const H rounded = (cut + drawn) >> RANDOM, sign = narrow(total) >> 15;
  const Group made = {std::min(biased, LARGEST), micro, (rounded ^ sign) - sign};
  pack(made.exponent, pairs_of(micro), rounded | (sign & (rounded > 0) & 64), data);
  saturated += biased > LARGEST;
  return made;
}

struct Element {  // one number of a register, its microexponent folded in
  int32_t exponent, value;
};

INLINE void elements(const uint8_t* data, Element* each) {
  for (int half = 0; half < 2; half++) {
    const Group g = unpack(data + GROUP * half);
    int16_t value[GROUP];
    const H both = scaled(g);
    std::memcpy(value, &both, sizeof value);
    for (int i = 0; i < GROUP; i++) each[GROUP * half + i] = {g.exponent, value[i]};
  }
}

struct Rates {  // of a group
  V size, shift, positive;
  int32_t extra, gone;
};

INLINE Rates rates_of(const uint8_t* data) {
  const V code = codes_of(data), exponent = code >> 10 & 31, power = select(exponent > 0, exponent, all(1));
  Rates r;
  r.size = (code & 1023) | ((exponent > 0) & 1024);
  r.extra = largest((power > 15) & (4 * ((power >> 2) - 3)));
  const V shift = 15 + r.extra - power;
  r.shift = select(shift < 31, shift, all(31));
  r.positive = (code < 0x8000) & (r.size > 0);
  r.gone = !mask_of(code != ONE);
  return r;
}

INLINE V shifted(V value, int32_t amount) {
  const V size = absolute(value) >> std::min(amount, 31), sign = value >> 31;
  return (size ^ sign) - sign;
}

struct Factor {  // magnitudes with microexponents folded in, and signs
  int32_t exponent;
  H size;
  V sign;
};

// MxUnit.update of one group, in place. Returns the new state.
template <bool stochastic>
INLINE Group updated(uint8_t* data, const Rates& rate, const Factor& k, const Element& v, const uint8_t* random,
                     int64_t& saturated) {
  Group state = unpack(data);
  if (rate.gone) state = {0, H{}, H{}};
  const int32_t e1 = state.exponent + BIAS + rate.extra, e2 = v.value ? k.exponent + v.exponent : 0;
  const int32_t top = std::max(e1, e2);
  const V size = wide(absolute(state.value));
  const V whole = (size << (FRACTION - BITS + 1)) >> rate.extra;
  const V part = ((rate.size * size) << (FRACTION - 15)) >> rate.shift;
  V kept = whole + select(rate.positive, -part, part);
  kept = (kept ^ (kept >> 31)) >> -wide(state.micro);
  const V sign = wide(state.value >> 15) ^ (rate.positive & (part > whole));
  const V old = kept >> std::min(top - e1, 31);
  const V added = (wide(k.size * int16_t(std::abs(v.value))) << (FRACTION - PRODUCT)) >> std::min(top - e2, 31);
  const V minus = k.sign ^ (v.value >> 31);
  const V total = ((old ^ sign) - sign) + ((added ^ minus) - minus);
  return coded<stochastic>(total, top - 2 * BIAS - FRACTION, random, data, saturated);
}

INLINE Sum output(const Group& s, H q, int32_t exponent) {
  const int32_t total = dot(scaled(s), q);
  return {int64_t(total) * (1 << GUARD), total ? s.exponent + exponent : 0};
}

// Packs numbers of results.
void pack_array(int32_t exponent, int32_t micro, const int32_t* value, uint8_t* data) {
  H codes;
  for (int i = 0; i < GROUP; i++) codes[i] = int16_t(std::abs(value[i]) | (value[i] < 0 ? 64 : 0));
  pack(exponent, micro, codes, data);
}

// MxUnit.results of one group of sums.
int results(const Sum* sums, uint8_t* data) {
  int64_t reach[GROUP], cut[GROUP], power[GROUP], top = -(1 << 20);
  for (int i = 0; i < GROUP; i++) {
    const int64_t size = std::llabs(sums[i].value), lead = leading(uint64_t(size));
    cut[i] = lead >= 6 ? size >> (lead - 6) : size << std::min<int64_t>(6 - lead, 6);
    power[i] = sums[i].exponent + lead - 2 * BIAS - PRODUCT - GUARD;
    reach[i] = size ? power[i] + (cut[i] == 127) : -(1 << 20);
    top = std::max(top, reach[i]);
  }
  int32_t value[GROUP], micros = 0;
  for (int i = 0; i < GROUP; i++) {
    const int64_t micro = std::max(reach[i], reach[i ^ 1]) < top;
    const int64_t shift = std::min<int64_t>(std::max<int64_t>(top - micro - power[i] + 1, 1), 9);
    const int32_t rounded = sums[i].value ? int32_t((cut[i] + (int64_t(1) << (shift - 1))) >> shift) : 0;
    micros |= int32_t(micro) << (i / 2);
    value[i] = sums[i].value < 0 ? -rounded : rounded;
  }
  const int64_t biased = top + BIAS;
  if (biased < 0) {
    std::memset(data, 0, GROUP);
    return 0;
  }
  pack_array(int32_t(std::min<int64_t>(biased, LARGEST)), micros, value, data);
  return biased > LARGEST;
}

// The streams of models.numerics.lfsr: the next four words.
INLINE void draw(uint64_t* words, uint8_t* bytes) {
  for (int i = 0; i < 4; i++) {
    const uint64_t next = words[1] ^ (words[0] >> 1) ^ (words[1] << 63);
    words[0] = words[1];
    words[1] = next;
    std::memcpy(bytes + 8 * i, &next, 8);
  }
}

template <bool updates, bool stochastic>
INLINE int64_t mx_pair(uint8_t* const* rows, int64_t bank, const Registers& r, int64_t served, uint64_t* words, uint8_t* out) {
  int64_t saturated = 0;
  Sum sums[2][COLUMNS];
  uint8_t random[COLUMNS][2][32];
  if (stochastic) {
    if (served == 2) {
      for (int column = 0; column < COLUMNS; column++)
        for (int side = 0; side < 2; side++) draw(words + bank, random[column][side]);
    } else {
      for (int side = 0; side < 2; side++)
        for (int column = 0; column < COLUMNS; column++) draw(words + 2 * (bank + side), random[column][side]);
    }
  }
  for (int side = 0; side < 2; side++) {
    const int64_t at = 32 * (bank + side);
    Element v[COLUMNS];
    elements(r.v0 + at, v);
    Sum parts[2][COLUMNS];
    for (int g = 0; g < 2; g++) {
      const Group k = unpack(r.k + at + GROUP * g), q = unpack(r.q + at + GROUP * g);
      const Rates rates = rates_of((g ? r.c1 : r.c0) + at);
      const H qs = scaled(q);
      const Factor ks = {k.exponent, absolute(scaled(k)), wide(k.value >> 15)};
      for (int column = 0; column < COLUMNS; column++) {
        uint8_t* data = rows[side] + 32 * column + GROUP * g;
        const Group state =
            updates ? updated<stochastic>(data, rates, ks, v[column], random[column][side] + GROUP * g, saturated)
                    : unpack(data);
        parts[g][column] = output(state, qs, q.exponent);
      }
    }
    for (int column = 0; column < COLUMNS; column++) sums[side][column] = joined(parts[0][column], parts[1][column]);
  }
  for (int column = 0; column < COLUMNS; column++) sums[0][column] = joined(sums[0][column], sums[1][column]);
  const int lost = results(sums[0], out) + results(sums[0] + GROUP, out + GROUP);
  return saturated + (r.reads ? lost : 0);
}

INLINE int64_t mx_attend(uint8_t* const* rows, int64_t bank, const Registers& r, uint8_t* out) {
  int64_t saturated = 0;
  Element scores[2][COLUMNS];
  for (int side = 0; side < 2; side++) elements(r.v0 + 32 * (bank + side), scores[side]);
  for (int g = 0; g < 2; g++) {
    V total = all(0);
    int32_t exponent = 0;
    for (int step = 0; step < 2 * COLUMNS; step++) {
      const int side = step % 2, column = step / 2;
      const Group v = unpack(rows[side] + 32 * column + GROUP * g);
      const Element s = scores[side][column];
      const int32_t e = s.value ? v.exponent + s.exponent : 0, top = std::max(exponent, e);
      const V product = wide(scaled(v) * int16_t(s.value)) << (FRACTION - PRODUCT);
      total = shifted(total, top - exponent) + shifted(product, top - e);
      const int32_t carry = any(absolute(total)) >> WIDTH ? 1 : 0;
      total = shifted(total, carry);
      exponent = top + carry;
    }
    coded<false>(total, exponent - 2 * BIAS - FRACTION, nullptr, out + GROUP * g, saturated);
  }
  return saturated;
}

}  // namespace
