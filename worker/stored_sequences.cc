#include "worker/stored_sequences.h"

#include "base/files.h"
#include "nmt/checkpoint/store.h"
#include "nmt/comm/rank_results.h"
#include "nmt/train/setup/config.h"

namespace babelring {

std::int64_t stored_sequences(const std::filesystem::path& run_folder, const std::filesystem::path& resume_from,
                              Communicator& communicator) {
  const json::value stored = value_of_rank_0(communicator, [&]() -> json::value {
    const std::filesystem::path file =
        (resume_from.empty() ? run_folder : find_checkpoint(resume_from)) / "config.yaml";
    if (!std::filesystem::exists(file)) return DataConfig::automatic;
    return read_stored_config(read_file(file), file.string()).data.sequences_per_update;
  });
  return stored.as_int64();
}

}  // namespace babelring
