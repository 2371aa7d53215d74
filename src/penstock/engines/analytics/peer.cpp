// What a kernel's functions in C++ stand between (in_c.py). Before it: the type T of numbers, and the sizes BATCH, WIDTH, MODELS and SCRATCH.
#include <barrier>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

struct Add { static constexpr T none = 0; static T of(T a, T b) { return a + b; } };
struct Mul { static constexpr T none = 1; static T of(T a, T b) { return a * b; } };
struct Max { static constexpr T none = -INFINITY; static T of(T a, T b) { return b > a || b != b ? b : a; } };
struct Min { static constexpr T none = INFINITY; static T of(T a, T b) { return b < a || b != b ? b : a; } };
static inline T sigmoid(T v) { T small = std::exp(-std::abs(v)); return (v >= 0 ? 1 : small) / (1 + small); }
static inline T gaussian(T v) { return std::exp(-v * v); }
template <class Op, long N, class Value> static inline T fold(Value value) {
    constexpr long LANES = 16;
    if (N == 1) return value(0);
    T part[LANES];
    for (long l = 0; l < LANES; l++) part[l] = Op::none;
    long n = 0;
    for (; n + LANES <= N; n += LANES)
        for (long l = 0; l < LANES; l++) part[l] = Op::of(part[l], value(n + l));
    for (long l = 0; n < N; n++, l++) part[l] = Op::of(part[l], value(n));
    for (long step = LANES / 2; step; step /= 2)
        for (long l = 0; l < step; l++) part[l] = Op::of(part[l], part[l + step]);
    return part[0];
}

// the kernel

extern "C" __attribute__((visibility("default")))
long penstock_train(const T* fixed, T* models, const T* rows, long count, long epochs, int threads, int* converged) {
    const long batch = BATCH ? BATCH : count;
    std::vector<T*> scratch(threads);
    for (T*& each : scratch) each = static_cast<T*>(std::aligned_alloc(64, SCRATCH * sizeof(T)));
    std::vector<T> old(models, models + MODELS), next(old);
    std::barrier meet(threads);
    bool over = false;
    long done = 0;
    auto work = [&](int t) {
        for (long epoch = 0; epoch < epochs && !over; epoch++) {
            for (long first = 0; first < count; first += batch) {
                const long size = count - first < batch ? count - first : batch;
                slice(fixed, old.data(), scratch[t], rows, first + size * t / threads, first + size * (t + 1) / threads);
                if (threads > 1) meet.arrive_and_wait();
                if (t == 0) {
                    for (int k = 1; k < threads; k++) combine(scratch[0], scratch[k]);
                    const T* row = rows + (first + size - 1) * WIDTH;
                    finish(fixed, old.data(), scratch[0], row, next.data());
                    if (first + size == count && holds(fixed, old.data(), scratch[0], row)) over = true;
                    old.swap(next);
                }
                if (threads > 1) meet.arrive_and_wait();
            }
            if (t == 0) done++;
        }
    };
    std::vector<std::thread> others;
    for (int t = 1; t < threads; t++) others.emplace_back(work, t);
    work(0);
    for (std::thread& each : others) each.join();
    std::memcpy(models, old.data(), MODELS * sizeof(T));
    for (T* each : scratch) std::free(each);
    *converged = over;
    return done;
}
