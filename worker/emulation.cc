#include "worker/emulation.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "base/failure.h"
#include "base/files.h"
#include "base/options/usage.h"
#include "base/result.h"
#include "lab/emulated_rank.h"
#include "lab/record/record_run.h"
#include "nmt/comm/rank_results.h"

namespace babelring {

namespace {

json::value read_record_json(const std::string& file) {
  if (const std::string error = existing_file(file); !error.empty()) {
    throw UsageFailure("lab.emulated.record: " + error);
  }
  Result<json::value> value = parse_json(read_file(file));
  if (!value) throw UsageFailure(fmt::format("{}: {}", file, value.error()));
  return std::move(value).value();
}

}  // namespace

std::unique_ptr<Backend> open_emulated_backend(const TrainConfig& config, std::int64_t vocabulary,
                                               Communicator& communicator) {
  const std::string& file = config.lab.emulated.record;
  const json::value shared = value_of_rank_0(communicator, [&file] { return read_record_json(file); });
  const Result<insight::RankRecord> record = insight::rank_record_from_json(shared);
  if (!record) throw UsageFailure(fmt::format("{}: {}", file, record.error()));
  const EmulatedTimes times = emulated_times(
      *record, file, recorded_model(config, count_parameters(config.model, vocabulary)), communicator.rank());
  if (communicator.rank() == 0) {
    const double size = static_cast<double>(config.data.tokens_per_update) / communicator.size();
    const std::string warning = config.task == Task::translation ? record->size_warning(size) : "";
    if (!warning.empty()) spdlog::warn("lab.emulated.record: {}", warning);
    if (record->quality != "good") spdlog::warn("lab.emulated.record is doubtful: {}", record->quality);
  }
  return make_emulated_backend(times, config.lab.emulated.balloon);
}

void fill_balloon(const ModelReplica& replica) {
  const ParameterStore& store = replica.model.parameters();
  for (const ConstTensor& tensor :
       {ConstTensor(store.masters()), ConstTensor(store.compute_copies()), ConstTensor(store.gradients()),
        ConstTensor(replica.adam.first_moment().values()), ConstTensor(replica.adam.second_moment().values()),
        replica.adam.average() != nullptr ? ConstTensor(replica.adam.average()->values()) : ConstTensor()}) {
    if (tensor) lock_memory(tensor.data, tensor.bytes());
  }
}

}  // namespace babelring
