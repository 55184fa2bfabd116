#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "server/http/message.h"

namespace babelring::artifacts {

/// The header of a file in a tar archive: a ustar block, preceded by a pax header if ustar cannot represent the name
/// (over 100 bytes or not ASCII) or the size (8 GiB or more). The entry is a regular file with mode 0644 owned by root.
/// `mtime_s` is in seconds since 1970. Source: POSIX.1-2017, pax, "ustar Interchange Format".
std::string tar_header(const std::string& name, std::int64_t size, std::int64_t mtime_s);

/// The zero padding after a file's content, up to a multiple of 512 bytes.
std::string tar_padding(std::int64_t size);

/// The end of an archive: two zero blocks.
std::string tar_end();

/// Counts active downloads by client and by the id of the checkpoint or artifact. Thread-safe; copies
/// share the counts.
class Downloads {
 public:
  /// Lets the response hold a download slot of the request's token, or of its address without a token, until it is
  /// sent. A HEAD and a response without a file take no slot. Throws Problem 429 if all slots are taken.
  http::Response count(const http::Request& request, const std::string& id, http::Response response);
  /// Protects a checkpoint from deletion while the pointer is held, for other readers than downloads.
  std::shared_ptr<const void> hold(const std::string& id);
  bool in_use(const std::string& id) const;

  static constexpr int max_per_client = 4;

 private:
  std::shared_ptr<const void> begin(const http::Request& request, const std::string& id);

  struct State {
    std::mutex mutex;
    std::map<std::string, int> by_client, by_id;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace babelring::artifacts
