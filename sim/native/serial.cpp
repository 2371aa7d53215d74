// A Verilated design whose outside is a serial port: pins clk, rst, rx, tx and busy, and those of an SDRAM where it has one (`sd_…`).
//
// Bytes go in and out through the pins, ten bits each (start, eight, stop) of `divisor` cycles. Python (sim/board.py) calls the C functions at the end.

#include <cstdint>
#include <deque>
#include <memory>
#include <type_traits>

#include "sdram.hpp"
#include "verilated.h"

namespace {

// Whether the design has the pins of an SDRAM.
template <class T, class = void> struct HasSdram : std::false_type {};
template <class T> struct HasSdram<T, std::void_t<decltype(std::declval<T&>().sd_we_n)>> : std::true_type {};

struct Board {
    std::unique_ptr<VerilatedContext> context{new VerilatedContext};
    std::unique_ptr<Top> top{new Top(context.get())};
    const uint32_t divisor;
    uint64_t cycle = 0;
    std::deque<uint8_t> to_send;
    uint32_t frame = 1;                          // bits still to be put on rx, a one above them; 1: at rest
    uint32_t send_timer = 0;
    uint32_t receive_timer = 0;                  // cycles to the next sample, 0: at rest
    int receive_bit = 0;
    uint32_t received = 0;
    std::unique_ptr<sdram::Chip> chip;

    explicit Board(uint32_t divisor) : divisor(divisor) {
        top->clk = 0;
        top->rx = 1;
        top->rst = 1;
        clock();
        clock();
        top->rst = 0;
    }
    ~Board() { top->final(); }

    void clock() { clock(*top); }

    template <class T> void clock(T& pins) {
        pins.eval();
        int64_t given = -1;
        if constexpr (HasSdram<T>::value) {
            if (chip) {
                const auto command = pins.sd_cs_n ? sdram::NOP : sdram::Command(pins.sd_ras_n << 2 | pins.sd_cas_n << 1 | pins.sd_we_n);
                given = chip->edge(command, pins.sd_ba, pins.sd_a, pins.sd_dqm, pins.sd_dq_o, pins.sd_dq_oe);
            }
        }
        pins.clk = 1;
        pins.eval();
        if constexpr (HasSdram<T>::value) pins.sd_dq_i = given < 0 ? 0x5555 : given;
        ++cycle;
        pins.clk = 0;
    }

    void send() {
        if (send_timer) { --send_timer; return; }
        if (frame == 1) {
            if (to_send.empty()) return;
            frame = 0x600u | uint32_t(to_send.front()) << 1;     // end, stop, data, start
            to_send.pop_front();
        }
        top->rx = frame & 1;
        frame >>= 1;
        send_timer = divisor - 1;
    }

    // Returns whether a byte was completed, in `received`.
    bool receive() {
        if (!receive_timer) {
            if (!top->tx) { receive_timer = divisor + divisor / 2; receive_bit = 0; received = 0; }
            return false;
        }
        if (--receive_timer) return false;
        if (receive_bit == 8) return top->tx;                   // the stop bit; a byte without one is no byte
        received |= uint32_t(top->tx) << receive_bit++;
        receive_timer = divisor;
        return false;
    }

    uint32_t run(uint64_t cycles, uint8_t* out, uint32_t room) {
        uint32_t count = 0;
        for (uint64_t k = 0; k < cycles && count < room; ++k) {
            send();
            clock();
            if (receive()) out[count++] = uint8_t(received);
        }
        return count;
    }
};

Board& self(void* board) { return *static_cast<Board*>(board); }

}  // namespace

#define API extern "C" __attribute__((visibility("default")))

API void* penstock_board_open(uint32_t divisor) { return new Board(divisor); }
API void penstock_board_chip(void* b, const sdram::Rules* rules) { self(b).chip.reset(new sdram::Chip(*rules)); }
API const char* penstock_board_broken(void* b) { return self(b).chip ? self(b).chip->broken.c_str() : ""; }
API uint64_t penstock_board_held(void* b) { return self(b).chip ? self(b).chip->bytes_held() : 0; }
API void penstock_board_close(void* b) { delete &self(b); }
API void penstock_board_send(void* b, const uint8_t* bytes, uint32_t count) { self(b).to_send.insert(self(b).to_send.end(), bytes, bytes + count); }
API uint32_t penstock_board_run(void* b, uint64_t cycles, uint8_t* out, uint32_t room) { return self(b).run(cycles, out, room); }
API uint64_t penstock_board_cycle(void* b) { return self(b).cycle; }
API int penstock_board_busy(void* b) { return self(b).top->busy; }
API uint32_t penstock_board_waiting(void* b) { return uint32_t(self(b).to_send.size()); }
