// Rounds of a device's banks and units, bit for bit as models.pim.device and models.pim.unit specify them.
#include "golden_float16.hpp"
#include "golden_mx8.hpp"

namespace {

enum Mode { UPDATE, SCORE, ATTEND };

struct Step {  // a round: `first`: operands that chunks share come with it; `rates`: registers of them; `seeded`: as are seeds; `reads`: whether results are read
  int64_t mode, row, first, rates, seeded, reads;
};

// Registers of a set's banks: as many bytes as `all` banks have, one after another.
struct Held {
  uint8_t* data;
  int64_t all, count;

  uint8_t* of(int name) const { return data + name * all; }
  void clear(int name) const { std::memset(of(name), 0, 32 * count); }
  // Takes a register of each bank from operands of `names` registers a bank.
  void take(int name, const uint8_t* operands, int64_t number, int64_t names) const {
    for (int64_t bank = 0; bank < count; bank++) std::memcpy(of(name) + 32 * bank, operands + 32 * (bank * names + number), 32);
  }
};

enum Name { C0, C1, K, Q_, V0, V1 };

// Writes what a round's operands hold (models.pim.device.registers_of); returns what follows them.
const uint8_t* written(const Step& step, const Held& held, bool wide, const uint8_t* operands) {
  Name names[6];
  int64_t count = 0, number = 0;
  if (step.mode == UPDATE && step.first) {
    names[count++] = C0;
    if (step.rates > 1) names[count++] = C1;
    names[count++] = K;
  }
  if (step.mode == SCORE) {
    for (Name name : {C0, C1, K, V0, V1}) held.clear(name);
  }
  if (step.mode == SCORE || (step.mode == UPDATE && step.first)) names[count++] = Q_;
  if (step.mode != SCORE) {
    names[count++] = V0;
    if (wide) names[count++] = V1;
  }
  for (; number < count; number++) {
    held.take(names[number], operands, number, count);
    if (names[number] == C0) held.take(C1, operands, number, count);
  }
  return operands + 32 * held.count * count;
}

int64_t played(const Step& step, bool wide, bool stochastic, int64_t served, uint8_t* rows, int64_t stride, const Held& held,
               uint64_t* words, uint8_t*& out) {
  const Registers r = {held.of(C0), held.of(C1), held.of(K), held.of(Q_), held.of(V0), held.of(V1), step.reads != 0};
  int64_t saturated = 0;
  for (int64_t bank = 0; bank < held.count; bank += 2) {
    uint8_t* const both[2] = {rows + bank * stride, rows + (bank + 1) * stride};
    if (wide) {
      saturated += step.mode == UPDATE  ? wide_pair<true>(both, bank, r, out)
                   : step.mode == SCORE ? wide_pair<false>(both, bank, r, out)
                                        : wide_attend(both, bank, r, out);
      out += step.mode == ATTEND ? 32 : step.reads ? 64 : 0;
    } else {
      saturated += step.mode == ATTEND  ? mx_attend(both, bank, r, out)
                   : step.mode == SCORE ? mx_pair<false, false>(both, bank, r, served, words, out)
                   : stochastic         ? mx_pair<true, true>(both, bank, r, served, words, out)
                                        : mx_pair<true, false>(both, bank, r, served, words, out);
      out += step.mode == ATTEND || step.reads ? 32 : 0;
    }
  }
  return saturated;
}

}  // namespace

// Plays `steps` rounds of a set of `count` banks one after another; returns what saturates.
// `given`, `seeds`: operands and seeds of the rounds that have them, as models.pim.device.Step; `served`: banks of a stream;
// `rows`: the set's first bank, of `bank` bytes and rows of `row` bytes; `registers`: of the set, `all` bytes from one to the
// next; `words`: two a stream; `out`: 32 bytes for each transfer, and 64 behind them.
extern "C" __attribute__((visibility("default"))) int64_t
penstock_pim_golden(int64_t steps, const Step* step, const uint8_t* given, const uint8_t* seeds, int64_t wide, int64_t stochastic,
                    int64_t served, int64_t count, uint8_t* rows, int64_t bank, int64_t row, uint8_t* registers, int64_t all,
                    uint64_t* words, uint8_t* out) {
  const Held held = {registers, all, count};
  const int64_t units = 2 / served;
  int64_t saturated = 0;
  for (; steps--; step++) {
    given = written(*step, held, wide, given);
    if (step->seeded) {
      for (int64_t pair = 0; pair < count / 2; pair++) std::memcpy(words + 2 * units * pair, seeds + 32 * pair, 16 * units);
      seeds += 16 * count;
    }
    saturated += played(*step, wide, stochastic, served, rows + step->row * row, bank, held, words, out);
  }
  return saturated;
}
