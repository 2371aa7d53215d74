/* An oblivious map by linear scan: every operation reads and writes every slot, whatever it finds.

   Keys and values lie in arrays of their own; there are no branches on data. A slot whose key is the one asked for gives its
   value, and gets the new one where the operation writes. Keys that are not there are not inserted, which favours the scan.
   WORDS: 64-bit words of a value. */

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#ifndef WORDS
#define WORDS 1
#endif

#if WORDS == 1
static uint64_t operate(uint64_t *restrict keys, uint64_t *restrict values, long n, uint64_t key, const uint64_t *value, uint64_t writes,
                        uint64_t *restrict old)
{
    uint64_t found = 0, given = value[0], seen = 0;
    for (long i = 0; i < n; i++) {
        uint64_t hit = -(uint64_t)(keys[i] == key), here = values[i];
        seen |= here & hit;
        found |= hit;
        hit &= writes;
        values[i] = (here & ~hit) | (given & hit);
    }
    old[0] = seen;
    return found;
}
#else
static uint64_t operate(uint64_t *restrict keys, uint64_t *restrict values, long n, uint64_t key, const uint64_t *value, uint64_t writes,
                        uint64_t *restrict old)
{
    uint64_t found = 0, seen[WORDS] = {0}, given[WORDS];
    for (int w = 0; w < WORDS; w++)
        given[w] = value[w];
    for (long i = 0; i < n; i++) {
        uint64_t hit = -(uint64_t)(keys[i] == key), change = hit & writes, *slot = values + i * WORDS;
        found |= hit;
        for (int w = 0; w < WORDS; w++) {
            uint64_t here = slot[w];
            seen[w] |= here & hit;
            slot[w] = (here & ~change) | (given[w] & change);
        }
    }
    for (int w = 0; w < WORDS; w++)
        old[w] = seen[w];
    return found;
}
#endif

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* Seconds an operation over n slots, the least of `batches` batches of `count`, half of them gets and half puts of keys that are there;
   a negative number where an answer is wrong. */
double scan_seconds(long n, long count, long batches)
{
    uint64_t *keys = aligned_alloc(64, 8 * (n + 8)), *values = aligned_alloc(64, 8 * WORDS * (n + 8)), given[WORDS], old[WORDS];
    uint64_t state = 88172645463325252u, *last = calloc(n, 8);
    double best = 1e9;
    for (long i = 0; i < n; i++) {
        keys[i] = (uint64_t)i * 0x9E3779B97F4A7C15u;
        for (int w = 0; w < WORDS; w++)
            values[i * WORDS + w] = 0;
    }
    for (long b = 0; b < batches; b++) {
        double begin = now();
        for (long k = 0; k < count; k++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            long i = state % n;
            uint64_t writes = -(state >> 63);
            for (int w = 0; w < WORDS; w++)
                given[w] = state;
            if (!operate(keys, values, n, keys[i], given, writes, old) || old[0] != last[i] || old[WORDS - 1] != last[i])
                return -1;
            last[i] = writes ? state : last[i];
        }
        double each = (now() - begin) / count;
        best = each < best ? each : best;
    }
    free(keys), free(values), free(last);
    return best;
}
