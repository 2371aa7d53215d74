// The closed form of models.pim.rounds for many rounds, each computed from its own numbers.
#pragma GCC optimize("O3")
#include <algorithm>
#include <cstdint>

namespace {

struct Terms {  // models.pim.rounds.Terms, then the COMPs of a round of each mode
  int32_t results, tRP, late, written, activated, further, single, tRCD, apart, closed, tRAS;
  int32_t slots[3];
};

}  // namespace

// Where a number is outside [0, most), or a mode is none, what comes out means nothing: returns 1.
extern "C" __attribute__((visibility("default")))
#if defined(__x86_64__) && defined(__linux__)
__attribute__((target_clones("avx2", "default")))
#endif
int32_t
penstock_pim_rounds(const Terms* given, int64_t most, int64_t count, const int64_t* modes,
                    const int64_t* registers, const int64_t* reads, int64_t* cycles) {
  const Terms t = *given;
  uint64_t seen = 0;
  for (int64_t i = 0; i < count; i++) {
    seen |= uint64_t(registers[i]) | uint64_t(reads[i]) | (uint64_t(modes[i]) > 2 ? uint64_t(most) : 0);
    const int32_t mode = int32_t(modes[i]), writes = int32_t(registers[i]);
    const int32_t results = int32_t(reads[i]) * t.results;
    const int32_t closing = std::max(results + 1, t.tRP);
    const int32_t wait = std::max(results - closing + t.late, 0);
    const int32_t written = writes ? writes * t.written + 2 : 0;
    const int32_t first = writes ? written + wait : 0;
    const int32_t opened =
        t.single ? 0 : std::max(first, t.activated) + t.further * std::max(written, t.activated);
    const int32_t slots = mode == 0 ? t.slots[0] : mode == 1 ? t.slots[1] : t.slots[2];
    const int32_t ready = std::max(t.single ? first : written, t.tRCD);
    cycles[i] = opened + std::max(ready + t.apart * slots + t.closed, t.tRAS) + closing + 1;
  }
  return seen >= uint64_t(most);
}
