#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "server/http/message.h"

namespace babelring::artifacts {

/// Counts active downloads by client and by checkpoint. Thread-safe; copies share the counts.
class Downloads {
 public:
  /// Takes a download slot of the request's token, or of its address without a token. Releasing the pointer frees the
  /// slot. Throws Problem 429 if all slots are taken.
  std::shared_ptr<const void> begin(const http::Request& request, const std::string& checkpoint);
  /// Protects a checkpoint from deletion while the pointer is held, for other readers than downloads.
  std::shared_ptr<const void> hold(const std::string& checkpoint);
  bool in_use(const std::string& checkpoint) const;

  static constexpr int max_per_client = 4;

 private:
  struct State {
    std::mutex mutex;
    std::map<std::string, int> by_client, by_checkpoint;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace babelring::artifacts
