/* Behind engines/qr/refit.c in one program: what one core takes for whole trainings, for refits with ranks, for columns with limbs, for a pass
 * of refinement and for scores, as fast as we can write it in C; and LAPACK's dgelss by its pointer, without a wrapper. */

static void add_right(Group *group, const uint8_t *rows, const int32_t *labels, int count)
{
    doubles right[2 * BLOCKS];
    memset(right, 0, sizeof right);
    for (int r = 0; r < count; r++)
        for (int b = 0; b < BLOCKS; b++) {
            ints x = letters(rows + r * WIDTH + LANES * b) - group->offsets[b];
            for (int h = 0; h < 2; h++)
                right[2 * b + h] +=
                    (double)labels[r] * __builtin_convertvector(((split_ints){x}).half[h], doubles);
        }
    for (int j = 0; j < COLUMNS; j++)
        ((int64_t *)group->gram[j])[COLUMNS] = (int64_t)((double *)right)[j];
}

static void add_keys(Group *group, const uint8_t *rows, int count)
{
    static ints pairs[MOST_ROWS / 2][BLOCKS];
    for (int first = 0; first < count; first += MOST_ROWS) {
        int some = count - first < MOST_ROWS ? count - first : MOST_ROWS;
        for (int r = 0; r < some; r++)
            for (int b = 0; b < BLOCKS; b++) {
                ints x = letters(rows + (first + r) * WIDTH + LANES * b) - group->offsets[b];
                pairs[r / 2][b] = r % 2 ? pairs[r / 2][b] | x << 16 : (x & 0xFFFF);
            }
        add_products(group, pairs, some / 2);
    }
}

static void pass(Group *group, const uint8_t *rows, const int32_t *labels, int count)
{
    float least = 1e30f, most = -1e30f;
    for (int r = 0; r < count; r++) {
        floats score = {0};
        for (int b = 0; b < BLOCKS; b++)
            score += group->weights[b] *
                     __builtin_convertvector(letters(rows + r * WIDTH + LANES * b) - group->offsets[b], floats);
        float sum = total(score), error = (float)(labels[r] - (int32_t)(sum < 0 ? 0 : sum));
        least = error < least ? error : least;
        most = error > most ? error : most;
    }
    group->err_min = least, group->err_max = most;
}

/* Fit `count` rows, an even number; `fresh` of them, the first ones, are not in the group's products yet (all: a training). */
void fit_keys(Group *group, const uint8_t *rows, const int32_t *labels, int count, int fresh,
              const int32_t *offsets)
{
    if (fresh == count)
        start_group(group, offsets);
    add_keys(group, rows, fresh);
    add_right(group, rows, labels, count);
    solve(group);
    pass(group, rows, labels, count);
}

double time_fit(Group *group, const uint8_t *rows, const int32_t *labels, int count, int fresh,
                const int32_t *offsets, int repeats)
{
    double best = 1e9;
    for (int k = 0; k < repeats; k++) {
        double begin = seconds();
        fit_keys(group, rows, labels, count, fresh, offsets);
        double each = seconds() - begin;
        best = each < best ? each : best;
    }
    return best;
}

/* The errors' bounds of all rows alone: what a refit in slots needs where its widened bounds are too wide. */
double time_pass(Group *group, const uint8_t *rows, const int32_t *labels, int count, int repeats)
{
    double best = 1e9;
    for (int k = 0; k < repeats; k++) {
        double begin = seconds();
        pass(group, rows, labels, count);
        double each = seconds() - begin;
        best = each < best ? each : best;
    }
    return best;
}

/* Exact sums over products of columns with limbs: int64 (rows, COLUMNS), into __int128; returns the seconds. */
double time_limbs(const int64_t *q, int rows, __int128 *sums, int repeats)
{
    double best = 1e9;
    for (int k = 0; k < repeats; k++) {
        double begin = seconds();
        memset(sums, 0, sizeof(__int128) * COLUMNS * COLUMNS);
        for (int r = 0; r < rows; r++)
            for (int i = 0; i < COLUMNS; i++)
                for (int j = i; j < COLUMNS; j++)
                    sums[i * COLUMNS + j] += (__int128)q[r * COLUMNS + i] * q[r * COLUMNS + j];
        double each = seconds() - begin;
        best = each < best ? each : best;
    }
    return best;
}

/* A pass of refinement, g = X'(y - X w), or without `gradient` the scores X w alone; rows of COLUMNS float64, the label last. */
double time_rows(const double *x, int rows, const double *w, double *gradient, double *scores,
                 int repeats)
{
    double best = 1e9;
    for (int k = 0; k < repeats; k++) {
        double begin = seconds();
        for (int r = 0; r < rows; r++) {
            const double *row = x + r * COLUMNS;
            double sum = 0;
            for (int j = 0; j < COLUMNS - 1; j++)
                sum += row[j] * w[j];
            scores[r] = sum;
            if (gradient)
                for (int j = 0; j < COLUMNS - 1; j++)
                    gradient[j] += (row[COLUMNS - 1] - sum) * row[j];
        }
        double each = seconds() - begin;
        best = each < best ? each : best;
    }
    return best;
}

typedef void dgelss_t(int *, int *, int *, double *, int *, double *, int *, double *, double *, int *,
                      double *, int *, int *);

/* Least squares of a (rows, COLUMNS), by columns, by singular values; `spare`: as large as a and b together. */
double time_dgelss(dgelss_t *dgelss, const double *a, const double *b, int rows, double *spare,
                   double *work, int room, int repeats)
{
    double best = 1e9, values[COLUMNS], tolerance = -1;
    int columns = COLUMNS, one = 1, rank, info;
    for (int k = 0; k < repeats; k++) {
        memcpy(spare, a, sizeof *a * rows * COLUMNS);
        memcpy(spare + rows * COLUMNS, b, sizeof *b * rows);
        double begin = seconds();
        dgelss(&rows, &columns, &one, spare, &rows, spare + rows * COLUMNS, &rows, values, &tolerance, &rank,
               work, &room, &info);
        double each = seconds() - begin;
        if (info)
            return -1;
        best = each < best ? each : best;
    }
    return best;
}
