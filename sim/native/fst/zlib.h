// The two functions of zlib that Verilator's writer of FST calls, so that waves need no package of the system.
// Data are stored, not compressed (RFC 1950, RFC 1951 3.2.4): the writer then keeps what it had, which FST allows. Values, the most of a file, go through LZ4.
#pragma once
#include <cstdint>
#include <cstring>

using Bytef = unsigned char;
using uLong = unsigned long;
using uLongf = unsigned long;
constexpr int Z_OK = 0, Z_BUF_ERROR = -5;

inline uLong compressBound(uLong size) { return size + 5 * (size / 0xFFFF + 1) + 6; }

inline int compress2(Bytef* target, uLongf* room, const Bytef* source, uLong size, int) {
    if (*room < compressBound(size)) return Z_BUF_ERROR;
    Bytef* out = target;
    *out++ = 0x78;
    *out++ = 0x01;
    uint32_t low = 1, high = 0;
    uLong at = 0;
    do {
        const uLong part = size - at < 0xFFFF ? size - at : 0xFFFF;
        *out++ = at + part == size;
        for (const uLong word : {part, ~part}) {
            *out++ = static_cast<Bytef>(word);
            *out++ = static_cast<Bytef>(word >> 8);
        }
        if (part) std::memcpy(out, source + at, part);
        out += part;
        for (const uLong end = at + part; at < end; ++at) {
            low = (low + source[at]) % 65521;
            high = (high + low) % 65521;
        }
    } while (at < size);
    for (const uint32_t half : {high, low}) {
        *out++ = static_cast<Bytef>(half >> 8);
        *out++ = static_cast<Bytef>(half);
    }
    *room = static_cast<uLongf>(out - target);
    return Z_OK;
}
