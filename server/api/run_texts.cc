#include "server/api/run_texts.h"

#include <utility>

namespace babelring::api {

std::shared_ptr<const RunText> RunTexts::find(const std::string& run, std::uint64_t revision,
                                              std::int64_t now_ms) const {
  const std::lock_guard lock(mutex_);
  const auto found = texts_.find(run);
  if (found == texts_.end() || found->second->revision != revision || now_ms > found->second->holds_until_ms) {
    return nullptr;
  }
  return found->second;
}

void RunTexts::keep(const std::string& run, RunText text) {
  if (text.before_age.size() > max_bytes) return;
  auto held = std::make_shared<const RunText>(std::move(text));
  const std::lock_guard lock(mutex_);
  if (texts_.size() >= max_texts && !texts_.contains(run)) texts_.clear();
  texts_[run] = std::move(held);
}

}  // namespace babelring::api
