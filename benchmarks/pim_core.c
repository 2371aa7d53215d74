/* Tokens of RetNet's heads on one core, as fast as we can write it in C: S = d S + k v', y = S' q, for rows k and columns v of `size` numbers.
 * Three layouts of S: rows, with y in memory; panels of 32 columns, with their y in registers; columns, with sums across vectors. */

#include <stddef.h>
#include <time.h>

typedef float eight __attribute__((vector_size(32), aligned(4)));
enum { LANES = 8, PANEL = 4 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void rows(float *s, float d, const float *k, const float *v, const float *q, float *y, size_t size)
{
    for (size_t j = 0; j < size; j++)
        y[j] = 0;
    for (size_t i = 0; i < size; i++)
        for (size_t j = 0; j < size; j += LANES) {
            eight *at = (eight *)(s + i * size + j);
            *at = *at * d + *(const eight *)(v + j) * k[i];
            *(eight *)(y + j) += *at * q[i];
        }
}

static void panels(float *s, float d, const float *k, const float *v, const float *q, float *y, size_t size)
{
    for (size_t j = 0; j < size; j += LANES * PANEL) {
        eight sum[PANEL] = {0}, own[PANEL];
        for (int n = 0; n < PANEL; n++)
            own[n] = ((const eight *)(v + j))[n];
        eight *at = (eight *)(s + j * size);
        for (size_t i = 0; i < size; i++, at += PANEL)
            for (int n = 0; n < PANEL; n++) {
                at[n] = at[n] * d + own[n] * k[i];
                sum[n] += at[n] * q[i];
            }
        for (int n = 0; n < PANEL; n++)
            ((eight *)(y + j))[n] = sum[n];
    }
}

static void columns(float *s, float d, const float *k, const float *v, const float *q, float *y, size_t size)
{
    for (size_t j = 0; j < size; j++) {
        eight sum[2] = {0};
        for (size_t i = 0; i < size; i += 2 * LANES)
            for (int n = 0; n < 2; n++) {
                eight *at = (eight *)(s + j * size + i) + n;
                *at = *at * d + ((const eight *)(k + i))[n] * v[j];
                sum[n] += *at * ((const eight *)(q + i))[n];
            }
        float total = 0;
        for (int n = 0; n < LANES; n++)
            total += sum[0][n] + sum[1][n];
        y[j] = total;
    }
}

/* Seconds of `tokens` of all `heads`: of one layout, from states of zeros. Vectors are (tokens, heads, size), decays (heads). */
double time_tokens(int layout, size_t size, size_t heads, size_t tokens, float *s, const float *d, const float *k, const float *v,
                   const float *q, float *y)
{
    void (*const step[])(float *, float, const float *, const float *, const float *, float *, size_t) = {rows, panels, columns};
    for (size_t n = 0; n < heads * size * size; n++)
        s[n] = 0;
    double begin = now();
    for (size_t t = 0; t < tokens; t++)
        for (size_t h = 0; h < heads; h++) {
            size_t at = (t * heads + h) * size;
            step[layout](s + h * size * size, d[h], k + at, v + at, q + at, y + at, size);
        }
    return now() - begin;
}
