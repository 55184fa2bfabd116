#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "server/http/message.h"

namespace babelring::api {

/// Counts the downloads in progress, by client and by checkpoint. Thread-safe; copies share the counts.
class Downloads {
 public:
  /// Takes one of the four places of the request's token, or of its address where it has none; it is free again when
  /// the pointer is let go. Throws Problem 429 where all are taken.
  std::shared_ptr<const void> begin(const http::Request& request, const std::string& checkpoint);
  /// Keeps a checkpoint that is read in another way from being deleted for as long as the pointer is held.
  std::shared_ptr<const void> hold(const std::string& checkpoint);
  bool in_use(const std::string& checkpoint) const;

  static constexpr int most_a_client = 4;

 private:
  struct State {
    std::mutex mutex;
    std::map<std::string, int> by_client, by_checkpoint;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace babelring::api
