/* Refits on one core of a CPU: what the engine of fits computes, as fast as we can write it in C.
 *
 * Built by refit_c.py for a number of columns, COLUMNS, the bias among them.
 *
 * refit_keys: a group of keys with target `slot`. Rows that come are added to AᵀA and c = Aᵀb in
 * exact integers, labels of rows that move change c; the matrix is eliminated in float32 with the
 * rank rule, then come the weights, and the bounds widened against an anchor (docs/explanation/qr.md).
 * refit_table: rows of a table come and rows go; products in float64, of integers below 2**18 and
 * so exact, sums in integers of 64 bits; the same elimination.
 *
 * Rows are eliminated in vectors of LANES columns; the right side is one column more.
 */
#include <stdint.h>
#include <string.h>
#include <time.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#define LANES 8
#define BLOCKS ((COLUMNS + LANES) / LANES) /* columns and one right side */
#define WIDTH (BLOCKS * LANES)
#define MOST_ROWS 512
#define TILE 4

typedef float floats __attribute__((vector_size(4 * LANES)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));
/* half as many lanes */
typedef float half_floats __attribute__((vector_size(2 * LANES)));
typedef int32_t half_ints __attribute__((vector_size(2 * LANES)));
typedef double doubles __attribute__((vector_size(4 * LANES)));
typedef int64_t longs __attribute__((vector_size(4 * LANES)));
typedef union { ints whole; half_ints half[2]; } split_ints;

typedef struct {
    longs gram[COLUMNS][2 * BLOCKS]; /* upper triangle; column COLUMNS is c; below 2**51 */
    floats weights[BLOCKS], anchor[BLOCKS];
    ints offsets[BLOCKS], least[BLOCKS], most[BLOCKS];
    float err_min, err_max, rise, fall;
} Group;

size_t group_bytes(void) { return sizeof(Group); }
const float *group_weights(const Group *group) { return (const float *)group->weights; }

/* Begin a group of no rows. */
void start_group(Group *group, const int32_t *offsets)
{
    memset(group, 0, sizeof *group);
    memcpy(group->offsets, offsets, 4 * COLUMNS);
}

static ints chosen(ints mask, ints a, ints b) { return (mask & a) | (~mask & b); }
static floats larger(floats a, floats b) { return (floats)chosen(a > b, (ints)a, (ints)b); }
static floats smaller(floats a, floats b) { return (floats)chosen(a < b, (ints)a, (ints)b); }

/* Integers below 2**51 as float64: they are the low bits of 1.5 * 2**52 more. */
static doubles real(longs v)
{
    return (doubles)(v + 0x4338000000000000) - 0x1.8p52;
}

static longs whole(doubles v)
{
    return (longs)(v + 0x1.8p52) - 0x4338000000000000;
}

static ints letters(const uint8_t *at)
{
#ifdef __AVX2__
    return (ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)at));
#else
    ints found;
    for (int k = 0; k < LANES; k++)
        found[k] = at[k];
    return found;
#endif
}

static float total(floats v)
{
    float sum = 0;
    for (int k = 0; k < LANES; k++)
        sum += v[k];
    return sum;
}

/* Solve the group's sums: its weights are new then. */
static void solve(Group *group)
{
    floats g[COLUMNS][BLOCKS];
    float inverse[COLUMNS];
    for (int i = 0; i < COLUMNS; i++)
        for (int b = i / LANES; b < BLOCKS; b++)
            for (int h = 0; h < 2; h++)
                ((half_floats *)&g[i][b])[h] =
                    __builtin_convertvector(real(group->gram[i][2 * b + h]), half_floats);
    for (int k = 0; k < COLUMNS; k++) {
        const float *row = (const float *)g[k];
        float square = (float)((int64_t *)group->gram[k])[k];
        inverse[k] = row[k] > square * 0x1p-16f ? 1 / row[k] : 0;
        for (int i = k + 1; i < COLUMNS; i++) {
            float factor = row[i] * inverse[k];
            for (int b = i / LANES; b < BLOCKS; b++)
                g[i][b] -= factor * g[k][b];
        }
    }
    memset(group->weights, 0, sizeof group->weights);
    for (int k = COLUMNS - 1; k >= 0; k--) {
        /* weights that are not known yet are 0, and so is that of the right side */
        floats sum = {0};
        for (int b = k / LANES; b < BLOCKS; b++)
            sum += g[k][b] * group->weights[b];
        float right = ((const float *)g[k])[COLUMNS];
        ((float *)group->weights)[k] = (right - total(sum)) * inverse[k];
    }
}

/* Add the products of pairs of rows (16 bits each) to the triangle, TILE rows of it at a time. */
static void add_products(Group *group, ints pairs[][BLOCKS], int count)
{
    for (int i = 0; i < COLUMNS; i += TILE)
        for (int b = i / LANES; b < BLOCKS; b++) {
            ints sums[TILE] = {{0}};
            for (int r = 0; r < count; r++)
                for (int t = 0; t < TILE; t++) {
                    int32_t pair = ((const int32_t *)pairs[r])[i + t];
#ifdef __AVX2__
                    __m256i both = _mm256_set1_epi32(pair);
                    sums[t] += (ints)_mm256_madd_epi16(both, (__m256i)pairs[r][b]);
#else
                    ints low = pairs[r][b] << 16 >> 16, high = pairs[r][b] >> 16;
                    sums[t] += (int16_t)pair * low + (pair >> 16) * high;
#endif
                }
            for (int t = 0; t < TILE && i + t < COLUMNS; t++)
                for (int h = 0; h < 2; h++)
                    group->gram[i + t][2 * b + h] +=
                        __builtin_convertvector(((split_ints){sums[t]}).half[h], longs);
        }
}

/* Refit a group: `come` rows come, an even number, the next `move` change their labels by `change`;
 * at most MOST_ROWS. A row is WIDTH bytes: 1, the key's, 0. Labels are those after the refit. */
void refit_keys(Group *group, const uint8_t *rows, const int32_t *labels, const int32_t *change,
                int come, int move)
{
    static ints pairs[MOST_ROWS / 2][BLOCKS];
    doubles right[2 * BLOCKS];
    memset(right, 0, sizeof right);
    for (int r = 0; r < come + move; r++) {
        double factor = r < come ? labels[r] : change[r - come];
        floats score = {0};
        for (int b = 0; b < BLOCKS; b++) {
            ints x = letters(rows + r * WIDTH + LANES * b) - group->offsets[b];
            group->least[b] = chosen(x < group->least[b], x, group->least[b]);
            group->most[b] = chosen(x > group->most[b], x, group->most[b]);
            score += group->anchor[b] * __builtin_convertvector(x, floats);
            for (int h = 0; h < 2; h++)
                right[2 * b + h] +=
                    factor * __builtin_convertvector(((split_ints){x}).half[h], doubles);
            if (r < come)
                pairs[r / 2][b] = r % 2 ? pairs[r / 2][b] | x << 16 : (x & 0xFFFF);
        }
        float sum = total(score), error = (float)(labels[r] - (int32_t)(sum < 0 ? 0 : sum));
        group->err_min = error < group->err_min ? error : group->err_min;
        group->err_max = error > group->err_max ? error : group->err_max;
    }
    add_products(group, pairs, come / 2);
    for (int j = 0; j < COLUMNS; j++)
        ((int64_t *)group->gram[j])[COLUMNS] += (int64_t)((double *)right)[j];
    solve(group);
    floats rise = {0}, fall = {0}, size = {0};
    for (int b = 0; b < BLOCKS; b++) {
        floats least = __builtin_convertvector(group->least[b], floats);
        floats most = __builtin_convertvector(group->most[b], floats);
        floats delta = group->weights[b] - group->anchor[b];
        rise += larger(delta * least, delta * most);
        fall += smaller(delta * least, delta * most);
        size += (larger(group->weights[b], -group->weights[b])
                 + larger(group->anchor[b], -group->anchor[b])) * larger(-least, most);
    }
    group->rise = total(rise) + total(size) * 0x1p-19f;
    group->fall = total(fall) - total(size) * 0x1p-19f;
}

/* Add the products of `count` rows of a table to the triangle, or take them from it. */
static void add_rows(Group *group, const float *rows, int count, const double *offsets,
                     double scale, double sign)
{
    static doubles values[MOST_ROWS][2 * BLOCKS];
    for (int r = 0; r < count; r++) {
        double *a = (double *)values[r];
        a[0] = 1;
        for (int j = 0; j < COLUMNS; j++)
            a[j + 1] = __builtin_rint(rows[r * COLUMNS + j] * scale) - offsets[j];
    }
    for (int i = 0; i < COLUMNS; i += TILE)
        for (int b = i / LANES * 2; b < 2 * BLOCKS; b += 2) {
            doubles sums[TILE][2] = {{{0}}};
            for (int r = 0; r < count; r++)
                for (int t = 0; t < TILE; t++)
                    for (int h = 0; h < 2; h++)
                        sums[t][h] += ((double *)values[r])[i + t] * values[r][b + h];
            for (int t = 0; t < TILE && i + t < COLUMNS; t++)
                for (int h = 0; h < 2; h++)
                    group->gram[i + t][b + h] += whole(sign * sums[t][h]);
        }
}

/* Refit a table: rows of COLUMNS values (features, then the label), at most MOST_ROWS, come and go, in
 * units of 1 / scale; `offsets`: of each value. */
void refit_table(Group *group, const float *come, int come_count, const float *gone, int gone_count,
                 const double *offsets, double scale)
{
    add_rows(group, come, come_count, offsets, scale, 1);
    add_rows(group, gone, gone_count, offsets, scale, -1);
    solve(group);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

/* Return the least seconds of a refit, over `repeats` turns of as many refits as there are groups. */
double time_keys(Group *groups, int count, const uint8_t *rows, const int32_t *labels,
                 const int32_t *change, int come, int move, int repeats)
{
    double best = 1e9;
    for (int k = 0; k < repeats; k++) {
        double begin = seconds();
        for (int n = 0; n < count; n++)
            refit_keys(&groups[n], rows, labels, change, come, move);
        double each = (seconds() - begin) / count;
        best = each < best ? each : best;
    }
    return best;
}

double time_table(Group *groups, int count, const float *come, int come_count, const float *gone,
                  int gone_count, const double *offsets, double scale, int repeats)
{
    double best = 1e9;
    for (int k = 0; k < repeats; k++) {
        double begin = seconds();
        for (int n = 0; n < count; n++)
            refit_table(&groups[n], come, come_count, gone, gone_count, offsets, scale);
        double each = (seconds() - begin) / count;
        best = each < best ? each : best;
    }
    return best;
}
