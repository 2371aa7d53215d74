/* What a core does with the kernels of row_peers.py, as quick as we can write it in C: rows of 16 floats (or 8), each tuple's changes at once; several
 * threads have a part of the tuples each and change the same rows without locks. */
#include <math.h>
#include <thread>
#include <vector>

template <class Body> static void split(long count, long threads, Body body)
{
    std::vector<std::thread> some;
    for (long t = 1; t < threads; t++)
        some.emplace_back(body, count * t / threads, count * (t + 1) / threads);
    body(0L, count / threads);
    for (auto &thread : some)
        thread.join();
}

static float sigmoid(float x) { return 1 / (1 + expf(-x)); }

extern "C" __attribute__((visibility("default")))
void lrmf(long count, long threads, const int *c, const float *r, float *P, float *Q)
{
    split(count, threads, [=](long first, long end) {
        for (long t = first; t < end; t++) {
            float *__restrict p = P + 16 * (long)c[2 * t], *__restrict q = Q + 16 * (long)c[2 * t + 1];
            if (t + 16 < end) {
                __builtin_prefetch(P + 16 * (long)c[2 * t + 32]);
                __builtin_prefetch(Q + 16 * (long)c[2 * t + 33]);
            }
            float error = 0;
            for (int k = 0; k < 16; k++)
                error += p[k] * q[k];
            float step = -0.05f * (error - r[t]);
            for (int k = 0; k < 16; k++) {
                float before = p[k];
                p[k] += step * q[k];
                q[k] += step * before;
            }
        }
    });
}

/* 39 fields, rows of 8; w of one number a row, a bias */
extern "C" __attribute__((visibility("default")))
void fm(long count, long threads, const int *c, const float *y, float *V, float *w)
{
    split(count, threads, [=](long first, long end) {
        for (long t = first; t < end; t++) {
            const int *rows = c + 39 * t;
            float total[8] = {0}, squares = 0, sum = w[0];
            if (t + 1 < end)
                for (int f = 0; f < 39; f++)
                    __builtin_prefetch(V + 8 * (long)rows[39 + f]);
            for (int f = 0; f < 39; f++) {
                const float *v = V + 8 * (long)rows[f];
                for (int k = 0; k < 8; k++)
                    total[k] += v[k], squares += v[k] * v[k];
                sum += w[1 + rows[f]];
            }
            for (int k = 0; k < 8; k++)
                sum += 0.5f * total[k] * total[k];
            float step = 0.05f * (sigmoid(sum - 0.5f * squares) - y[t]);
            for (int f = 0; f < 39; f++) {
                float *v = V + 8 * (long)rows[f];
                for (int k = 0; k < 8; k++)
                    v[k] -= step * (total[k] - v[k]);
                w[1 + rows[f]] -= step;
            }
            w[0] -= step;
        }
    });
}

/* bags of 8 rows of 16 beside a dense layer of 13; the dense weights change with each tuple */
extern "C" __attribute__((visibility("default")))
void dlrm(long count, long threads, const int *c, const float *y, float *E, float *dense)
{
    split(count, threads, [=](long first, long end) {
        float *W = dense, *v = dense + 16 * 13;
        for (long t = first; t < end; t++) {
            const int *rows = c + 8 * t;
            const float *x = y + 14 * t;
            float layer[16], hidden[16], sum = 0;
            if (t + 2 < end)
                for (int b = 0; b < 8; b++)
                    __builtin_prefetch(E + 16 * (long)rows[16 + b]);
            for (int k = 0; k < 16; k++)
                layer[k] = 0;
            for (int d = 0; d < 13; d++)
                for (int k = 0; k < 16; k++)
                    layer[k] += W[16 * d + k] * x[1 + d];
            for (int k = 0; k < 16; k++)
                hidden[k] = layer[k] > 0 ? layer[k] : 0;
            for (int b = 0; b < 8; b++)
                for (int k = 0; k < 16; k++)
                    hidden[k] += E[16 * (long)rows[b] + k];
            for (int k = 0; k < 16; k++)
                sum += v[k] * hidden[k];
            float step = 0.1f * (sigmoid(sum) - x[0]), back[16];
            for (int k = 0; k < 16; k++)
                back[k] = step * v[k], v[k] -= step * hidden[k];
            for (int b = 0; b < 8; b++)
                for (int k = 0; k < 16; k++)
                    E[16 * (long)rows[b] + k] -= back[k];
            for (int k = 0; k < 16; k++)
                back[k] = layer[k] > 0 ? back[k] : 0;
            for (int d = 0; d < 13; d++)
                for (int k = 0; k < 16; k++)
                    W[16 * d + k] -= back[k] * x[1 + d];
        }
    });
}
