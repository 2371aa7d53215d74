// The two functions of LZ4 that Verilator's writer of FST calls, so that waves need no package of the system.
// Blocks as https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md has them: a token (counts of literals and of matched bytes, less 4), literals, the
// match's distance in two bytes. The last five bytes are literals, and no match begins within the last twelve.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

inline int LZ4_compress_default(const char* source, char* target, int size, int room) {
    if (room < LZ4_compressBound(size)) return 0;
    const auto* in = reinterpret_cast<const uint8_t*>(source);
    auto* out = reinterpret_cast<uint8_t*>(target);
    std::vector<int32_t> latest(1 << 14, -1);  // where four bytes with this hash were met last
    const auto four = [&](int at) { uint32_t word; std::memcpy(&word, in + at, 4); return word; };
    const auto more = [&](int count) {
        for (; count >= 255; count -= 255) *out++ = 255;
        *out++ = static_cast<uint8_t>(count);
    };
    int literals = 0;
    for (int at = 0; at + 12 < size;) {
        const uint32_t word = four(at);
        int32_t& seen = latest[(word * 2654435761u) >> 18];
        const int from = seen;
        seen = at;
        if (from < 0 || at - from > 0xFFFF || four(from) != word) { ++at; continue; }
        int end = at + 4;
        while (end < size - 5 && in[end] == in[end - at + from]) ++end;
        const int count = at - literals, matched = end - at - 4;
        *out++ = static_cast<uint8_t>((count < 15 ? count : 15) << 4 | (matched < 15 ? matched : 15));
        if (count >= 15) more(count - 15);
        std::memcpy(out, in + literals, count);
        out += count;
        *out++ = static_cast<uint8_t>(at - from);
        *out++ = static_cast<uint8_t>((at - from) >> 8);
        if (matched >= 15) more(matched - 15);
        literals = at = end;
    }
    const int count = size - literals;
    *out++ = static_cast<uint8_t>((count < 15 ? count : 15) << 4);
    if (count >= 15) more(count - 15);
    if (count) std::memcpy(out, in + literals, count);
    return static_cast<int>(out + count - reinterpret_cast<uint8_t*>(target));
}
