#include "nmt/comm/rank_results.h"

#include <boost/json/object.hpp>

#include "base/log.h"

namespace babelring {

std::vector<Result<json::value>> gather_results(Communicator& communicator, const Result<json::value>& own) {
  const json::object message = own ? json::object{{"value", *own}} : json::object{{"error", printable(own.error())}};
  std::vector<Result<json::value>> results;
  for (const std::string& text : communicator.all_gather(to_text(message))) {
    json::value theirs = parse_json(text).value();
    json::object& object = theirs.as_object();
    if (const json::value* error = object.if_contains("error")) {
      results.emplace_back(Error{std::string(error->as_string())});
    } else {
      results.emplace_back(std::move(object.at("value")));
    }
  }
  return results;
}

Status first_error(const Communicator& communicator, const std::vector<Result<json::value>>& results) {
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    if (!results[rank]) {
      return Error{fmt::format("rank {} on {}: {}", rank, communicator.hosts()[rank], results[rank].error())};
    }
  }
  return {};
}

json::value value_of_rank_0(Communicator& communicator, const std::function<json::value()>& work) {
  Result<json::value> own = json::value();
  if (communicator.rank() == 0) {
    try {
      own = work();
    } catch (const UsageFailure& failure) {
      own = Error{failure.what()};
    }
  }
  Result<json::value> first = std::move(gather_results(communicator, own)[0]);
  if (!first) throw UsageFailure(first.error());
  return std::move(first).value();
}

void run_on_rank_0(Communicator& communicator, const std::function<void()>& work) {
  value_of_rank_0(communicator, [&work]() -> json::value {
    work();
    return nullptr;
  });
}

}  // namespace babelring
