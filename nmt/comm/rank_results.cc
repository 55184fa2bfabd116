#include "nmt/comm/rank_results.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <filesystem>

#include "base/log.h"
#include "base/records/run_marks.h"

namespace babelring {
namespace {

/// A rank's failure, as it is told to all ranks.
json::value failed(bool by_input, const char* error) {
  return {{"error", printable(error)}, {"by_input", by_input}};
}

/// "rank 1 on HOST: "; empty if there is one rank.
std::string rank_of_error(const Communicator& communicator, std::size_t rank) {
  return communicator.size() == 1 ? "" : fmt::format("rank {} on {}: ", rank, communicator.hosts()[rank]);
}

/// Throws the failure that a rank told, if it told one.
void throw_failure(const json::value& told, const std::string& rank) {
  const json::value* error = told.is_object() ? told.get_object().if_contains("error") : nullptr;
  if (error == nullptr) return;
  const std::string text = rank + std::string(error->as_string());
  if (told.at("by_input").as_bool()) throw UsageFailure(text);
  throw AgreedFailure(text);
}

}  // namespace

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
  json::value own;
  if (communicator.rank() == 0) {
    try {
      own = json::object{{"value", work()}};
    } catch (const UsageFailure& failure) {
      own = failed(true, failure.what());
    } catch (const Fenced&) {
      throw;
    } catch (const CommError&) {
      throw;
    } catch (const std::exception& failure) {
      own = failed(false, (rank_of_error(communicator, 0) + failure.what()).c_str());
    }
  }
  json::value first = std::move(gather_results(communicator, own)[0]).value();
  throw_failure(first, "");
  return std::move(first.at("value"));
}

void run_on_rank_0(Communicator& communicator, const std::function<void()>& work) {
  value_of_rank_0(communicator, [&work]() -> json::value {
    work();
    return nullptr;
  });
}

void run_on_every_rank(Communicator& communicator, const std::function<void()>& work) {
  json::value own;
  try {
    work();
  } catch (const CommError&) {
    throw;
  } catch (const Fenced& failure) {
    own = failed(false, failure.what());
  } catch (const Failure& failure) {
    own = failed(true, failure.what());
  } catch (const std::filesystem::filesystem_error& failure) {
    own = failed(true, failure.what());
  } catch (const std::exception& failure) {
    own = failed(false, failure.what());
  }
  const std::vector<Result<json::value>> all = gather_results(communicator, own);
  const bool same = std::ranges::all_of(all, [&](const auto& told) { return *told == *all[0]; });
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    throw_failure(*all[rank], same ? "" : rank_of_error(communicator, rank));
  }
}

}  // namespace babelring
