#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "insight/tables/stalls.h"

namespace babelring {

/// The part of the files' bytes that is in memory, by mincore: 0 to 1. 1 for empty files. Throws Failure.
double cached_fraction(const std::vector<std::filesystem::path>& files);

/// Drops the files from memory, also where this process has mapped them, and reads `fraction` of each again, in blocks
/// that are spread evenly. Throws Failure if a file cannot be read.
void set_cached_fraction(const std::vector<std::filesystem::path>& files, double fraction);

/// Bytes that the calling thread has fetched from storage so far; 0 where the kernel does not count them.
std::int64_t thread_read_bytes();

/// Options of a measurement on a prepared folder of text or sequences.
struct OwnStallsPlan {
  std::filesystem::path folder;
  std::vector<double> cached;  // fractions of the training set that are in memory at the start of an epoch
  std::vector<int> workers;    // threads that make updates
  double compute_ms = 20;      // of an update, in which training waits instead of computing
  std::int64_t tokens_per_update = 4096;
  double read_bytes_per_second = 0;  // of a slower storage; 0: the storage as it is
  std::int64_t max_updates = 0;      // of an epoch; 0: all
};

/// Runs an epoch for each fraction and number of workers through the pipeline that training uses, with waiting instead
/// of computing. Bytes that a worker fetches from storage take at least as long as read_bytes_per_second says, one
/// worker after another. Throws UsageFailure if a number is out of range, Failure if the folder is damaged.
std::vector<insight::MeasuredStall> measure_own_stalls(const OwnStallsPlan& plan);

}  // namespace babelring
