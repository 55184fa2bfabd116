#include "worker/stored_sequences.h"

#include "base/atomic_file.h"
#include "nmt/comm/rank_results.h"
#include "nmt/train/config.h"

namespace babelring {

std::int64_t stored_sequences(const std::filesystem::path& folder, Communicator& communicator) {
  const json::value stored = value_of_rank_0(communicator, [&folder]() -> json::value {
    const std::filesystem::path file = folder / "config.yaml";
    if (!std::filesystem::exists(file)) return DataConfig::automatic;
    return read_stored_config(read_file(file), file.string()).data.sequences_per_update;
  });
  return stored.as_int64();
}

}  // namespace babelring
