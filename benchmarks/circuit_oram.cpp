/* A map that hides which key is asked for, in software: a cuckoo table of two halves with buckets of four items, each half in a Circuit
   ORAM (Wang, Chan, Shi, CCS 2015) of 64-byte blocks, whose positions lie in smaller ones, 16 a block, and at last in an array that is scanned.

   No branch and no address depends on a key or a value. One thread, no encryption; an access reads a path and evicts along two. What favours
   it: leaves are drawn by xorshift, items are put there beforehand by a cuckoo walk that is not hidden, and operations are on keys that are there. */

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <sys/mman.h>
#include <vector>

using u64 = uint64_t;
using u32 = uint32_t;
typedef u64 Line __attribute__((vector_size(64)));
typedef u32 Places __attribute__((vector_size(64)));

constexpr int Z = 2, STASH = 20, DEEP = 32;
constexpr u32 SCANNED = 1 << 14;

static inline u64 all(u64 mask)  // a mask that the compiler makes no branch of
{
    asm("" : "+r"(mask));
    return mask;
}
static inline u64 when(bool is) { return all(-(u64)is); }
static inline u64 pick(u64 mask, u64 one, u64 other) { return (one & mask) | (other & ~mask); }

struct Random {
    u64 state = 88172645463325252u;
    u64 next() { return state ^= state << 13, state ^= state >> 7, state ^= state << 17; }
} draw;

using Slot = u64;  // a block's number and its leaf
constexpr Slot EMPTY = ~0ull;

static inline void put(Line &to, u64 mask, const Line &from) { to = (from & mask) | (to & ~mask); }

template <class T> using Room = std::unique_ptr<T[], decltype(&free)>;

template <class T> static Room<T> room(size_t count, T with)  // in pages of 2 MB
{
    size_t page = 1 << 21, bytes = (count * sizeof(T) + page - 1) / page * page;
    Room<T> made((T *)aligned_alloc(page, bytes), &free);
    madvise(made.get(), bytes, MADV_HUGEPAGE);
    std::fill_n(made.get(), count, with);
    return made;
}

class Oram
{
    int depth;
    Room<Slot> slots;
    Room<Line> lines;
    Slot kept[STASH];
    Line held[STASH];
    u32 turn = 0;

    long node(u32 leaf, int level) const { return Z * ((1L << level) - 1 + (leaf >> (depth - level))); }

    u32 way(u32 turn) const
    {
        u32 leaf = 0;
        for (int bit = 0; bit < depth; bit++)
            leaf |= (turn >> bit & 1) << (depth - 1 - bit);
        return leaf;
    }

    void fetch(u32 leaf) const
    {
        for (int level = 4; level <= depth; level++) {
            long at = node(leaf, level);
            __builtin_prefetch(&slots[at], 1);
            for (int k = 0; k < Z; k++)
                __builtin_prefetch(&lines[at + k], 1);
        }
    }

    /* The deepest place on a path where one of these slots may lie (0: nowhere), which slot that is, and whether one is empty. */
    void look(const Slot *some, int count, u32 leaf, int &top, int &best, u64 &room) const
    {
        top = best = 0, room = 0;
        for (int k = 0; k < count; k++) {
            u64 there = when(some[k] != EMPTY);
            u32 differs = (((u32)some[k] ^ leaf) << 1 | 1) << (31 - depth);
            int reach = (1 + __builtin_clz(differs)) & (int)there;
            u64 more = when(reach > top);
            top = pick(more, reach, top), best = pick(more, k, best), room |= ~there;
        }
    }

    void evict(u32 leaf)
    {
        int count = depth + 2, top[DEEP], best[DEEP], deepest[DEEP], target[DEEP];  // 0 is the stash, 1 the root
        u64 room[DEEP];
        look(kept, STASH, leaf, top[0], best[0], room[0]);
        for (int i = 1; i < count; i++)
            look(&slots[node(leaf, i - 1)], Z, leaf, top[i], best[i], room[i]);
        int source = -1, goal = 0;
        for (int i = 0; i < count; i++) {
            deepest[i] = pick(when(goal >= i && i > 0), source, -1);
            u64 more = when(top[i] > goal);
            goal = pick(more, top[i], goal), source = pick(more, i, source);
        }
        int from = -1, to = -1;
        for (int i = count - 1; i >= 0; i--) {
            u64 here = when(i == from);
            target[i] = pick(here, to, -1);
            to = pick(here, -1, to), from = pick(here, -1, from);
            u64 takes = ((when(to < 0) & room[i]) | when(target[i] >= 0)) & when(deepest[i] >= 0);
            from = pick(takes, deepest[i], from), to = pick(takes, i, to);
        }
        Slot moved = EMPTY, laid;
        Line data{}, lays;
        int goes = -1;
        for (int i = 0; i < count; i++) {
            Slot *some = i ? &slots[node(leaf, i - 1)] : kept;
            Line *texts = i ? &lines[node(leaf, i - 1)] : held;
            u64 lands = when(goes == i), leaves = when(target[i] >= 0);
            laid = moved, lays = data;
            for (int k = 0; k < (i ? Z : STASH); k++) {
                u64 this_one = leaves & when(k == best[i]);
                moved = pick(this_one, some[k], moved), put(data, this_one, texts[k]);
                some[k] |= this_one;
            }
            goes = pick(leaves, target[i], goes);
            for (int k = 0; k < (i ? Z : 0); k++) {
                u64 this_one = lands & when(some[k] == EMPTY);
                some[k] = pick(this_one, laid, some[k]), put(texts[k], this_one, lays);
                lands &= ~this_one;
            }
        }
    }

public:
    u64 lost = 0;

    explicit Oram(u32 blocks)
        : depth(31 - __builtin_clz(blocks | 2)), slots(room(Z * (2L << depth), EMPTY)), lines(room(Z * (2L << depth), Line{}))
    {
        for (auto &slot : kept)
            slot = EMPTY;
    }

    u32 leaf() const { return draw.next() >> (64 - depth); }

    template <class Change> void access(u32 id, u32 leaf, u32 next, Change change)
    {
        fetch(leaf);
        Line found{};
        auto take = [&](Slot &slot, Line &line) {
            u64 hit = when(slot >> 32 == id);
            found |= line & hit;
            slot |= hit;
        };
        for (int k = 0; k < STASH; k++)
            take(kept[k], held[k]);
        for (int level = 0; level <= depth; level++)
            for (long at = node(leaf, level), k = 0; k < Z; k++)
                take(slots[at + k], lines[at + k]);
        change(found);
        u64 left = ~0ull;
        for (int k = 0; k < STASH; k++) {
            u64 here = left & when(kept[k] == EMPTY);
            kept[k] = pick(here, (u64)id << 32 | next, kept[k]), put(held[k], here, found);
            left &= ~here;
        }
        lost |= left;
        evict(way(turn)), evict(way(turn + 1));
        turn += 2;
        fetch(way(turn)), fetch(way(turn + 1));  // of the next access
    }
};

/* An array of lines. */
class Array
{
    std::vector<Oram> levels;
    std::vector<u32> last;

public:
    explicit Array(u32 count)
    {
        u32 size = count;
        for (levels.emplace_back(size); size > SCANNED; levels.emplace_back(size))
            size = (size + 15) / 16;
        last.assign((size + 15) / 16 * 16, 0);
        for (u32 id = 0; id < count; id++)  // all blocks are there
            access(id, [](Line &) {});
    }

    u64 lost() const
    {
        u64 any = 0;
        for (auto &level : levels)
            any |= level.lost;
        return any;
    }

    template <class Change> void access(u32 id, Change change)
    {
        int top = levels.size() - 1;
        u32 next = levels[top].leaf(), leaf = 0, asked = id >> 4 * top;
        u32 *places = last.data();
        for (u32 k = 0, count = last.size(); k < count; k++) {
            u32 here = -(u32)(k == asked), old = places[k];
            leaf |= old & here, places[k] = (next & here) | (old & ~here);
        }
        const Places number = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
        for (int level = top; level > 0; level--) {
            u32 under = levels[level - 1].leaf(), place = (id >> 4 * (level - 1)) & 15, old = 0;
            levels[level].access(id >> 4 * level, leaf, next, [&](Line &line) {
                Places here = (Places)(number == place), places = (Places)line, given = places & here;
                for (int k = 0; k < 16; k++)
                    old |= given[k];
                line = (Line)((places & ~here) | (here & under));
            });
            leaf = old, next = under;
        }
        levels[0].access(id, leaf, next, change);
    }
};

class Map
{
    Array halves[2];
    u32 buckets;

    u32 bucket(u64 key, int half) const
    {
        u64 mixed = (key ^ (half ? 0x9E3779B97F4A7C15u : 0)) * 0xBF58476D1CE4E5B9u;
        mixed = (mixed ^ mixed >> 31) * 0x94D049BB133111EBu;
        return ((mixed >> 32) * buckets) >> 32;
    }

public:
    explicit Map(u32 buckets) : halves{Array(buckets), Array(buckets)}, buckets(buckets) {}

    u64 lost() const { return halves[0].lost() | halves[1].lost(); }

    u64 operate(u64 key, u64 value, u64 writes, u64 &old)
    {
        u64 seen = 0, found = 0;
        for (int half = 0; half < 2; half++)
            halves[half].access(bucket(key, half), [&](Line &line) {
                for (int k = 0; k < 8; k += 2) {
                    u64 hit = when(line[k] == key), here = line[k + 1];
                    seen |= here & hit, found |= hit;
                    line[k + 1] = pick(hit & writes, value, here);
                }
            });
        old = seen;
        return found;
    }

    bool fill(u64 key, u64 value)
    {
        for (int walk = 0; walk < 500 && key; walk++)
            halves[walk & 1].access(bucket(key, walk & 1), [&](Line &line) {
                int at = -1;
                for (int k = 0; k < 8; k += 2)
                    at = line[k] ? at : k;
                at = at < 0 ? 2 * (draw.next() >> 62) : at;
                u64 other = line[at], its = line[at + 1];
                line[at] = key, line[at + 1] = value, key = other, value = its;
            });
        return !key;
    }
};

static double now()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* As scan_seconds of the engine's scan.c: seconds an operation on a map of n items, the least of `batches` batches of `count`, half of them
   gets and half puts; negative where an answer is wrong, an item found no place, or a stash was full. */
extern "C" double peer_seconds(long n, long count, long batches)
{
    Map map(n / 8 + n / 50 + 4);
    std::vector<u64> last(n);
    auto key = [](u64 i) { return (i + 1) * 0x9E3779B97F4A7C15u; };
    for (long i = 0; i < n; i++)
        if (!map.fill(key(i), 0))
            return -2;
    double best = 1e9;
    for (long b = 0; b < batches; b++) {
        double begin = now();
        for (long k = 0; k < count; k++) {
            u64 value = draw.next(), i = value % n, writes = -(value >> 63), old;
            if (!map.operate(key(i), value, writes, old) || old != last[i])
                return -1;
            last[i] = writes ? value : last[i];
        }
        double each = (now() - begin) / count;
        best = each < best ? each : best;
    }
    return map.lost() ? -3 : best;
}
