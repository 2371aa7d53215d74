// DRAM and its controller as AXI ports see them, to the letter of models/memory/dram (`Controller`, `PlainChannel`), whose docstrings
// are the reference. Included by the native harness and by dram.cpp.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace dram {

// In the order of `parameters` in sim/memory/dram.py.
struct Parameters {
    int64_t BL, CL, CWL, tRCDRD, tRCDWR, tRP, tRAS, tRC, tCCD_S, tCCD_L, tRRD_S, tRRD_L, tFAW, tWTR_S, tWTR_L, tRTW, tWR, tRTP, tRFCab,
        tREFI, tPPD, act_cycles, row_bus, groups, banks, row_bursts, rows, burst_bytes, depth, p, q, transit;
};

constexpr int64_t NEVER = INT64_MIN / 4;

// In the order of `_COMMANDS` in sim/memory/dram.py.
enum Command : unsigned { ACT, PRE, PREA, RD, WR, REFAB, COMMANDS };

inline void late(int64_t& at, int64_t cycle) { if (cycle > at) at = cycle; }

// The cycles in which a command bus is taken. A command looks back over fewer cycles than there are places: over the requests that the
// controller sees at once, each of which takes tRC and a few more at most, and a refresh.
class Bus {
    static constexpr unsigned PLACES = 1 << 14;
    std::vector<int64_t> at_ = std::vector<int64_t>(PLACES, NEVER);
public:
    bool taken(int64_t cycle) const { return at_[cycle & (PLACES - 1)] == cycle; }
    void take(int64_t cycle) { at_[cycle & (PLACES - 1)] = cycle; }
};

struct Bank { int64_t row = -1, act = NEVER, pre = NEVER, rd = NEVER, wr = NEVER, ref = NEVER; };
struct Group { int64_t act = NEVER, rd = NEVER, wr = NEVER; };

class Controller {
    const Parameters t_;
    const int64_t ccd_s_, ccd_l_;
    const unsigned group_bits_, row_burst_bits_, bank_bits_;
    std::vector<Bank> banks_;                    // by group, then bank
    std::vector<Group> groups_;
    Bus bus_;                                    // of rows, or the only one
    int64_t act_ = NEVER, pre_ = NEVER, rd_ = NEVER, wr_ = NEVER, ref_ = NEVER;      // of the rank
    int64_t acts_[4] = {NEVER, NEVER, NEVER, NEVER};
    unsigned oldest_act_ = 0;
    int64_t latest_pre_ = -1, latest_act_ = -1, latest_column_ = -1;
    std::vector<int64_t> columns_;               // cycles of the latest column commands, a ring
    uint64_t served_ = 0;
    int64_t refresh_;
    unsigned open_ = 0;

    static unsigned bits(int64_t count) { return __builtin_ctzll(uint64_t(count)); }

    int64_t place(int64_t cycle, int64_t cycles) {
        for (bool free = false; !free;) {
            free = true;
            for (int64_t k = 0; k < cycles; ++k) free = free && !bus_.taken(cycle - k);
            cycle += !free;
        }
        for (int64_t k = 0; k < cycles; ++k) bus_.take(cycle - k);
        return cycle;
    }
    void precharge(Bank& bank, int64_t begin) {
        const int64_t now = latest_pre_ = place(std::max({begin, latest_pre_ + 1, bank.pre, pre_}), 1);
        ++count[PRE];
        late(bank.act, now + t_.tRP);
        late(bank.ref, now + t_.tRP);
        late(pre_, now + t_.tPPD);
        bank.row = -1;
        --open_;
    }
    void activate(Bank& bank, Group& group, int64_t row, int64_t begin) {
        const int64_t now = latest_act_ = place(
            std::max({begin, latest_act_ + 1, bank.act, group.act, act_, acts_[oldest_act_] + t_.tFAW}), t_.act_cycles);
        ++count[ACT];
        acts_[oldest_act_] = now;
        oldest_act_ = (oldest_act_ + 1) & 3;
        late(bank.act, now + t_.tRC);
        late(bank.ref, now + t_.tRC);
        late(bank.rd, now + t_.tRCDRD);
        late(bank.wr, now + t_.tRCDWR);
        late(bank.pre, now + t_.tRAS);
        late(group.act, now + t_.tRRD_L);
        late(act_, now + t_.tRRD_S);
        bank.row = row;
        ++open_;
    }
    void refresh() {
        if (open_) {
            int64_t begin = std::max({refresh_, latest_pre_ + 1, pre_});
            for (const Bank& bank : banks_) late(begin, bank.pre);
            const int64_t now = latest_pre_ = place(begin, 1);
            ++count[PREA];
            for (Bank& bank : banks_) {
                late(bank.act, now + t_.tRP);
                late(bank.ref, now + t_.tRP);
                bank.row = -1;
            }
            late(pre_, now + t_.tPPD);
            open_ = 0;
        }
        int64_t begin = std::max({refresh_, latest_pre_ + 1, ref_});
        for (const Bank& bank : banks_) late(begin, bank.ref);
        const int64_t now = latest_pre_ = place(begin, 1);
        late(act_, now + t_.tRFCab);
        late(pre_, now + t_.tRFCab);
        late(ref_, now + t_.tRFCab);
        refresh_ += t_.tREFI;
        ++count[REFAB];
    }

public:
    uint64_t count[COMMANDS] = {};               // of commands so far

    explicit Controller(const Parameters& t)
        : t_(t), ccd_s_(std::max(t.tCCD_S, t.BL)), ccd_l_(std::max(t.tCCD_L, t.BL)), group_bits_(bits(t.groups)),
          row_burst_bits_(bits(t.row_bursts)), bank_bits_(bits(t.banks)), banks_(t.groups * t.banks), groups_(t.groups),
          columns_(t.depth, NEVER), refresh_(t.tREFI) {}

    // The cycle of the column command of a request for a burst, there from `arrival` on.
    int64_t serve(bool write, int64_t arrival, uint64_t burst) {
        const unsigned in_group = burst & (t_.groups - 1);
        burst >>= group_bits_ + row_burst_bits_;
        const unsigned in_bank = burst & (t_.banks - 1);
        const int64_t row = (burst >> bank_bits_) & (t_.rows - 1);
        Group& group = groups_[in_group];
        Bank& bank = banks_[in_group << bank_bits_ | in_bank];
        int64_t& column = columns_[served_ & (t_.depth - 1)];
        ++served_;
        const int64_t begin = std::max(arrival, column + 1);
        while (__builtin_expect(std::max(begin, latest_column_) >= refresh_, 0)) refresh();
        if (bank.row != row) {
            if (bank.row >= 0) precharge(bank, begin);
            activate(bank, group, row, begin);
        }
        int64_t now = std::max(begin, latest_column_ + 1);
        now = write ? std::max({now, bank.wr, group.wr, wr_}) : std::max({now, bank.rd, group.rd, rd_});
        if (!t_.row_bus) now = place(now, 1);
        ++count[write ? WR : RD];
        if (write) {
            late(bank.pre, now + t_.CWL + t_.BL + t_.tWR);
            late(group.wr, now + ccd_l_);
            late(wr_, now + ccd_s_);
            late(group.rd, now + t_.CWL + t_.BL + t_.tWTR_L);
            late(rd_, now + t_.CWL + t_.BL + t_.tWTR_S);
        } else {
            late(bank.pre, now + t_.tRTP);
            late(group.rd, now + ccd_l_);
            late(rd_, now + ccd_s_);
            late(wr_, now + t_.tRTW);
        }
        return column = latest_column_ = now;
    }
};

// A controller as bursts see it, in engine cycles. They are given in the order in which they come to it.
class Channel {
    const Parameters t_;
    Controller controller_;
    const unsigned size_bits_;

    int64_t arrival(int64_t cycle) const { return cycle * t_.q / t_.p + 1; }
    int64_t engine(int64_t cycle) const { return (cycle * t_.p + t_.q - 1) / t_.q + t_.transit; }

public:
    explicit Channel(const Parameters& t) : t_(t), controller_(t), size_bits_(__builtin_ctzll(uint64_t(t.burst_bytes))) {}

    const uint64_t* count() const { return controller_.count; }

    // From which cycle on each beat is there whose AR was in cycle `ar`: into `ready`.
    void read(int64_t ar, uint64_t address, unsigned beats, unsigned bus_bytes, int64_t* ready) {
        const int64_t from = arrival(ar);
        uint64_t next = address >> size_bits_;
        int64_t cycle = 0;
        for (unsigned k = 0; k < beats; ++k, address += bus_bytes) {
            const uint64_t last = (address + bus_bytes - 1) >> size_bits_;
            for (; next <= last; ++next) cycle = engine(controller_.serve(false, from, next) + t_.CL + t_.BL);
            ready[k] = cycle;
        }
    }
    // The cycle of the answer to a burst whose last word was taken in cycle `last`.
    int64_t write(int64_t last, uint64_t address, unsigned beats, unsigned bus_bytes) {
        const int64_t from = arrival(last);
        const uint64_t end = (address + uint64_t(beats) * bus_bytes - 1) >> size_bits_;
        int64_t done = 0;
        for (uint64_t next = address >> size_bits_; next <= end; ++next) done = controller_.serve(true, from, next) + t_.CWL + t_.BL;
        return engine(done);
    }
};

}  // namespace dram
