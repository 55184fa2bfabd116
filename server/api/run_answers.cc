#include "server/api/run_answers.h"

#include <charconv>
#include <limits>
#include <utility>

#include "base/digest.h"
#include "server/api/conditional.h"
#include "server/api/control.h"
#include "server/api/responses.h"

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

RunText run_text(const store::RunRow& run, const verdict::Health& health, std::uint64_t revision, std::int64_t now_ms) {
  json::object item = run_item(run, health, now_ms);
  item["config"] = run.config;
  const std::string state =
      run_state_digest(item);  // before the members are reordered, as require_run_match() computes it
  // Move it to the end, where it can be replaced without a search: a label may also be named record_age_ms.
  item.erase("record_age_ms");
  item["record_age_ms"] = 0;
  const std::string text = to_text(item);
  const std::size_t age = text.rfind(':') + 1;
  RunText made;
  made.revision = revision;
  made.before_age = text.substr(0, age);
  made.tag = state + '-' + digest_of(made.before_age);
  made.updated_ms = run.updated_ms;
  const bool becomes_stale =
      run.state == store::RunState::running && now_ms - run.updated_ms <= verdict::stale_after_ms;
  made.holds_until_ms =
      becomes_stale ? run.updated_ms + verdict::stale_after_ms : std::numeric_limits<std::int64_t>::max();
  return made;
}

http::Response run_answer(const http::Request& request, const RunText& text, std::int64_t now_ms) {
  char digits[24];
  const std::string_view age(digits, std::to_chars(digits, digits + sizeof digits, now_ms - text.updated_ms).ptr);
  std::string body;
  body.reserve(text.before_age.size() + age.size() + 1);
  body.append(text.before_age).append(age).append("}");
  // The tag covers the age, so that no client keeps an outdated one.
  std::string etag;
  etag.reserve(text.tag.size() + age.size() + 3);
  etag.append("\"").append(text.tag).append("-").append(age).append("\"");
  return tagged_response(request, std::move(body), std::move(etag));
}

}  // namespace babelring::api
