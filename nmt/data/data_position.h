#pragma once

#include <cstdint>

namespace babelring {

/// Sentence order within an epoch.
enum class DataOrder {
  shuffled,  // every update mixes sentences of all lengths
  pooled,  // of runs that began before `shuffled` was there: the sentences of 64 updates are sorted by length together,
           // so that an update holds sentences of nearly one length
};

/// A position in the training data: in epoch `epoch`, `sentences` sentences are done. `sentences` is always below the
/// epoch's size; the end of an epoch is the start of the next.
struct DataPosition {
  std::int64_t epoch = 0;  // from 0
  std::int64_t sentences = 0;
  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

}  // namespace babelring
