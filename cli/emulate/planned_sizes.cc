#include "cli/emulate/planned_sizes.h"

#include <algorithm>
#include <cmath>

#include "nmt/data/batch_plan.h"
#include "nmt/data/manifest.h"

namespace babelring {

PlannedSizes plan_sizes(const std::string& folder, double tokens, int ranks, int accumulate, std::int64_t updates) {
  const Corpus corpus = Corpus::open(load_manifest(folder), "train");
  const auto per_update = static_cast<std::int64_t>(std::llround(tokens * ranks * accumulate));
  const BatchPlan plan(corpus, PlanOptions{.tokens_per_update = per_update});
  PlannedSizes planned{.updates_per_epoch = plan.updates_per_epoch()};
  DataPosition position;
  for (std::int64_t i = 0; i < std::min(updates, planned.updates_per_epoch); ++i) {
    const UpdatePlan update = plan(position);
    insight::UpdateSizes sizes;
    for (int rank = 0; rank < ranks; ++rank) {
      std::int64_t sum = 0;
      for (const BatchSlice& part : slice(corpus, update, rank, ranks, accumulate)) sum += part.target_tokens;
      sizes.push_back(static_cast<double>(sum) / accumulate);
    }
    planned.sizes.push_back(std::move(sizes));
    position = update.next;
  }
  return planned;
}

}  // namespace babelring
