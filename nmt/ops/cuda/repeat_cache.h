#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <utility>
#include <vector>

#include "nmt/core/random.h"

namespace babelring::cuda {

/// Recordings of work by key. Keys are compared word by word; of a key without a recording only a hash is kept. Work is
/// recorded when it occurs for the second time. The least recently used recording is evicted first. A change of
/// generation, that is of the memory that recordings point into, discards all.
template <class Recording>
class RepeatCache {
 public:
  using Key = std::vector<std::int64_t>;
  static constexpr std::size_t max_recordings = 64, max_seen = 256;

  /// Before anything else is asked: forgets all if `generation` is another than last time.
  void enter(std::int64_t generation) {
    if (generation == generation_) return;
    generation_ = generation;
    recordings_.clear();
    seen_.clear();
  }
  /// The key's recording, which becomes the most recently used; null if there is none.
  Recording* find(const Key& key) {
    const auto found = std::find_if(recordings_.begin(), recordings_.end(),
                                    [&](const auto& recording) { return recording.first == key; });
    if (found == recordings_.end()) return nullptr;
    recordings_.splice(recordings_.begin(), recordings_, found);
    return &found->second;
  }
  /// True if the key is among the last `max_seen` keys that were passed. Adds it otherwise.
  bool seen_before(const Key& key) {
    const std::uint64_t hash = hash_of(key);
    if (std::find(seen_.begin(), seen_.end(), hash) != seen_.end()) return true;
    seen_.push_back(hash);
    if (seen_.size() > max_seen) seen_.pop_front();
    return false;
  }
  /// Adds the recording of a key that has none.
  Recording& keep(Key key, Recording recording) {
    recordings_.emplace_front(std::move(key), std::move(recording));
    if (recordings_.size() > max_recordings) recordings_.pop_back();
    return recordings_.front().second;
  }

 private:
  static std::uint64_t hash_of(const Key& key) {
    std::uint64_t hash = key.size();
    for (const std::int64_t word : key) hash = mix64(hash ^ static_cast<std::uint64_t>(word));
    return hash;
  }

  std::int64_t generation_ = 0;
  std::list<std::pair<Key, Recording>> recordings_;  // most recently used first
  std::deque<std::uint64_t> seen_;                   // hashes of keys, the newest last
};

}  // namespace babelring::cuda
