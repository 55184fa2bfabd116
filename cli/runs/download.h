#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "client/api_client.h"

namespace babelring {

/// Which checkpoint of a run.
struct CheckpointChoice {
  std::string id;  // c_…; empty: by the others
  bool best = false, latest = false;
};

/// The checkpoint that is meant: by its id; the best; the latest; or, where nothing is said, the best if there is one,
/// else the latest. Throws Failure if there is none.
json::object choose_checkpoint(ApiClient& api, const std::string& run, const CheckpointChoice& choice);

/// Called with the bytes that are there and those there will be.
using CheckpointProgress = std::function<void(std::int64_t bytes, std::int64_t total)>;

/// Downloads a checkpoint into the folder `output`, which must not exist: file by file into OUTPUT.part, each verified
/// against the manifest; then OUTPUT.part is renamed, so the folder is complete or absent. Resumes from what an
/// interrupted call left in OUTPUT.part. `nmt translate --checkpoint` takes the folder. Throws Failure.
void download_checkpoint(ApiClient& api, const json::object& checkpoint, const std::filesystem::path& output,
                         const CheckpointProgress& progress = {});

}  // namespace babelring
