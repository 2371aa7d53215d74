// A map's device in software: what models.omap.kept_device does between handshakes, bit for bit.
// Its golden is Python: places, pages and nonces are those of models.omap.{golden,traffic,sessions,state}.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

using u8 = std::uint8_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using u128 = unsigned __int128;

constexpr u64 BLOCK = 16;
enum Error : u64 { NONE = 0, PAGE_TAG = 200, PAGE_FULL = 202, BUCKET_FULL = 203, FRAMES = 204, STOPPED = 206 };
enum Operation : u8 { GET = 1, PUT = 2, DELETE = 3, RECEIPT = 4 };
enum Status : u8 { FOUND, MISSING, FULL, UNKNOWN, REFUSED };
enum Denied : u8 { SESSION = 18, TAG = 19, NUMBER = 20, NOT_ALLOWED = 21 };
enum What : u8 { NOTHING = 0, HELD = 2, GONE = 3 };
constexpr u64 KEEPER = 2;

u64 word(const u8* at) {
    u64 value;
    std::memcpy(&value, at, 8);
    return value;
}

void put(u8* at, u64 value) { std::memcpy(at, &value, 8); }

// Ascon-AEAD128 (models.crypto.ascon)

struct Key128 {
    u64 low, high;
    bool operator==(const Key128&) const = default;
};

u64 turned(u64 x, int by) { return x >> by | x << (64 - by); }

void permute(u64* s, int rounds) {
    u64 a = s[0], b = s[1], c = s[2], d = s[3], e = s[4];
    for (int k = 12 - rounds; k < 12; k++) {
        c ^= u64((0xF - k) << 4 | k) ^ b, a ^= e, e ^= d;
        const u64 p = a ^ (~b & c), q = b ^ (~c & d), r = c ^ (~d & e), t = d ^ (~e & a);
        e ^= ~a & b;
        a = p ^ e, b = q ^ p, c = ~r, d = t ^ r;
        a ^= turned(a, 19) ^ turned(a, 28), b ^= turned(b, 61) ^ turned(b, 39);
        c ^= turned(c, 1) ^ turned(c, 6), d ^= turned(d, 10) ^ turned(d, 17);
        e ^= turned(e, 7) ^ turned(e, 41);
    }
    s[0] = a, s[1] = b, s[2] = c, s[3] = d, s[4] = e;
}

struct Sponge {
    u64 s[5];
    Key128 key;

    Sponge(Key128 key, u64 low, u64 high) : s{0x00001000808C0001, key.low, key.high, low, high}, key(key) {
        permute(s, 12);
        s[3] ^= key.low, s[4] ^= key.high ^ u64(1) << 63;
    }
    // The tag behind whole blocks.
    void end(u8* tag) {
        s[0] ^= 1, s[2] ^= key.low, s[3] ^= key.high;
        permute(s, 12);
        put(tag, s[3] ^ key.low), put(tag + 8, s[4] ^ key.high);
    }
    void seal(u8* text, u64 blocks) {
        for (u64 k = 0; k < blocks; k++, text += BLOCK) {
            s[0] ^= word(text), s[1] ^= word(text + 8);
            put(text, s[0]), put(text + 8, s[1]);
            permute(s, 8);
        }
        end(text);
    }
    bool open(const u8* sealed, u64 blocks, u8* text) {
        for (u64 k = 0; k < blocks; k++, text += BLOCK, sealed += BLOCK) {
            const u64 low = word(sealed), high = word(sealed + 8);
            put(text, s[0] ^ low), put(text + 8, s[1] ^ high);
            s[0] = low, s[1] = high;
            permute(s, 8);
        }
        u8 tag[BLOCK];
        end(tag);
        return std::memcmp(tag, sealed, BLOCK) == 0;
    }
};

// SipHash-2-4 (models.crypto.siphash)

void sip_rounds(u64* v, int count) {
    auto left = [](u64 x, int by) { return x << by | x >> (64 - by); };
    for (int k = 0; k < count; k++) {
        v[0] += v[1], v[2] += v[3];
        v[1] = left(v[1], 13) ^ v[0], v[3] = left(v[3], 16) ^ v[2];
        v[0] = left(v[0], 32);
        v[2] += v[1], v[0] += v[3];
        v[1] = left(v[1], 17) ^ v[2], v[3] = left(v[3], 21) ^ v[0];
        v[2] = left(v[2], 32);
    }
}

u64 siphash(Key128 key, const Key128& name, u64 bytes) {
    u64 v[4] = {0x736F6D6570736575 ^ key.low, 0x646F72616E646F6D ^ key.high,
                0x6C7967656E657261 ^ key.low, 0x7465646279746573 ^ key.high};
    const u64 words[3] = {name.low, bytes == 8 ? bytes << 56 : name.high, bytes << 56};
    for (u64 k = 0; k <= bytes / 8; k++) {
        v[3] ^= words[k];
        sip_rounds(v, 2);
        v[0] ^= words[k];
    }
    v[2] ^= 0xFF;
    sip_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

// AES-256-GCM (models.crypto.gcm)

struct Tables {
    u8 box[256];
    u32 spread[4][256];
    u128 reduced[256];

    Tables() {
        u8 p = 1, q = 1;
        auto twice = [](u8 x) { return u8(x << 1 ^ (x & 0x80 ? 0x1B : 0)); };
        auto turn = [](u8 x, int by) { return u8(x << by | x >> (8 - by)); };
        do {
            p ^= twice(p);
            q ^= u8(q << 1), q ^= u8(q << 2), q ^= u8(q << 4);
            if (q & 0x80) q ^= 0x09;
            box[p] = q ^ turn(q, 1) ^ turn(q, 2) ^ turn(q, 3) ^ turn(q, 4) ^ 0x63;
        } while (p != 1);
        box[0] = 0x63;
        for (int x = 0; x < 256; x++) {
            const u8 s = box[x], d = twice(s);
            const u32 column = u32(d) << 24 | u32(s) << 16 | u32(s) << 8 | u32(d ^ s);
            for (int k = 0; k < 4; k++) spread[k][x] = k ? column >> 8 * k | column << (32 - 8 * k) : column;
            u128 value = x;
            for (int k = 0; k < 8; k++) value = value >> 1 ^ (value & 1 ? u128(0xE1) << 120 : 0);
            reduced[x] = value;
        }
    }
};

const Tables T;

u32 big(const u8* at) { return u32(at[0]) << 24 | u32(at[1]) << 16 | u32(at[2]) << 8 | at[3]; }

void put_big(u8* at, u128 value, int bytes) {
    for (int k = bytes - 1; k >= 0; k--, value >>= 8) at[k] = u8(value);
}

class Gcm {
    u32 keys_[60];
    u128 times_[256];

    void encrypt(const u8* in, u8* out) const {
        u32 s[4], t[4];
        for (int k = 0; k < 4; k++) s[k] = big(in + 4 * k) ^ keys_[k];
        for (int round = 1; round < 14; round++) {
            for (int k = 0; k < 4; k++)
                t[k] = T.spread[0][s[k] >> 24] ^ T.spread[1][s[(k + 1) % 4] >> 16 & 255] ^
                       T.spread[2][s[(k + 2) % 4] >> 8 & 255] ^ T.spread[3][s[(k + 3) % 4] & 255] ^ keys_[4 * round + k];
            std::memcpy(s, t, sizeof s);
        }
        for (int k = 0; k < 4; k++) {
            const u8 bytes[4] = {T.box[s[k] >> 24], T.box[s[(k + 1) % 4] >> 16 & 255], T.box[s[(k + 2) % 4] >> 8 & 255],
                                 T.box[s[(k + 3) % 4] & 255]};
            put_big(out + 4 * k, big(bytes) ^ keys_[56 + k], 4);
        }
    }
    u128 product(u128 x) const {
        u128 z = 0;
        for (int k = 0; k < 16; k++, x >>= 8) z = z >> 8 ^ T.reduced[u8(z)] ^ times_[u8(x)];
        return z;
    }
    void tag(const u8* nonce, const u8* text, u64 size, u8* out) const {
        u128 total = 0;
        for (u64 at = 0; at < size; at += BLOCK) {
            u128 block = 0;
            for (u64 k = 0; k < BLOCK; k++) block = block << 8 | (at + k < size ? text[at + k] : 0);
            total = product(total ^ block);
        }
        total = product(total ^ 8 * size);
        u8 mask[BLOCK];
        pad(nonce, 1, mask);
        put_big(out, total, 16);
        for (u64 k = 0; k < BLOCK; k++) out[k] ^= mask[k];
    }
    void pad(const u8* nonce, u32 number, u8* out) const {
        u8 counter[BLOCK];
        std::memcpy(counter, nonce, 12);
        put_big(counter + 12, number, 4);
        encrypt(counter, out);
    }
    void stream(const u8* nonce, const u8* in, u64 size, u8* out) const {
        u8 own[BLOCK];
        for (u64 at = 0; at < size; at++) {
            if (at % BLOCK == 0) pad(nonce, u32(at / BLOCK + 2), own);
            out[at] = in[at] ^ own[at % BLOCK];
        }
    }
    // The nonce of a session's message of this number.
    static void nonce(u64 number, u8* out) {
        std::memset(out, 0, 4);
        put_big(out + 4, number, 8);
    }

  public:
    explicit Gcm(const u8* key) {
        u8 constant = 1;
        auto changed = [](u32 w) {
            const u8 bytes[4] = {T.box[w >> 24], T.box[w >> 16 & 255], T.box[w >> 8 & 255], T.box[w & 255]};
            return big(bytes);
        };
        for (int k = 0; k < 60; k++) {
            if (k < 8) {
                keys_[k] = big(key + 4 * k);
                continue;
            }
            u32 w = keys_[k - 1];
            if (k % 8 == 0) {
                w = changed(w << 8 | w >> 24) ^ u32(constant) << 24;
                constant = u8(constant << 1 ^ (constant & 0x80 ? 0x1B : 0));
            } else if (k % 8 == 4) {
                w = changed(w);
            }
            keys_[k] = keys_[k - 8] ^ w;
        }
        u8 zero[BLOCK] = {}, hashed[BLOCK];
        encrypt(zero, hashed);
        u128 own = 0;
        for (u8 byte : hashed) own = own << 8 | byte;
        std::fill(std::begin(times_), std::end(times_), 0);
        for (int bit = 0x80; bit; bit >>= 1, own = own >> 1 ^ (own & 1 ? u128(0xE1) << 120 : 0))
            for (int x = 0; x < 256; x++)
                if (x & bit) times_[x] ^= own;
    }
    void seal(u64 number, const u8* text, u64 size, u8* out, u8* tag_at) const {
        u8 own[12];
        nonce(number, own);
        stream(own, text, size, out);
        tag(own, out, size, tag_at);
    }
    bool open(u64 number, const u8* sealed, u64 size, const u8* tag_at, u8* text) const {
        u8 own[12], meant[BLOCK];
        nonce(number, own);
        tag(own, sealed, size, meant);
        if (std::memcmp(meant, tag_at, BLOCK)) return false;
        stream(own, sealed, size, text);
        return true;
    }
};

// The map (models.omap.golden, models.omap.device)

struct Shape {
    u64 capacity, value, key, bins, hbm_bins, slots, buckets, bucket_slots, frames, chunks, chunk_blocks, slot_blocks,
        page, bin_bits, request, answer, request_blocks, answer_blocks, frame, allowed[3];
};

using Value = std::vector<u8>;

struct Place {
    std::array<u64, 2> pair;
    bool second;
    u64 bucket, slot;
};

struct Entry {
    bool there = false;
    Key128 key;
};

struct Hash {
    std::size_t operator()(const Key128& key) const { return key.low * 0x9E3779B97F4A7C15 ^ key.high; }
};

template <class T>
using Table = std::unordered_map<Key128, T, Hash>;

struct Record {
    std::unique_ptr<Gcm> key;
    u64 number = 0;
};

struct Session {
    std::unique_ptr<Gcm> receive, send;
    u64 role = 0, received = 0;
};

struct Link {
    bool there = false;
    u8 name[16];
    u64 serial;
};

class Device {
  public:
    const Shape shape;
    std::vector<Session> sessions{1024};
    Record records[2];  // of the log, of a snapshot
    bool logs = false;
    u8 current[16];
    Link links[256];
    Table<Place> places;
    std::vector<std::vector<Entry>> entries;  // by bucket, as far as slots were used

    Device(const Shape& shape, Key128 page, Key128 hash, Key128 pairs, u8* pages)
        : shape(shape), page_(page), hash_(hash), pairs_(pairs), pages_(pages), entries(shape.buckets), buckets_(shape.buckets), loads_(shape.bins),
          waiting_(shape.bins), counters_(shape.bins - shape.hbm_bins), written_(shape.bins - shape.hbm_bins) {}

    Key128 key_at(const u8* at) const { return {word(at), shape.key > 8 ? word(at + 8) : 0}; }

    void key_to(u8* at, const Key128& key) const {
        put(at, key.low);
        if (shape.key > 8) put(at + 8, key.high);
    }

    // Carry an operation out: its status, and the value before it. Returns an error, or NONE.
    u64 step(u8 operation, const Key128& key, const u8* value, u8& status, u8* answer) {
        if (stopped_) return STOPPED;
        const u64 error = stepped(operation, key, value, status, answer);
        stopped_ = error != NONE;
        return error;
    }

  private:
    struct Item {
        Key128 key;
        Value value;
    };
    struct Opened {
        u64 page;
        std::vector<Item> items;
    };
    const Key128 page_, hash_, pairs_;
    u8* const pages_;
    u64 number_ = 0;
    bool stopped_ = false;
    std::vector<u64> buckets_, loads_;
    std::vector<std::vector<Key128>> waiting_;
    std::vector<u64> counters_, written_;  // how often a page was written, and its items then
    Table<Value> framed_;

    std::array<std::array<u64, 2>, 2> drawn() {
        std::array<std::array<u64, 2>, 2> found;
        const u64 mask = (u64(1) << shape.bin_bits) - 1;
        u64 taken = 0;
        for (u64 attempt = 0; taken < 2; attempt++) {
            const Sponge sponge(pairs_, number_, attempt);
            for (int k = 0; k < 2 && taken < 2; k++) {
                const u64 a = sponge.s[k] & mask, b = sponge.s[k] >> 32 & mask;
                if (a < shape.bins && b < shape.bins && a != b) found[taken++] = {a, b};
            }
        }
        number_++;
        return found;
    }

    u64 bucket_of(const Key128& key) const {
        const u64 half = shape.buckets / 2, hashed = siphash(hash_, key, shape.key);
        const u64 first = hashed & (half - 1), second = half | (hashed >> 32 & (half - 1));
        return buckets_[second] < buckets_[first] ? second : first;
    }

    // The first empty slot of a bucket takes a key.
    u64 entered(u64 bucket, const Key128& key) {
        std::vector<Entry>& held = entries[bucket];
        u64 slot = 0;
        while (slot < held.size() && held[slot].there) slot++;
        if (slot == held.size()) held.emplace_back();
        held[slot] = {true, key};
        buckets_[bucket]++;
        return slot;
    }

    bool opened(Opened& made) const {
        const u64 page = made.page, counter = counters_[page], size = (shape.chunk_blocks + 1) * BLOCK;
        if (!counter) return true;
        const u8* sealed = pages_ + page * shape.page;
        if (std::any_of(sealed + shape.chunks * size, sealed + shape.page, [](u8 byte) { return byte; })) return false;
        std::vector<u8> text(shape.chunks * shape.chunk_blocks * BLOCK);
        for (u64 chunk = 0; chunk < shape.chunks; chunk++)
            if (!Sponge(page_, counter, page | chunk << 32)
                     .open(sealed + chunk * size, shape.chunk_blocks, text.data() + chunk * shape.chunk_blocks * BLOCK))
                return false;
        for (u64 k = 0; k < written_[page]; k++) {
            const u8* at = text.data() + k * shape.slot_blocks * BLOCK;
            made.items.push_back({key_at(at), Value(at + shape.key, at + shape.key + shape.value)});
        }
        return true;
    }

    void closed(const Opened& made) {
        const u64 page = made.page, size = shape.chunk_blocks * BLOCK;
        std::vector<u8> text(shape.chunks * size);
        for (u64 k = 0; k < made.items.size(); k++) {
            u8* at = text.data() + k * shape.slot_blocks * BLOCK;
            key_to(at, made.items[k].key);
            std::memcpy(at + shape.key, made.items[k].value.data(), shape.value);
        }
        u8* sealed = pages_ + page * shape.page;
        std::memset(sealed, 0, shape.page);
        counters_[page]++, written_[page] = made.items.size();
        for (u64 chunk = 0; chunk < shape.chunks; chunk++) {
            u8* at = sealed + chunk * (size + BLOCK);
            std::memcpy(at, text.data() + chunk * size, size);
            Sponge(page_, counters_[page], page | chunk << 32).seal(at, shape.chunk_blocks);
        }
    }

    u64 stepped(u8 operation, const Key128& key, const u8* value, u8& status, u8* answer) {
        const auto [fresh, stand_in] = drawn();
        const bool known = operation >= GET && operation <= DELETE;
        const auto found = known ? places.find(key) : places.end();
        const bool there = found != places.end();
        const bool inserts = !there && operation == PUT && places.size() < shape.capacity;
        const u64 bucket = inserts ? bucket_of(key) : there ? found->second.bucket : 0;
        if (inserts && buckets_[bucket] >= shape.bucket_slots) return BUCKET_FULL;
        const auto shown = there ? found->second.pair : stand_in;
        Value old;
        bool held = false;
        if (there) {
            loads_[found->second.pair[found->second.second]]--;
            if (const auto at = framed_.find(key); at != framed_.end()) {
                old = std::move(at->second), held = true;
                framed_.erase(at);
            }
        }
        std::vector<Opened> pages;
        bool forged = false;
        for (const u64 bin : shown) {
            const std::vector<Key128> moved = std::exchange(waiting_[bin], {});
            if (bin < shape.hbm_bins) continue;
            Opened& page = pages.emplace_back(Opened{bin - shape.hbm_bins, {}});
            forged |= !opened(page);
            if (there)
                std::erase_if(page.items, [&](Item& item) {
                    if (item.key != key) return false;
                    if (!held) old = std::move(item.value), held = true;
                    return true;
                });
            for (const Key128& each : moved) {
                if (there && each == key) continue;
                const auto at = framed_.find(each);
                page.items.push_back({each, std::move(at->second)});
                framed_.erase(at);
            }
        }
        const bool kept = inserts || (there && operation != DELETE);
        if (kept) {
            const bool second = loads_[fresh[1]] < loads_[fresh[0]];
            const u64 bin = fresh[second];
            if (bin >= shape.hbm_bins && loads_[bin] >= shape.slots) return PAGE_FULL;
            if (framed_.size() >= shape.frames - 1) return FRAMES;
            if (bin >= shape.hbm_bins) waiting_[bin].push_back(key);
            const u64 slot = there ? found->second.slot : entered(bucket, key);
            loads_[bin]++;
            framed_[key] = operation == PUT ? Value(value, value + shape.value) : old;
            places[key] = {fresh, second, bucket, slot};
        } else if (there) {
            buckets_[bucket]--;
            entries[bucket][found->second.slot].there = false;
            places.erase(found);
        }
        if (forged) return PAGE_TAG;
        for (const Opened& page : pages) closed(page);
        status = there ? FOUND : !known ? UNKNOWN : operation == PUT && !inserts ? FULL : MISSING;
        if (held)
            std::memcpy(answer, old.data(), shape.value);
        else
            std::memset(answer, 0, shape.value);
        return NONE;
    }
};

// Frames of sessions (models.omap.boundary, models.omap.kept_device)

class Run {
    Device& device_;
    const Shape& shape_;
    const u64 since_;
    u8* out_[2];  // records of the log, of a snapshot
    std::vector<u8> text_, value_, record_;

    void emit(u8 what, const Key128& key, const u8* value) {
        std::fill(record_.begin(), record_.end(), 0);
        device_.key_to(record_.data(), key);
        if (what == HELD) std::memcpy(record_.data() + shape_.key, value, shape_.value);
        record_[shape_.key + shape_.value] = what;
        put(record_.data() + shape_.answer - 8, since_);
        for (int k = 0; k < 2; k++)
            if (Record& record = device_.records[k]; record.key) {
                record.key->seal(++record.number, record_.data(), shape_.answer, out_[k], out_[k] + shape_.answer);
                out_[k] += shape_.answer + BLOCK;
            }
    }

    bool accepts(const u8* name, const Key128& seen, u64 serial) const {
        const u64 size = std::min<u64>(16, shape_.value);
        const Link& link = device_.links[name[0]];
        if (!std::memcmp(name, device_.current, size)) return !seen.high && seen.low <= serial;
        return link.there && !std::memcmp(name, link.name, size) && !seen.high && seen.low <= link.serial;
    }

  public:
    bool confirmed = false;

    Run(Device& device, u64 since, u8* log, u8* snapshot)
        : device_(device), shape_(device.shape), since_(since), out_{log, snapshot}, text_(shape_.request),
          value_(shape_.value), record_(shape_.answer) {}

    // Answer a frame, whose operation has this serial.
    u64 answer(const u8* frame, u64 serial, u8* out) {
        const u64 slot = frame[0] | u64(frame[1]) << 8, number = word(frame + 8);
        Session* session = slot < device_.sessions.size() ? &device_.sessions[slot] : nullptr;
        u8 denied = 0, operation = 0, status = 0;
        Key128 key{0, 0};
        std::fill(text_.begin(), text_.end(), 0);
        if (!session || !session->receive) {
            denied = SESSION;
        } else if (number == ~u64(0) || !session->receive->open(number, frame + BLOCK, shape_.request,
                                                                 frame + BLOCK * (1 + shape_.request_blocks), text_.data())) {
            denied = TAG;
        } else if (number != session->received) {
            denied = NUMBER;
        } else {
            session->received++;
            operation = text_[shape_.request - 1], key = device_.key_at(text_.data());
            if (operation > 63 || !(shape_.allowed[session->role] >> operation & 1)) denied = NOT_ALLOWED, operation = 0;
        }
        const u8* asked = text_.data() + shape_.key;
        if (const u64 error = device_.step(operation, key, asked, status, value_.data())) return error;
        if (device_.logs) {
            const bool found = status == FOUND;
            if (operation == GET && found)
                emit(HELD, key, value_.data());
            else if (operation == PUT && status != FULL)
                emit(HELD, key, asked);
            else
                emit(operation == DELETE && found ? GONE : NOTHING, key, nullptr);
            if (operation == RECEIPT) {
                const bool fits = accepts(asked, key, serial);
                confirmed |= fits && session->role == KEEPER;
                status = fits ? FOUND : MISSING;
            }
        }
        out[0] = frame[0], out[1] = frame[1], put(out + 8, number);
        if (denied && denied != NOT_ALLOWED) {
            out[2] = denied;
            return NONE;
        }
        std::vector<u8>& told = record_;
        device_.key_to(told.data(), key);
        std::memcpy(told.data() + shape_.key, value_.data(), shape_.value);
        told[shape_.key + shape_.value] = denied ? u8(REFUSED) : status;
        put(told.data() + shape_.answer - 8, serial);
        session->send->seal(number, told.data(), shape_.answer, out + BLOCK, out + BLOCK * (1 + shape_.answer_blocks));
        return NONE;
    }
};

Key128 key_of(const u8* at) { return {word(at), word(at + 8)}; }

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void* device_new(const u64* shape, const u8* keys, u8* pages) {
    Shape own;
    std::memcpy(&own, shape, sizeof own);
    return new Device(own, key_of(keys), key_of(keys + 16), key_of(keys + 32), pages);
}

void device_free(Device* device) { delete device; }

void device_take(Device* device, u64 slot, u64 role, const u8* receive, const u8* send) {
    device->sessions[slot] = {std::make_unique<Gcm>(receive), std::make_unique<Gcm>(send), role, 0};
}

// Of files: whose they are now, and links as {there u8, name (16), serial u64} by their first byte.
void device_past(Device* device, const u8* current, const u8* links) {
    device->logs = true;
    std::memcpy(device->current, current, 16);
    for (int k = 0; k < 256; k++, links += 25) {
        device->links[k].there = links[0];
        std::memcpy(device->links[k].name, links + 1, 16);
        device->links[k].serial = word(links + 17);
    }
}

// Begin a file, 0 the log or 1 a snapshot; without a key end it.
void device_file(Device* device, u64 which, const u8* key) {
    device->records[which] = {key ? std::make_unique<Gcm>(key) : nullptr, 0};
}

void device_record(Device* device, u64 which, const u8* text, u8* out) {
    Record& record = device->records[which];
    record.key->seal(++record.number, text, device->shape.answer, out, out + device->shape.answer);
}

u64 device_step(Device* device, u64 operation, const u8* key, const u8* value, u8* out) {
    return device->step(u8(operation), device->key_at(key), value, out[0], out + 1);
}

// Answer frames; `serial` is of the operation before them. Puts into `told` how many were answered, and whether a
// keeper has confirmed the map.
u64 device_run(Device* device, const u8* frames, u64 count, u64 serial, u64 since, u8* answers, u8* log, u8* snapshot,
               u64* told) {
    Run run(*device, since, log, snapshot);
    const u64 size = device->shape.frame;
    u64 error = NONE;
    for (told[0] = 0; told[0] < count; told[0]++) {
        const u64 k = told[0];
        if ((error = run.answer(frames + k * size, serial + k + 1, answers + k * size))) break;
    }
    told[1] = run.confirmed;
    return error;
}

// A bucket's slots, each as whether it has a key, and the key.
void device_bucket(const Device* device, u64 bucket, u8* out) {
    const u64 size = 1 + device->shape.key;
    for (const Entry& entry : device->entries[bucket]) {
        out[0] = entry.there;
        device->key_to(out + 1, entry.key), out += size;
    }
}

}  // extern "C"
#pragma GCC visibility pop
