// The functions of dram.hpp that sim/memory/dram.py calls.

#include "dram.hpp"

#define API extern "C" __attribute__((visibility("default")))

API void* penstock_dram_open(const dram::Parameters* parameters) { return new dram::Channel(*parameters); }
API void penstock_dram_close(void* channel) { delete static_cast<dram::Channel*>(channel); }
API void penstock_dram_read(void* channel, int64_t ar, uint64_t address, uint32_t beats, uint32_t bus_bytes, int64_t* ready) {
    static_cast<dram::Channel*>(channel)->read(ar, address, beats, bus_bytes, ready);
}
API int64_t penstock_dram_write(void* channel, int64_t last, uint64_t address, uint32_t beats, uint32_t bus_bytes) {
    return static_cast<dram::Channel*>(channel)->write(last, address, beats, bus_bytes);
}
API void penstock_dram_commands(const void* channel, uint64_t* count) {
    std::copy_n(static_cast<const dram::Channel*>(channel)->count(), size_t(dram::COMMANDS), count);
}
// A fresh controller's column commands for `count` requests, all in DRAM cycles; returns the refreshes.
API uint64_t penstock_dram_serve(const dram::Parameters* parameters, uint64_t count, const uint8_t* writes, const int64_t* arrivals,
                                 const uint64_t* bursts, int64_t* cycles) {
    dram::Controller controller(*parameters);
    for (uint64_t k = 0; k < count; ++k) cycles[k] = controller.serve(writes[k], arrivals[k], bursts[k]);
    return controller.count[dram::REFAB];
}
