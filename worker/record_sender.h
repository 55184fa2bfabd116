#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "nmt/comm/communicator.h"

namespace babelring {

/// Which ranks' records a rank sends, and which rank sends its own.
struct RecordSender {
  std::vector<std::int64_t> served = {};       // ranks whose records this rank sends, beside its own records
  std::optional<std::int64_t> by = {};         // the rank that sends this rank's spool; absent: this rank itself
  std::chrono::milliseconds patience{30'000};  // for that rank to open its spool
};

/// Chooses the first of the ranks of a host that share the spool folder to send the records of all, so that a host has
/// one connection for records. A rank that shares the folder with no other rank of its host (it runs in another
/// container or writes to another disk) sends its records itself. Creates the attempt's folder. Collective: one
/// all_gather.
RecordSender choose_record_sender(Communicator& communicator, const std::filesystem::path& spool_folder,
                                  std::int64_t attempt);

}  // namespace babelring
