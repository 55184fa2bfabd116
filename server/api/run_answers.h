#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "server/http/message.h"
#include "server/store/rows.h"
#include "server/verdict/health.h"

namespace babelring::api {

/// A run as GET answers it, all but what the passing of time alone changes: its age, which is the last member.
struct RunText {
  std::uint64_t revision = 0;  // of the store, when it was read
  std::string before_age;      // the age and a brace follow
  std::string tag;             // the entity tag's beginning: STATE-DIGEST
  std::int64_t updated_ms = 0;
  std::int64_t holds_until_ms = 0;  // then the run is stale, which the text does not say
};

/// `revision` is the store's from before the run was read.
RunText run_text(const store::RunRow& run, const verdict::Health& health, std::uint64_t revision, std::int64_t now_ms);

/// The answer to a GET of that run now: 200 or 304.
http::Response run_answer(const http::Request& request, const RunText& text, std::int64_t now_ms);

/// The texts of runs that were asked for lately. Each holds until the next commit, whatever that is about, so it need
/// not be known what a run's text is made of. Thread-safe.
class RunTexts {
 public:
  /// Null where there is none of that run and revision that holds now.
  std::shared_ptr<const RunText> find(const std::string& run, std::uint64_t revision, std::int64_t now_ms) const;
  /// Keeps it, unless it is longer than most_bytes.
  void keep(const std::string& run, RunText text);

  static constexpr std::size_t most_texts = 256, most_bytes = std::size_t{64} << 10;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const RunText>> texts_;
};

}  // namespace babelring::api
