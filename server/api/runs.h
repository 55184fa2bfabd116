#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/json.h"
#include "insight/verdict/health.h"
#include "server/http/message.h"
#include "server/store/runs.h"

namespace babelring::api {

/// The member `progress` of a run: the fraction done, the time left, and the condition that ends training.
json::object progress_item(const store::RunRow& run, bool stale);

/// The serialized response to a GET of a run without its age, the last member, which changes with time.
struct RunText {
  std::uint64_t revision = 0;  // the store's revision when the run was read
  std::string before_age;      // the text up to the age, which is followed by a closing brace
  std::string tag;             // first part of the ETag: STATE-DIGEST
  std::int64_t updated_ms = 0;
  std::int64_t holds_until_ms = 0;  // from this time on the run is stale, and the text is outdated
};

/// A cache of recently requested run texts. Any commit invalidates all of them, so no dependencies need tracking.
/// Thread-safe.
class RunTexts {
 public:
  /// The valid text of that run and revision; null if there is none.
  std::shared_ptr<const RunText> find(const std::string& run, std::uint64_t revision, std::int64_t now_ms) const;
  /// Caches the text unless it is longer than max_bytes.
  void keep(const std::string& run, RunText text);

  static constexpr std::size_t max_texts = 256, max_bytes = std::size_t{64} << 10;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const RunText>> texts_;
};

/// Makes the text of a run. `revision`: the store's, from before the run was read.
RunText run_text(const store::RunRow& run, const verdict::Health& health, std::uint64_t revision, std::int64_t now_ms);

/// The response to a GET of that run now: 200 or 304.
http::Response run_answer(const http::Request& request, const RunText& text, std::int64_t now_ms);

}  // namespace babelring::api
