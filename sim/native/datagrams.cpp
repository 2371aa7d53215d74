// A Verilated design whose outside is datagrams: pins clk, rst, tick, busy, and streams of bytes rx_… and tx_… whose bit 8 says that one is the last.
// Where rx_data has more bits than 16, it has four bytes, above them how many of these count beside the first (2 bits), and whether they are the last.
//
// Python (sim/board.py) calls the C functions at the end.

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "verilated.h"

namespace {

// Pages that are ready, where the design has pins that tell (start, ready): the cycles of the run in which they became so.
struct Ready {
    uint64_t began = 0;
    std::vector<uint64_t> times;

    template <class T> auto see(T& top, uint64_t cycle, int) -> decltype(top.start, void()) {
        if (top.start) { began = cycle; times.clear(); }
        while (times.size() < top.ready) times.push_back(cycle - began);
    }
    template <class T> void see(T&, uint64_t, long) {}
};

struct Board {
    Ready ready;
    std::unique_ptr<VerilatedContext> context{new VerilatedContext};
    std::unique_ptr<Top> top{new Top(context.get())};
    uint64_t cycle = 0;
    std::deque<uint64_t> to_send;

    Board() {
        top->clk = 0;
        top->rx_valid = top->tick = 0;
        top->tx_ready = 1;
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

    // Returns the bytes of the first datagram that came whole within so many cycles, else 0; what came of one is kept in `out`, `count` bytes.
    uint32_t run(uint64_t cycles, uint8_t* out, uint32_t room, uint32_t* count) {
        for (uint64_t k = 0; k < cycles; ++k) {
            top->rx_valid = !to_send.empty();
            if (top->rx_valid) top->rx_data = to_send.front();
            top->eval();
            ready.see(*top, cycle, 0);
            const bool taken = top->rx_valid && top->rx_ready, came = top->tx_valid;
            const uint32_t byte = top->tx_data;
            clock();
            top->tick = 0;
            if (taken) to_send.pop_front();
            if (came && *count < room) out[(*count)++] = uint8_t(byte);
            if (came && byte >> 8) { const uint32_t size = *count; *count = 0; return size; }
        }
        return 0;
    }
};

Board& self(void* board) { return *static_cast<Board*>(board); }

}  // namespace

#define API extern "C" __attribute__((visibility("default")))

API void* penstock_board_open() { return new Board; }
API void penstock_board_close(void* b) { delete &self(b); }
API void penstock_board_send(void* b, const uint8_t* bytes, uint32_t count) {
    constexpr uint32_t width = sizeof(std::declval<Top&>().rx_data) > 2 ? 4 : 1;
    for (uint32_t k = 0; k < count; k += width) {
        uint64_t word = 0;
        const uint32_t left = count - k, size = left < width ? left : width;
        for (uint32_t lane = 0; lane < size; ++lane) word |= uint64_t(bytes[k + lane]) << 8 * lane;
        if (width > 1) word |= uint64_t(size - 1) << 32;
        self(b).to_send.push_back(word | uint64_t(left <= width) << (width > 1 ? 34 : 8));
    }
}
API uint32_t penstock_board_run(void* b, uint64_t cycles, uint8_t* out, uint32_t room, uint32_t* count) { return self(b).run(cycles, out, room, count); }
API void penstock_board_tick(void* b) { self(b).top->tick = 1; }
API uint64_t penstock_board_cycle(void* b) { return self(b).cycle; }
API int penstock_board_busy(void* b) { return self(b).top->busy; }
API uint32_t penstock_board_waiting(void* b) { return uint32_t(self(b).to_send.size()); }
API uint64_t penstock_board_ready(void* b, uint64_t* out, uint64_t room) {
    const auto& times = self(b).ready.times;
    for (uint64_t k = 0; k < room && k < times.size(); ++k) out[k] = times[k];
    return times.size() < room ? times.size() : room;
}
