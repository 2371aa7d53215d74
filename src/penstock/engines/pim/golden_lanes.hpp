// What golden.cpp's units share: 16 lanes of 16 and of 32 bits, and sums of outputs.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#define INLINE inline __attribute__((always_inline))

namespace {

constexpr int COLUMNS = 32, GROUP = 16, BIAS = 127, LARGEST = 254, GUARD = 4, FRACTION = 17, PRODUCT = 12;
constexpr int BITS = 6, WIDTH = FRACTION + 4, RANDOM = 8, LOW = BITS + 1 + RANDOM, ONE = 0x3C00;

struct Registers {  // 32 bytes a bank; whether results are read
  const uint8_t *c0, *c1, *k, *q, *v0, *v1;
  bool reads;
};

struct Sum {
  int64_t value, exponent;
};

INLINE Sum joined(Sum a, Sum b) {
  const int64_t top = std::max(a.exponent, b.exponent);
  return {(a.value >> std::min<int64_t>(top - a.exponent, 40)) + (b.value >> std::min<int64_t>(top - b.exponent, 40)), top};
}

typedef int32_t W __attribute__((vector_size(32)));
typedef float R __attribute__((vector_size(32)));
typedef int16_t H __attribute__((vector_size(32)));  // 16 lanes of 16 bits

struct V {  // 16 lanes; comparisons give 0 or -1
  W a, b;
};
struct F {
  R a, b;
};

#define LANES(T, op)                                                                \
  INLINE T operator op(T x, T y) { return {x.a op y.a, x.b op y.b}; }
#define NUMBERS(op)                                                                 \
  LANES(V, op)                                                                      \
  INLINE V operator op(V x, int32_t y) { return {x.a op y, x.b op y}; }             \
  INLINE V operator op(int32_t x, V y) { return {x op y.a, x op y.b}; }
NUMBERS(+) NUMBERS(-) NUMBERS(*) NUMBERS(&) NUMBERS(|) NUMBERS(^) NUMBERS(<<) NUMBERS(>>)
NUMBERS(>) NUMBERS(<) NUMBERS(>=) NUMBERS(==) NUMBERS(!=)
LANES(F, +) LANES(F, -) LANES(F, *)
INLINE V operator~(V x) { return {~x.a, ~x.b}; }
INLINE V operator-(V x) { return {-x.a, -x.b}; }

constexpr H PAIR = {1, 1, 2, 2, 4, 4, 8, 8, 16, 16, 32, 32, 64, 64, 128, 128};
constexpr W OTHER = {1, 0, 3, 2, 5, 4, 7, 6};

INLINE V all(int32_t x) { return {W{} + x, W{} + x}; }
INLINE F all(float x) { return {x - R{}, x - R{}}; }
INLINE V bits_of(F x) { return {W(x.a), W(x.b)}; }
INLINE F numbers_of(V x) { return {R(x.a), R(x.b)}; }
INLINE V absolute(V x) { return (x ^ (x >> 31)) - (x >> 31); }
INLINE V select(V mask, V a, V b) { return {mask.a ? a.a : b.a, mask.b ? a.b : b.b}; }

// Folds 16 lanes with an operation, in halves.
template <class Operation>
INLINE int32_t folded(V v, Operation operation) {
  W x = operation(v.a, v.b);
  x = operation(x, __builtin_shuffle(x, W{4, 5, 6, 7, 0, 1, 2, 3}));
  x = operation(x, __builtin_shuffle(x, W{2, 3, 0, 1, 6, 7, 4, 5}));
  x = operation(x, __builtin_shuffle(x, OTHER));
  return x[0];
}
INLINE int32_t any(V x) { return folded(x, [](W a, W b) { return a | b; }); }
// A bit for each lane of 0 or -1.
INLINE int32_t mask_of(V x) {
#ifdef __AVX2__
  return _mm256_movemask_ps(__m256(x.a)) | _mm256_movemask_ps(__m256(x.b)) << 8;
#else
  return any(x & V{{1, 2, 4, 8, 16, 32, 64, 128}, {256, 512, 1024, 2048, 4096, 8192, 16384, 32768}});
#endif
}
INLINE int32_t sum(V x) { return folded(x, [](W a, W b) { return a + b; }); }
INLINE int32_t largest(V x) { return folded(x, [](W a, W b) { return a > b ? a : b; }); }

INLINE H each(int32_t x) { return H{} + int16_t(x); }
INLINE H absolute(H x) { return (x ^ (x >> 15)) - (x >> 15); }
INLINE H select(H mask, H a, H b) { return mask ? a : b; }

// 16 bytes in memory as numbers.
INLINE H bytes_of(const uint8_t* data) {
#ifdef __AVX2__
  return H(_mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data))));
#else
  H x;
  for (int i = 0; i < GROUP; i++) x[i] = data[i];
  return x;
#endif
}

INLINE void put_bytes(uint64_t* words, H x) {
#ifdef __AVX2__
  const __m128i packed = _mm_packus_epi16(_mm256_castsi256_si128(__m256i(x)), _mm256_extracti128_si256(__m256i(x), 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(words), packed);
#else
  uint8_t bytes[GROUP];
  for (int i = 0; i < GROUP; i++) bytes[i] = uint8_t(x[i]);
  std::memcpy(words, bytes, GROUP);
#endif
}

INLINE V wide(H x) {
#ifdef __AVX2__
  return {W(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(__m256i(x)))), W(_mm256_cvtepi16_epi32(_mm256_extracti128_si256(__m256i(x), 1)))};
#else
  V y;
  for (int i = 0; i < 8; i++) y.a[i] = x[i], y.b[i] = x[8 + i];
  return y;
#endif
}

// Numbers cut to 16 bits, those beyond at the end of the range.
INLINE H narrow(V x) {
#ifdef __AVX2__
  return H(_mm256_permute4x64_epi64(_mm256_packs_epi32(__m256i(x.a), __m256i(x.b)), 0xD8));
#else
  H y;
  for (int i = 0; i < 8; i++) {
    y[i] = int16_t(std::min(std::max(x.a[i], -32768), 32767));
    y[8 + i] = int16_t(std::min(std::max(x.b[i], -32768), 32767));
  }
  return y;
#endif
}

// A bit for each pair of lanes that are alike, 0 or -1; whether any lane is not 0.
INLINE int32_t pairs_of(H x) {
#if defined(__AVX2__) && defined(__BMI2__)
  return int32_t(__builtin_ia32_pext_si(uint32_t(mask_of(wide(x))), 0x5555));
#else
  int32_t bits = 0;
  for (int i = 0; i < GROUP; i += 2) bits |= (x[i] & 1) << (i / 2);
  return bits;
#endif
}
INLINE bool some(H x) {
#ifdef __AVX2__
  return _mm256_movemask_epi8(__m256i(x)) != 0;
#else
  return any(wide(x)) != 0;
#endif
}
INLINE H other(H x) {
  return __builtin_shuffle(x, H{1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14});
}

// The sum of products of lanes.
INLINE int32_t dot(H x, H y) {
#ifdef __AVX2__
  return sum(V{W(_mm256_madd_epi16(__m256i(x), __m256i(y))), W{}});
#else
  return sum(wide(x) * wide(y));
#endif
}

// 16 halves in memory.
INLINE V codes_of(const uint8_t* data) {
#ifdef __AVX2__
  const __m128i* halves = reinterpret_cast<const __m128i*>(data);
  return {W(_mm256_cvtepu16_epi32(_mm_loadu_si128(halves))), W(_mm256_cvtepu16_epi32(_mm_loadu_si128(halves + 1)))};
#else
  V x;
  for (int i = 0; i < 8; i++) x.a[i] = data[2 * i] | data[2 * i + 1] << 8, x.b[i] = data[16 + 2 * i] | data[17 + 2 * i] << 8;
  return x;
#endif
}

INLINE void put_codes(uint8_t* data, V x) {
#ifdef __AVX2__
  const __m256i packed = _mm256_packus_epi32(__m256i(x.a), __m256i(x.b));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(data), _mm256_permute4x64_epi64(packed, 0xD8));
#else
  for (int i = 0; i < 8; i++) {
    const uint16_t codes[2] = {uint16_t(x.a[i]), uint16_t(x.b[i])};
    for (int half = 0; half < 2; half++) data[16 * half + 2 * i] = uint8_t(codes[half]), data[16 * half + 2 * i + 1] = uint8_t(codes[half] >> 8);
  }
#endif
}

}  // namespace
