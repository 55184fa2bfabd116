#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "nmt/data/gssm/config.h"
#include "nmt/data/gssm/likelihood.h"
#include "nmt/data/manifest.h"

namespace babelring {

/// Which sequences to write to a folder.
struct GssmDataOptions {
  GssmConfig config;
  std::filesystem::path output;        // folder; created if missing
  std::int64_t train = 0, test = 0;    // number of sequences of each set
  std::int64_t entropy_sequences = 0;  // of the test set, whose likelihood is computed; 0: none
  int threads = 1;                     // do not affect the result
};

struct GssmDataResult {
  Manifest manifest;
  GssmEntropy entropy;  // of the test set; entropy.sequences is 0 if it was not computed
};

/// Writes sets "train" and "test" in the format of `nmt prepare`, with a target side only:
///
///     gssm.yaml                            the generator; the manifest lists it as the vocabulary
///     train.target.ids, test.target.ids    tokens
///     manifest.json                        sizes, digests, options and the entropy of the test set; written last
///
/// Test sequences are those of update -1, training sequences those of update 0: neither is part of an update that a
/// run generates for training. An older manifest of the folder is removed first. Throws UsageFailure if train, test or
/// the output folder is missing, and Failure.
GssmDataResult write_gssm_data(const GssmDataOptions& options);

}  // namespace babelring
