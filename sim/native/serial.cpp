// A Verilated design whose outside is a serial port: pins clk, rst, rx, tx and busy.
//
// Bytes go in and out through the pins, ten bits each (start, eight, stop) of `divisor` cycles. Python (sim/board.py) calls the C functions at the end.

#include <cstdint>
#include <deque>
#include <memory>

#include "verilated.h"

namespace {

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

    explicit Board(uint32_t divisor) : divisor(divisor) {
        top->clk = 0;
        top->rx = 1;
        top->rst = 1;
        clock();
        clock();
        top->rst = 0;
    }
    ~Board() { top->final(); }

    void clock() {
        top->eval();
        top->clk = 1;
        top->eval();
        ++cycle;
        top->clk = 0;
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
API void penstock_board_close(void* b) { delete &self(b); }
API void penstock_board_send(void* b, const uint8_t* bytes, uint32_t count) { self(b).to_send.insert(self(b).to_send.end(), bytes, bytes + count); }
API uint32_t penstock_board_run(void* b, uint64_t cycles, uint8_t* out, uint32_t room) { return self(b).run(cycles, out, room); }
API uint64_t penstock_board_cycle(void* b) { return self(b).cycle; }
API int penstock_board_busy(void* b) { return self(b).top->busy; }
API uint32_t penstock_board_waiting(void* b) { return uint32_t(self(b).to_send.size()); }
