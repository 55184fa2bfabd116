#include "worker/rank_threads.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <boost/json/array.hpp>
#include <numeric>
#include <set>

#include "nmt/comm/rank_results.h"

namespace babelring {
namespace {

json::value to_json(const Processors& processors) {
  return {{"quota", processors.quota}, {"allowed", json::array(processors.allowed.begin(), processors.allowed.end())}};
}

Processors processors_from_json(const json::value& value) {
  Processors processors{.allowed = {}, .quota = value.at("quota").to_number<double>()};
  for (const json::value& number : value.at("allowed").as_array()) {
    processors.allowed.push_back(number.to_number<int>());
  }
  return processors;
}

/// The processors that the ranks of a host may use in total.
Processors united(const std::vector<Processors>& ranks) {
  std::set<int> numbers;
  for (const Processors& rank : ranks) numbers.insert(rank.allowed.begin(), rank.allowed.end());
  return {.allowed = {numbers.begin(), numbers.end()}, .quota = ranks.front().quota};
}

}  // namespace

HostThreads divide_processors(const std::vector<Processors>& ranks, int wanted, const std::string& host) {
  HostThreads threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.of_rank.push_back(wanted > 0 ? wanted : threads_of_rank(ranks, rank));
  }
  const int all = std::accumulate(threads.of_rank.begin(), threads.of_rank.end(), 0);
  const Processors processors = united(ranks);
  if (all <= processors.count()) return threads;
  const bool limited = processors.count() < static_cast<int>(processors.allowed.size());
  threads.warning =
      fmt::format("host {}: the run's {} rank{} {} {} threads, but may use {} processor{}{}: updates are slow; {}",
                  host, ranks.size(), ranks.size() == 1 ? "" : "s", ranks.size() == 1 ? "has" : "have", all,
                  processors.count(), processors.count() == 1 ? "" : "s",
                  limited ? fmt::format(" (a CPU quota of {:.1f})", processors.quota) : std::string(),
                  wanted > 1 ? "leave training.threads at 0" : "start fewer ranks on it");
  return threads;
}

int choose_threads(int wanted, Communicator& communicator) {
  const auto all = gather_results(communicator, to_json(own_processors()));
  const std::string& host = communicator.hosts()[static_cast<std::size_t>(communicator.rank())];
  std::vector<Processors> ranks;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (communicator.hosts()[rank] == host) ranks.push_back(processors_from_json(*all[rank]));
  }
  const HostThreads threads = divide_processors(ranks, wanted, host);
  if (!threads.warning.empty() && communicator.local_rank() == 0) spdlog::warn("{}", threads.warning);
  return threads.of_rank[static_cast<std::size_t>(communicator.local_rank())];
}

}  // namespace babelring
