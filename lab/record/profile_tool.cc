#include "lab/record/profile_tool.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "insight/predict/fits.h"
#include "lab/record/record_run.h"
#include "nmt/core/machine.h"

namespace babelring {

namespace {

constexpr double profile_bucket_mb = 1;  // finer than those of runs, which are made from these

}  // namespace

OpObserver* ProfileTool::begin(const UpdateStart& start) {
  reached_ = start.update;
  const ProfileConfig& profile = config_.lab.profile;
  observes_ = start.update >= profile.start && start.update < profile.start + profile.updates;
  if (!observes_) return nullptr;
  replica_ = &start.replica;
  return recorder_.begin(start);
}

void ProfileTool::end(const StepRecord& record) {
  if (!observes_) return;
  recorder_.end(record);
  last_update_ = record.update;
  if (record.update == config_.lab.profile.start + config_.lab.profile.updates - 1) write();
}

void ProfileTool::finish() {
  write();
  if (reached_ > 0 && reached_ < config_.lab.profile.start) {
    spdlog::warn("lab.profile.start: no profile is written: training ended after update {}, before update {}", reached_,
                 config_.lab.profile.start);
  }
}

void ProfileTool::write() {
  if (written_ || recorder_.updates().empty()) return;
  written_ = true;
  std::vector<double> tokens;
  for (const RecordedUpdate& update : recorder_.updates()) tokens.push_back(update.target_tokens);
  const double size = insight::quantiles_of(std::move(tokens)).median;
  insight::RankRecord record =
      rank_record_of({{size, recorder_.updates()}}, 0, recorder_.parameter_counts(), profile_bucket_mb);
  describe_origin(record, config_, replica_->backend);
  record.threads = threads_;
  record.neighbours = replica_->communicator.local_size() - 1;
  record.processors = own_processors().count();
  const json::object content = insight::to_json(record);
  folder_->write({.kind = "profile",
                  .name = fmt::format("profile-update-{:08}.json", last_update_),
                  .update = last_update_,
                  .content = content},
                 to_text(content) + '\n');
}

}  // namespace babelring
