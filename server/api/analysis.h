#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "server/store/runs.h"

namespace babelring::insight {
struct WhatIfRun;
}

namespace babelring::api {

/// The runs that What if was last asked about, since every move of a slider asks again, and reading the steps of many
/// ranks takes longer than predicting from them. Thread-safe.
class WhatIfRuns {
 public:
  using Read = std::function<insight::WhatIfRun()>;

  /// Reads the run, unless that was done less than 10 s ago and it has reported nothing since, or less than 20 times as
  /// long ago as reading took: a running run reports all the time. `read` may throw; nothing is kept then.
  std::shared_ptr<const insight::WhatIfRun> get(const store::RunRow& run, const Read& read);

 private:
  struct Entry {
    std::string run;
    std::int64_t attempt = 0, updated_ms = 0;
    SteadyClock::time_point read_at;
    SteadyClock::duration took{};
    std::shared_ptr<const insight::WhatIfRun> content;
    bool is_fresh(const store::RunRow& now) const;
  };
  static constexpr std::size_t max_entries = 8;  // of up to 4,096 steps of each rank

  std::mutex mutex_;
  std::list<Entry> entries_;  // the newest first
};

}  // namespace babelring::api
