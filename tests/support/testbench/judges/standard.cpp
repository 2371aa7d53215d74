// An AXI4 memory and a monitor of its manager, written from the text of the standard alone (IHI 0022, issue H; numbers in brackets are its sections).
//
// The memory does whatever a subordinate may do: see `Habit`. The monitor notes what a manager may not do. Both know bursts of
// every type and size, though the cores use full words. The registers' port is driven as a manager may drive it, in any order
// of its channels, and watched too. Python's side is standard.py.

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "verilated.h"

namespace {

enum Habit : uint32_t {
    ADDRESS_WAITS = 1,      // AWREADY only once WVALID is seen with AWVALID; WREADY only behind the address [A3.3.1]
    DATA_FIRST = 2,         // AWREADY only once all words of its burst are taken
    VISIBLE_AT_B = 4,       // what is written can be read from the B transfer on; what is read is that of the AR transfer
    READY_AFTER_VALID = 8,  // READY of addresses and words is low until VALID is seen [A3.2.1]
    LATE_B = 16,            // up to 100 cycles more to each answer
    LATE_R = 32,            // the same to each read
    DATA_WAITS = 64,        // WREADY only once AWVALID is seen or its address taken
    ALTERNATE = 128,        // one transaction at a time
};

enum Response : uint8_t { OKAY = 0, SLVERR = 2, DECERR = 3 };

struct Page { std::array<uint8_t, 4096> bytes{}; bool writable = false; };

struct World {
    uint64_t cycle = 0, moved = 0;  // `moved`: the latest cycle with a transfer on a memory port
    std::vector<std::string> findings;
    std::map<uint32_t, std::unordered_map<uint64_t, Page>> spaces;
    std::mt19937_64 random;
    uint32_t stall = 0;             // percent of the cycles in which a READY or a new VALID is withheld
    uint32_t habits = 0;
    uint32_t latency = 1;           // greatest drawn delay of an answer, in cycles
    bool in_reset = true;

    uint64_t draw(uint64_t below) { return random() % below; }
    bool withheld() { return stall && draw(100) < stall; }
    void finding(const std::string& text) {
        if (findings.size() < 20) findings.push_back("cycle " + std::to_string(cycle) + ": " + text);
    }
    Page* page(uint32_t space, uint64_t address) {
        auto& pages = spaces[space];
        auto place = pages.find(address >> 12);
        return place == pages.end() ? nullptr : &place->second;
    }
};

std::string hex(uint64_t value) {
    char text[32];
    std::snprintf(text, sizeof text, "0x%llx", (unsigned long long)value);
    return text;
}

// A burst's addresses [A3.4.1].
struct Burst {
    uint64_t id, address;
    uint32_t length, size, type;
    std::vector<uint8_t> early;     // all bytes of a read, where they were looked up at AR
    std::vector<uint8_t> responses;

    uint64_t bytes() const { return uint64_t(1) << size; }
    uint64_t aligned() const { return address & ~(bytes() - 1); }
    // Address of a beat, from 0.
    uint64_t at(uint32_t beat) const {
        if (type == 0 || beat == 0) return address;
        if (type == 1) return aligned() + beat * bytes();
        const uint64_t span = bytes() * length, low = address / span * span;
        const uint64_t next = aligned() + beat * bytes();
        return next >= low + span ? next - span : next;
    }
    // The byte lanes of a beat: first and one behind the last.
    std::pair<uint32_t, uint32_t> lanes(uint32_t beat, uint32_t width) const {
        const uint64_t begin = at(beat), end = (begin & ~(bytes() - 1)) + bytes();
        return {uint32_t(begin % width), uint32_t((end - 1) % width + 1)};
    }
};

struct Beat { std::vector<uint8_t> data, strobes; bool last; };

// What a channel's source shows, to see that it stays until it is taken [A3.2.1].
struct Held {
    bool waits = false;
    std::vector<uint8_t> payload;

    void look(World& world, const std::string& name, bool valid, bool ready, std::vector<uint8_t> shown) {
        if (waits && !valid) world.finding(name + "VALID was withdrawn before " + name + "READY [A3.2.1]");
        else if (waits && shown != payload) world.finding(name + ": the payload changed while VALID waited [A3.2.1]");
        waits = valid && !ready;
        payload = std::move(shown);
    }
};

template <class T> void put(std::vector<uint8_t>& to, const T& value) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    to.insert(to.end(), bytes, bytes + sizeof value);
}

template <class Pins> class Port {
    static constexpr uint32_t WIDTH = Pins::bytes;
    World* world_ = nullptr;
    std::string name_;

    struct Asked { Burst burst; uint64_t from; };
    struct Answer { uint64_t id, from; uint8_t response; std::vector<std::tuple<uint64_t, uint8_t>> bytes; };

    // reads
    std::deque<Asked> reads_;
    uint32_t beat_ = 0;
    bool arready_ = false, rvalid_ = false, ar_moves_ = false, r_moves_ = false, ar_seen_ = false;
    Held ar_;
    // writes
    std::deque<Burst> writes_;      // addresses taken whose words are not all there
    std::deque<Beat> words_;        // words taken whose address is not
    std::deque<Answer> answers_;
    std::vector<std::tuple<uint64_t, uint8_t>> unseen_;
    uint8_t worst_ = OKAY;
    uint32_t stored_ = 0;
    bool awready_ = false, wready_ = false, bvalid_ = false;
    bool aw_moves_ = false, w_moves_ = false, b_moves_ = false, aw_seen_ = false, w_seen_ = false;
    Held aw_, w_;

    std::string channel(const char* which) const { return name_ + " " + which; }
    bool has(Habit habit) const { return world_->habits & habit & ~(calm ? LATE_B | LATE_R | READY_AFTER_VALID | ALTERNATE : 0u); }
    bool withheld() { return !calm && world_->withheld(); }
    uint64_t delay(Habit late) {
        return (calm ? 0 : world_->draw(world_->latency)) + (has(late) ? world_->draw(100) : 0);
    }

    void legal(const char* which, const Burst& burst) {
        const std::string where = channel(which) + " at " + hex(burst.address) + ": ";
        if (burst.bytes() > WIDTH) world_->finding(where + "AxSIZE is more than the bus [A3.4.1]");
        if (burst.type == 3) world_->finding(where + "AxBURST is reserved [A3.4.1]");
        if (burst.type == 0 && burst.length > 16) world_->finding(where + "a FIXED burst of over 16 beats [A3.4.1]");
        if (burst.type == 2 && (burst.length & (burst.length - 1) || burst.length < 2 || burst.length > 16 || burst.address % burst.bytes()))
            world_->finding(where + "not a legal WRAP burst [A3.4.1]");
        const uint64_t end = burst.aligned() + burst.bytes() * burst.length - 1;
        if (burst.type == 1 && burst.address >> 12 != end >> 12) world_->finding(where + "the burst crosses a 4 KiB boundary [A3.4.1]");
    }
    uint8_t look_up(uint64_t address, uint8_t& byte) {
        const Page* page = world_->page(Pins::space, address);
        byte = page ? page->bytes[address % 4096] : 0;
        return page ? OKAY : DECERR;
    }
    // The lanes of a beat of a read, and its response.
    uint8_t fetch(const Burst& burst, uint32_t beat, uint8_t* lanes) {
        uint8_t worst = OKAY;
        const auto [first, behind] = burst.lanes(beat, WIDTH);
        for (uint32_t lane = first; lane < behind; ++lane)
            worst = std::max(worst, look_up(burst.at(beat) / WIDTH * WIDTH + lane, lanes[lane]));
        return worst;
    }
    void take_word(const Beat& word) {
        Burst& burst = writes_.front();
        const auto [first, behind] = burst.lanes(stored_, WIDTH);
        for (uint32_t lane = 0; lane < WIDTH; ++lane) {
            if (!(word.strobes[lane / 8] >> lane % 8 & 1)) continue;
            const uint64_t address = burst.at(stored_) / WIDTH * WIDTH + lane;
            if (lane < first || lane >= behind) {
                world_->finding(channel("W") + ": a strobe outside the beat's lanes [A3.4.3]");
                continue;
            }
            Page* page = world_->page(Pins::space, address);
            worst_ = std::max<uint8_t>(worst_, !page ? DECERR : page->writable ? OKAY : SLVERR);
            if (page && page->writable) unseen_.push_back({address, word.data[lane]});
        }
        ++stored_;
        if (!has(VISIBLE_AT_B)) publish(unseen_);
        if (word.last != (stored_ == burst.length))
            world_->finding(channel("W") + ": WLAST does not mark the last word of the burst at " + hex(burst.address) + " [A3.4.1]");
        if (stored_ < burst.length) return;
        const uint64_t from = world_->cycle + 1 + delay(LATE_B);
        uint8_t response = worst_;
        if (fail_write && !--fail_write) response = fail_with;
        answers_.push_back({burst.id, from, response, unseen_});
        unseen_.clear();
        writes_.pop_front();
        worst_ = OKAY;
        stored_ = 0;
    }
    void publish(std::vector<std::tuple<uint64_t, uint8_t>>& bytes) {
        for (const auto& [address, byte] : bytes) world_->page(Pins::space, address)->bytes[address % 4096] = byte;
        bytes.clear();
    }
    bool whole_burst_waits() const { return !words_.empty() && words_.back().last; }

public:
    uint64_t fail_read = 0, fail_write = 0;  // count down to the beat or answer that fails
    uint8_t fail_with = SLVERR;
    bool calm = false;                       // never late: for a core that measures its memory
    uint64_t reads = 0, writes = 0, beats_read = 0, beats_written = 0;

    void attach(World* world, uint32_t index) { world_ = world; name_ = "m" + std::to_string(index); }
    bool open() const { return !reads_.empty() || !writes_.empty() || !words_.empty() || !answers_.empty(); }

    void reset(Top& top) {
        reads_.clear(); writes_.clear(); words_.clear(); answers_.clear(); unseen_.clear();
        beat_ = stored_ = 0;
        worst_ = OKAY;
        ar_ = aw_ = w_ = Held{};
        arready_ = awready_ = wready_ = rvalid_ = bvalid_ = false;
        ar_moves_ = r_moves_ = aw_moves_ = w_moves_ = b_moves_ = ar_seen_ = aw_seen_ = w_seen_ = false;
        show(top);
    }

    // Outputs are settled before the edge. `quiet`: reset has been there for an edge, so no VALID may be high [A3.1.2].
    void sample(Top& top, bool quiet) {
        if constexpr (Pins::reads) {
            const bool valid = Pins::arvalid(top);
            if (quiet && valid) world_->finding(channel("AR") + "VALID is high in reset [A3.1.2]");
            if (!world_->in_reset) {
                const Burst burst{Pins::arid(top), Pins::araddr(top), uint32_t(Pins::arlen(top)) + 1, Pins::arsize(top), Pins::arburst(top), {}, {}};
                std::vector<uint8_t> shown;
                for (uint64_t field : {burst.id, burst.address, uint64_t(burst.length), uint64_t(burst.size), uint64_t(burst.type)}) put(shown, field);
                ar_.look(*world_, channel("AR"), valid, arready_, shown);
                ar_seen_ = valid;
                if ((ar_moves_ = valid && arready_)) ask(burst);
                r_moves_ = rvalid_ && Pins::rready(top);
            }
        }
        if constexpr (Pins::writes) {
            const bool valid = Pins::awvalid(top), data = Pins::wvalid(top);
            if (quiet && (valid || data)) world_->finding(channel(valid ? "AW" : "W") + "VALID is high in reset [A3.1.2]");
            if (!world_->in_reset) {
                const Burst burst{Pins::awid(top), Pins::awaddr(top), uint32_t(Pins::awlen(top)) + 1, Pins::awsize(top), Pins::awburst(top), {}, {}};
                std::vector<uint8_t> shown;
                for (uint64_t field : {burst.id, burst.address, uint64_t(burst.length), uint64_t(burst.size), uint64_t(burst.type)}) put(shown, field);
                aw_.look(*world_, channel("AW"), valid, awready_, shown);
                aw_seen_ = valid;
                if ((aw_moves_ = valid && awready_)) {
                    legal("AW", burst);
                    writes_.push_back(burst);
                    ++writes;
                }
                const Beat word = shown_word(top);
                shown = word.strobes;
                shown.push_back(word.last);
                for (uint32_t lane = 0; lane < WIDTH; ++lane)
                    if (word.strobes[lane / 8] >> lane % 8 & 1) shown.push_back(word.data[lane]);
                w_.look(*world_, channel("W"), data, wready_, shown);
                w_seen_ = data;
                if ((w_moves_ = data && wready_)) {
                    words_.push_back(word);
                    ++beats_written;
                }
                while (!words_.empty() && !writes_.empty()) {
                    take_word(words_.front());
                    words_.pop_front();
                }
                b_moves_ = bvalid_ && Pins::bready(top);
            }
        }
        if (ar_moves_ || r_moves_ || aw_moves_ || w_moves_ || b_moves_) world_->moved = world_->cycle;
    }

    // After the edge.
    void drive(Top& top) {
        World& world = *world_;
        const uint64_t now = world.cycle;
        if (r_moves_) {
            ++beats_read;
            rvalid_ = false;
            if (++beat_ == reads_.front().burst.length) { reads_.pop_front(); beat_ = 0; }
        }
        if (b_moves_) {
            publish(answers_.front().bytes);
            answers_.pop_front();
            bvalid_ = false;
        }
        if (!rvalid_ && !reads_.empty() && now >= reads_.front().from && !withheld()) {
            rvalid_ = true;
            if constexpr (Pins::reads) offer(top);
        }
        if (!bvalid_ && !answers_.empty() && now >= answers_.front().from && !withheld()) {
            bvalid_ = true;
            if constexpr (Pins::writes) {
                Pins::bid(top) = answers_.front().id;
                Pins::bresp(top) = answers_.front().response;
            }
        }
        const bool busy_writing = !writes_.empty() || !answers_.empty() || !words_.empty();
        // READY may go down again where nothing was taken [A3.2.1]
        arready_ = !withheld() && reads_.size() < 64;
        awready_ = !withheld() && writes_.size() + answers_.size() < 64;
        wready_ = !withheld() && words_.size() < 4096;
        if (has(READY_AFTER_VALID)) {
            arready_ = arready_ && ar_seen_ && !ar_moves_;
            awready_ = awready_ && aw_seen_ && !aw_moves_;
            wready_ = wready_ && w_seen_ && !w_moves_;
        }
        if (has(ADDRESS_WAITS)) {
            awready_ = awready_ && aw_seen_ && !aw_moves_ && w_seen_ && writes_.empty();
            wready_ = wready_ && !writes_.empty();
        } else if (has(DATA_FIRST)) {
            awready_ = awready_ && whole_burst_waits();
            wready_ = wready_ && !whole_burst_waits();
        } else if (has(DATA_WAITS)) {
            wready_ = wready_ && (!writes_.empty() || (aw_seen_ && !aw_moves_ && words_.empty()));
        }
        if (has(ALTERNATE)) {
            arready_ = arready_ && !ar_moves_ && !aw_moves_ && reads_.empty() && !busy_writing && !(aw_seen_ && now / 64 % 2);
            awready_ = awready_ && !arready_ && !aw_moves_ && reads_.empty() && writes_.empty() && answers_.empty();
        }
        show(top);
    }

    // In words, who waits for whom here.
    std::string waits() const {
        std::string text;
        const auto add = [&](const std::string& what) { text += (text.empty() ? "" : "; ") + name_ + ": " + what; };
        if (aw_.waits && !w_seen_ && has(ADDRESS_WAITS)) add("AWVALID waits for AWREADY, which waits for WVALID: the manager waits for AWREADY before WVALID [A3.3.1]");
        else if (aw_.waits && !w_seen_ && has(DATA_FIRST)) add("AWVALID waits for AWREADY, which waits for the burst's words: the manager waits for AWREADY before WVALID [A3.3.1]");
        else if (w_.waits && !aw_seen_ && writes_.empty()) add("WVALID waits for WREADY, and no address is offered: the manager waits for WREADY before AWVALID [A3.3.1]");
        else if (!writes_.empty() && !w_seen_) add("a burst's address was taken, and its words do not come");
        else if (!words_.empty() && !aw_seen_) add("words were taken, and their address is not offered");
        if (bvalid_ && !b_moves_) add("BVALID waits for BREADY");
        if (rvalid_ && !r_moves_) add("RVALID waits for RREADY");
        return text;
    }

private:
    static Beat shown_word(Top& top) {
        if constexpr (Pins::writes) {
            const auto* data = reinterpret_cast<const uint8_t*>(&Pins::wdata(top));
            const auto* strobes = reinterpret_cast<const uint8_t*>(&Pins::wstrb(top));
            return {{data, data + WIDTH}, {strobes, strobes + (WIDTH + 7) / 8}, bool(Pins::wlast(top))};
        } else return {};
    }
    void ask(Burst burst) {
        legal("AR", burst);
        if (has(VISIBLE_AT_B)) {
            burst.early.resize(size_t(WIDTH) * burst.length);
            for (uint32_t beat = 0; beat < burst.length; ++beat) burst.responses.push_back(fetch(burst, beat, &burst.early[size_t(WIDTH) * beat]));
        }
        const uint64_t from = world_->cycle + 1 + delay(LATE_R);
        reads_.push_back({std::move(burst), from});
        ++reads;
    }
    void offer(Top& top) {
        if constexpr (Pins::reads) {
            const Burst& burst = reads_.front().burst;
            uint8_t lanes[WIDTH] = {};
            uint8_t response;
            if (burst.early.empty()) response = fetch(burst, beat_, lanes);
            else {
                std::memcpy(lanes, &burst.early[size_t(WIDTH) * beat_], WIDTH);
                response = burst.responses[beat_];
            }
            if (fail_read && !--fail_read) response = fail_with;
            std::memcpy(&Pins::rdata(top), lanes, WIDTH);
            Pins::rid(top) = burst.id;
            Pins::rresp(top) = response;
            Pins::rlast(top) = beat_ + 1 == burst.length;
        }
    }
    void show(Top& top) {
        if constexpr (Pins::reads) {
            Pins::arready(top) = arready_;
            Pins::rvalid(top) = rvalid_;
            if (!rvalid_) {  // means nothing without VALID
                std::memset(&Pins::rdata(top), int(world_->draw(256)), WIDTH);
                Pins::rresp(top) = world_->draw(4);
                Pins::rlast(top) = world_->draw(2);
            }
        }
        if constexpr (Pins::writes) {
            Pins::awready(top) = awready_;
            Pins::wready(top) = wready_;
            Pins::bvalid(top) = bvalid_;
            if (!bvalid_) Pins::bresp(top) = world_->draw(4);
        }
    }
};

#include "ports.h"

constexpr uint64_t PATIENCE = 10'000;  // cycles in which nothing moves: a stall

struct Judge {
    VerilatedContext context;
    std::unique_ptr<Top> top;
    World world;
    AllPorts ports;
    Held answered, read;
    std::string text;

    Judge() {
        top.reset(new Top(&context));
        uint32_t index = 0;
        each([&](auto& port) { port.attach(&world, index++); port.reset(*top); });
        top->s_axil_awvalid = top->s_axil_wvalid = top->s_axil_bready = top->s_axil_arvalid = top->s_axil_rready = 0;
        top->clk = 0;
        top->rst = 1;
        top->eval();
        reset(3);
    }
    ~Judge() { top->final(); }

    template <class F> void each(F f) { std::apply([&](auto&... port) { (f(port), ...); }, ports); }

    void cycle(bool quiet = false) {
        each([&](auto& port) { port.sample(*top, quiet); });
        if (!world.in_reset) {
            // the registers' answers stay, as those of any subordinate
            answered.look(world, "s_axil B", top->s_axil_bvalid, top->s_axil_bready, {uint8_t(top->s_axil_bresp)});
            std::vector<uint8_t> shown{uint8_t(top->s_axil_rresp)};
            put(shown, top->s_axil_rdata);
            read.look(world, "s_axil R", top->s_axil_rvalid, top->s_axil_rready, shown);
        } else if (quiet && (top->s_axil_bvalid || top->s_axil_rvalid)) world.finding("s_axil: a VALID is high in reset [A3.1.2]");
        top->clk = 1;
        top->eval();
        ++world.cycle;
        if (!world.in_reset) each([&](auto& port) { port.drive(*top); });
        top->clk = 0;
        top->eval();
    }

    void reset(uint32_t cycles) {
        world.in_reset = true;
        answered = read = Held{};
        each([&](auto& port) { port.reset(*top); });
        top->rst = 1;
        top->eval();
        for (uint32_t k = 0; k < cycles; ++k) cycle(k > 0);
        top->rst = 0;
        top->eval();
        world.in_reset = false;
        world.moved = world.cycle;
    }

    // Delays of the three channels of an access are drawn: words may come before their address, answers wait.
    uint32_t patience(uint32_t most) { return world.draw(4) ? 0 : uint32_t(world.draw(most)); }

    int write(uint32_t address, uint32_t value) {
        const uint32_t a = patience(6), w = patience(6), b = patience(6);
        bool aw = false, data = false;
        for (uint32_t k = 0; k < PATIENCE; ++k) {
            if (k >= a && !aw) { top->s_axil_awvalid = 1; top->s_axil_awaddr = address; top->s_axil_awprot = 0; }
            if (k >= w && !data) { top->s_axil_wvalid = 1; top->s_axil_wdata = value; top->s_axil_wstrb = 15; }
            top->s_axil_bready = k >= b;
            top->eval();
            if (top->s_axil_bvalid && !(aw && data)) world.finding("s_axil: BVALID before the write's address and data [A3.3.1]");
            const bool take_aw = top->s_axil_awvalid && top->s_axil_awready, take_w = top->s_axil_wvalid && top->s_axil_wready;
            const bool done = top->s_axil_bvalid && top->s_axil_bready;
            const int response = top->s_axil_bresp;
            cycle();
            if (take_aw) { aw = true; top->s_axil_awvalid = 0; }
            if (take_w) { data = true; top->s_axil_wvalid = 0; }
            if (done) { top->s_axil_bready = 0; top->eval(); return response; }
            top->eval();
        }
        return -1;
    }

    int load(uint32_t address, uint32_t* value) {
        const uint32_t a = patience(6), r = patience(6);
        bool asked = false;
        for (uint32_t k = 0; k < PATIENCE; ++k) {
            if (k >= a && !asked) { top->s_axil_arvalid = 1; top->s_axil_araddr = address; top->s_axil_arprot = 0; }
            top->s_axil_rready = k >= r;
            top->eval();
            if (top->s_axil_rvalid && !asked) world.finding("s_axil: RVALID before the read's address [A3.3.1]");
            const bool take = top->s_axil_arvalid && top->s_axil_arready, done = top->s_axil_rvalid && top->s_axil_rready;
            const int response = top->s_axil_rresp;
            *value = top->s_axil_rdata;
            cycle();
            if (take) { asked = true; top->s_axil_arvalid = 0; }
            if (done) { top->s_axil_rready = 0; top->eval(); return response; }
            top->eval();
        }
        return -1;
    }

    bool waiting() {
        bool any = false;
        each([&](auto& port) { any = any || !port.waits().empty(); });
        return any;
    }

    // 1: the interrupt; 2: a stall; 0: the limit.
    int run(uint64_t limit) {
        const uint64_t end = world.cycle + limit;
        world.moved = world.cycle;
        while (world.cycle < end) {
            if (top->irq) return 1;
            if (world.cycle - world.moved >= PATIENCE && world.cycle % PATIENCE == 0 && waiting()) return 2;
            cycle();
        }
        return top->irq ? 1 : 0;
    }
};

Judge& self(void* judge) { return *static_cast<Judge*>(judge); }

template <class F> void one(void* judge, uint32_t index, F f) {
    uint32_t k = 0;
    self(judge).each([&](auto& port) { if (k++ == index) f(port); });
}

}  // namespace

#define API extern "C" __attribute__((visibility("default")))

API void* judge_open() { return new Judge; }
API void judge_close(void* j) { delete &self(j); }
API void judge_behave(void* j, uint64_t seed, uint32_t habits, uint32_t stall, uint32_t latency, uint64_t calm) {
    World& world = self(j).world;
    world.random.seed(seed);
    uint32_t index = 0;
    self(j).each([&](auto& port) { port.calm = calm >> index++ & 1; });
    world.habits = habits; world.stall = stall; world.latency = latency ? latency : 1;
}
API void judge_place(void* j, uint32_t space, uint64_t at, const uint8_t* bytes, uint64_t size, int writable) {
    auto& pages = self(j).world.spaces[space];
    for (uint64_t k = 0; k < size; ++k) {
        Page& page = pages[(at + k) >> 12];
        if (writable) page.writable = true;
        if (bytes) page.bytes[(at + k) % 4096] = bytes[k];
    }
}
API void judge_fetch(void* j, uint32_t space, uint64_t at, uint8_t* bytes, uint64_t size) {
    for (uint64_t k = 0; k < size; ++k) {
        const Page* page = self(j).world.page(space, at + k);
        bytes[k] = page ? page->bytes[(at + k) % 4096] : 0;
    }
}
API void judge_fail(void* j, uint32_t index, int write, uint64_t count, uint32_t response) {
    one(j, index, [&](auto& port) {
        (write ? port.fail_write : port.fail_read) = count;
        port.fail_with = response;
    });
}
API void judge_reset(void* j, uint32_t cycles) { self(j).reset(cycles); }
API int judge_write(void* j, uint32_t address, uint32_t value) { return self(j).write(address, value); }
API int judge_read(void* j, uint32_t address, uint32_t* value) { return self(j).load(address, value); }
API int judge_run(void* j, uint64_t limit) { return self(j).run(limit); }
API int judge_open_bursts(void* j) {
    int count = 0;
    self(j).each([&](auto& port) { count += port.open(); });
    return count;
}
API uint64_t judge_cycle(void* j) { return self(j).world.cycle; }
API void judge_traffic(void* j, uint32_t index, uint64_t* out) {
    one(j, index, [&](auto& port) { out[0] = port.reads; out[1] = port.writes; out[2] = port.beats_read; out[3] = port.beats_written; });
}
API const char* judge_findings(void* j) {
    Judge& judge = self(j);
    judge.text.clear();
    for (const std::string& finding : judge.world.findings) judge.text += finding + "\n";
    return judge.text.c_str();
}
API const char* judge_waits(void* j) {
    Judge& judge = self(j);
    judge.text.clear();
    judge.each([&](auto& port) {
        const std::string waits = port.waits();
        if (!waits.empty()) judge.text += waits + "\n";
    });
    return judge.text.c_str();
}
