// A chip of SDR SDRAM on a simulated board's pins: models/memory/sdram.py (`Sdram`), which is the reference, in C++. What was never
// written reads 0xDEAD and takes no memory.

#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <unordered_map>

namespace sdram {

// In the order of `Board` in sim/board.py: cycles of the chip's rules, then bits of its addresses.
struct Rules { int64_t rcd, rp, ras, rc, rfc, wr, mrd, interval, power_up, latency, column_bits, bank_bits, width; };

enum Command : unsigned { MODE, REFRESH, PRECHARGE, ACTIVATE, WRITE, READ, STOP, NOP };

class Chip {
    static constexpr uint32_t EMPTY = 0xDEAD;
    static constexpr int64_t NEVER = INT64_MIN / 4;
    static constexpr unsigned PAGE_BITS = 11;    // words of a piece of memory
    struct Bank { int64_t row = -1, activated = NEVER, precharged = NEVER, written = NEVER; };

    const Rules rules_;
    std::unordered_map<uint32_t, std::unique_ptr<uint32_t[]>> pages_;
    std::array<Bank, 8> banks_;
    std::array<int64_t, 16> coming_;             // by cycle: what is driven, -1 nothing
    int64_t cycle_ = 0, busy_until_ = 0, refreshed_ = NEVER, refreshes_ = 0;
    bool mode_ = false, driven_ = false;

    unsigned banks() const { return 1u << rules_.bank_bits; }
    bool any_open() const {
        for (unsigned k = 0; k < banks(); ++k) if (banks_[k].row >= 0) return true;
        return false;
    }
    int64_t last_precharge() const {
        int64_t last = NEVER;
        for (unsigned k = 0; k < banks(); ++k) last = banks_[k].precharged > last ? banks_[k].precharged : last;
        return last;
    }
    void need(bool good, const char* what) {
        if (good || !broken.empty()) return;
        broken = "cycle " + std::to_string(cycle_) + ": " + what;
    }
    uint32_t* word(const Bank& bank, unsigned which, unsigned column, bool make) {
        const uint32_t at = ((uint32_t(bank.row) << rules_.bank_bits | which) << rules_.column_bits) | column;
        auto& page = pages_[at >> PAGE_BITS];
        if (!page) {
            if (!make) return nullptr;
            page.reset(new uint32_t[1 << PAGE_BITS]);
            for (unsigned k = 0; k < 1u << PAGE_BITS; ++k) page[k] = EMPTY;
        }
        return &page[at & ((1u << PAGE_BITS) - 1)];
    }
    void column(bool write, Bank& bank, unsigned which, unsigned address, unsigned mask, unsigned data, bool drives) {
        need(bank.row >= 0, "READ or WRITE of a closed bank");
        need(cycle_ - bank.activated >= rules_.rcd, "tRCD");
        need(!(address >> 10 & 1), "auto-precharge is not used");
        if (bank.row < 0) return;
        uint32_t* place = word(bank, which, address & ((1u << rules_.column_bits) - 1), write);
        if (!write) {
            coming_[(cycle_ + rules_.latency) & 15] = place ? *place : EMPTY;
            return;
        }
        need(drives, "WRITE without data");
        uint32_t keep = 0;
        for (unsigned k = 0; k < rules_.width / 8; ++k) if (mask >> k & 1) keep |= 0xFFu << 8 * k;
        *place = (*place & keep) | (data & ~keep);
        bank.written = cycle_;
    }

public:
    std::string broken;                          // the first rule that was broken

    explicit Chip(const Rules& rules) : rules_(rules) { coming_.fill(-1); }

    uint64_t bytes_held() const { return uint64_t(pages_.size()) << (PAGE_BITS + 2); }

    // Take a rising edge with these pins; return what the chip drives up to the next one, -1 where nothing.
    int64_t edge(Command command, unsigned which, unsigned address, unsigned mask, unsigned data, bool drives) {
        Bank& bank = banks_[which];
        need(!(drives && driven_), "both ends drive the data pins");
        need(refreshed_ == NEVER || cycle_ - refreshed_ <= rules_.interval, "no refresh in time");
        if (command != NOP && command != STOP) {
            need(cycle_ >= rules_.power_up, "a command before the power-up time is over");
            need(cycle_ >= busy_until_, "a command before the command before it is over");
        }
        if (command == ACTIVATE) {
            need(mode_ && refreshes_ >= 8, "ACTIVATE before the chip is set up");
            need(bank.row < 0, "ACTIVATE of an open bank");
            need(cycle_ - bank.precharged >= rules_.rp, "tRP");
            need(cycle_ - bank.activated >= rules_.rc, "tRC");
            bank.row = address;
            bank.activated = cycle_;
        } else if (command == PRECHARGE) {
            for (unsigned k = 0; k < banks(); ++k) {
                if (!(address >> 10 & 1) && k != which) continue;
                Bank& closing = banks_[k];
                if (closing.row >= 0) {
                    need(cycle_ - closing.activated >= rules_.ras, "tRAS");
                    need(cycle_ - closing.written >= rules_.wr, "tWR");
                    closing.row = -1;
                }
                closing.precharged = cycle_;
            }
        } else if (command == READ || command == WRITE) {
            column(command == WRITE, bank, which, address, mask, data, drives);
        } else if (command == REFRESH || command == MODE) {
            need(!any_open() && last_precharge() != NEVER, "REFRESH or MODE with an open bank");
            need(cycle_ - last_precharge() >= rules_.rp, "tRP");
            if (command == REFRESH) {
                ++refreshes_;
                refreshed_ = cycle_;
                busy_until_ = cycle_ + rules_.rfc;
            } else {
                need(!(address & 7) && (address >> 4 & 7) == unsigned(rules_.latency), "a mode that is not known");
                mode_ = true;
                busy_until_ = cycle_ + rules_.mrd;
            }
        }
        ++cycle_;
        const int64_t given = coming_[cycle_ & 15];
        coming_[cycle_ & 15] = -1;
        driven_ = given >= 0;
        return given;
    }
};

}  // namespace sdram
