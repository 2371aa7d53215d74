// Random requests through Ramulator 2.1, as fast as its controller takes them: ramulator CONFIG COUNT SEED.
// Prints the seconds of processor time, the cycles and the bytes of a transaction.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <vector>

#include "ramulator/base/base.h"
#include "ramulator/base/config.h"
#include "ramulator/base/factory.h"
#include "ramulator/frontend/i_frontend.h"
#include "ramulator/memory_system/i_memory_system.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto config = Ramulator::Config::parse_config_file(argv[1]);
  auto* front = Ramulator::Factory::create_frontend(config);
  auto* memory = Ramulator::Factory::create_memory_system(config);
  front->connect_memory_system(memory);
  memory->connect_frontend(front);
  const std::uint64_t count = std::strtoull(argv[2], nullptr, 10);
  const int bytes = memory->get_tx_bytes();
  std::mt19937_64 random(std::strtoull(argv[3], nullptr, 10));
  std::vector<std::uint64_t> places(count);
  for (auto& place : places) place = random();
  std::uint64_t answered = 0, reads = 0, sent = 0, cycles = 0;
  const std::uint64_t bursts = (8ull << 30) / bytes;
  const auto begin = std::clock();
  while (sent < count || answered < reads) {
    while (sent < count) {
      const bool write = places[sent] >> 63;
      const auto address = static_cast<Ramulator::Addr_t>(places[sent] % bursts * bytes);
      if (!front->receive_external_requests(write, address, 0, [&](Ramulator::Request&) { ++answered; }, bytes)) break;
      reads += !write;
      ++sent;
    }
    memory->tick();
    ++cycles;
  }
  const double seconds = double(std::clock() - begin) / CLOCKS_PER_SEC;
  front->finalize();
  memory->finalize();
  std::printf("%.6f %llu %d %llu\n", seconds, (unsigned long long)cycles, bytes, (unsigned long long)reads);
}
