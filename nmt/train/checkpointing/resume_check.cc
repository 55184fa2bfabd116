#include "nmt/train/checkpointing/resume_check.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "base/files.h"
#include "nmt/checkpoint/store.h"
#include "nmt/comm/rank_results.h"
#include "nmt/train/checkpointing/training_state.h"
#include "nmt/train/evaluation/validator.h"

namespace babelring {
namespace {

/// Where the rows of a run's tables and output bias are in those of a checkpoint with another vocabulary: those of a
/// piece with the same text.
class TableRows {
 public:
  static constexpr std::int32_t absent = -1;

  TableRows(const Vocabulary& old, const Vocabulary& vocabulary) : old_size_(old.size()) {
    std::unordered_map<std::string, std::int32_t> ids;
    for (std::int32_t id = 0; id < old.size(); ++id) ids.emplace(old.piece(id), id);
    for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
      const auto found = ids.find(vocabulary.piece(id));
      rows_.push_back(found == ids.end() ? absent : found->second);
    }
  }

  std::int64_t old_size() const { return old_size_; }
  std::int64_t taken() const { return std::ssize(rows_) - std::count(rows_.begin(), rows_.end(), absent); }
  std::int64_t fresh() const { return std::ssize(rows_) - taken(); }
  std::int64_t dropped() const { return old_size_ - taken(); }

  /// Puts the rows of `old`, [old vocabulary, width] or [old vocabulary], where they belong in `table`, [vocabulary,
  /// width] or [vocabulary].
  void copy(const ConstTensor& old, std::vector<float>& table) const {
    const std::int64_t width = old.shape.rank() == 2 ? old.columns() : 1;
    for (std::int64_t row = 0; row < std::ssize(rows_); ++row) {
      const std::int32_t from = rows_[static_cast<std::size_t>(row)];
      if (from != absent) std::copy_n(old.as<float>() + from * width, width, table.begin() + row * width);
    }
  }

 private:
  std::int64_t old_size_;
  std::vector<std::int32_t> rows_;  // by id of the run's vocabulary
};

/// True if the weights are those of the parameters but for the number of pieces.
bool weights_fit_but_tables(const TensorFiles& weights, const ParameterStore& parameters, const TableRows& rows) {
  return weights.names().size() == parameters.all().size() &&
         std::all_of(parameters.all().begin(), parameters.all().end(), [&](const Parameter& parameter) {
           if (!weights.contains(parameter.name)) return false;
           Shape expected = parameter.shape;
           if (has_row_per_piece(parameter)) {
             expected = expected.rank() == 2 ? Shape{rows.old_size(), expected[1]} : Shape{rows.old_size()};
           }
           return weights.tensor(parameter.name).shape == expected;
         });
}

/// Rows that the checkpoint lacks get their initial values anew: ranks that divide the masters have dropped some.
void read_weights_by_piece(const TensorFiles& weights, const TableRows& rows, std::uint64_t seed, Model& model,
                           Backend& backend) {
  require_finite(weights);
  for (const Parameter& parameter : model.parameters().all()) {
    const ConstTensor stored = weights.tensor(parameter.name);
    if (has_row_per_piece(parameter)) {
      std::vector<float> table = initial_values(parameter, seed);
      rows.copy(stored, table);
      backend.upload(table.data(), parameter.master);
    } else {
      backend.upload(stored.data, parameter.master);
    }
  }
  model.refresh_compute_copies(backend);
}

/// The rows of a checkpoint that has another vocabulary than the run; none if it has the same, or the run has none.
std::optional<TableRows> other_rows(const Checkpoint& checkpoint, const Vocabulary* vocabulary) {
  if (vocabulary == nullptr || vocabulary_digest(checkpoint) == vocabulary->digest()) return std::nullopt;
  return TableRows(Vocabulary::load(checkpoint.folder / "spm.model"), *vocabulary);
}

void say_rows(const TableRows& rows, const Checkpoint& checkpoint) {
  constexpr const char* text =
      "training.start_from: another vocabulary: {} pieces have their rows from the checkpoint, {} begin with initial "
      "values, {} of the checkpoint's are dropped";
  if (rows.taken() >= rows.fresh()) return spdlog::info(text, rows.taken(), rows.fresh(), rows.dropped());
  spdlog::warn(fmt::runtime(std::string(text) + "; `nmt prepare --vocabulary {}` keeps all"), rows.taken(),
               rows.fresh(), rows.dropped(), (checkpoint.folder / "spm.model").string());
}

/// Lists the model keys that differ. Ignores dropout rates and initial weights, which affect only training.
std::string model_differences(ModelConfig before, ModelConfig after) {
  OptionBinder old_keys, new_keys;
  before.bind(old_keys);
  after.bind(new_keys);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < new_keys.fields().size(); ++i) {
    const std::string then = old_keys.fields()[i].get(), now = new_keys.fields()[i].get();
    const std::string& key = new_keys.fields()[i].key;
    if (key.ends_with("dropout") || key == "initialization") continue;
    if (then != now) lines.push_back(fmt::format("model.{} {} → {}", key, then, now));
  }
  return fmt::format("{}", fmt::join(lines, ", "));
}

}  // namespace

void start_from_checkpoint(const TrainConfig& config, const Vocabulary* vocabulary, Model& model,
                           const ParameterSharding& sharding, Backend& backend, Communicator& communicator) {
  run_on_rank_0(communicator, [&] {
    const Result<Checkpoint> loaded = find_and_load_checkpoint(config.training.start_from, Verify::model);
    if (!loaded.ok()) throw UsageFailure("training.start_from: " + loaded.error());
    const std::filesystem::path& folder = loaded->folder;
    const Checkpoint& checkpoint = *loaded;
    const std::optional<TableRows> rows = other_rows(checkpoint, vocabulary);
    const TensorFiles weights = checkpoint.weights();
    const std::filesystem::path file = checkpoint.folder / "config.yaml";
    const TrainConfig stored = read_stored_config(read_file(file), file.string());
    const std::string differences = model_differences(stored.model, config.model);
    const bool fit =
        rows ? weights_fit_but_tables(weights, model.parameters(), *rows) : weights_fit(weights, model.parameters());
    if (!differences.empty() || !fit) {
      throw UsageFailure(fmt::format("training.start_from: the weights of {} do not fit this model: {}",
                                     folder.string(), differences));
    }
    if (rows) {
      read_weights_by_piece(weights, *rows, static_cast<std::uint64_t>(config.training.seed), model, backend);
      say_rows(*rows, checkpoint);
    } else {
      read_weights(weights, model, backend);
    }
    spdlog::info("training.start_from: starting from the weights of {}, update {}", folder.string(), checkpoint.update);
  });
  sharding.broadcast(model.parameters().masters());
  sharding.write([&] { model.refresh_compute_copies(backend); });
  sharding.drop_other_masters(model.parameters());
}

namespace {

/// Formats "data.tokens_per_update 2048 → 512".
std::string change(const std::string& name, const std::string& before, const std::string& after) {
  return fmt::format("{} {} → {}", name, before.empty() ? "(empty)" : before, after.empty() ? "(empty)" : after);
}

/// Differences between checkpoint and run, one line each.
struct Changes {
  std::vector<std::string> all;
  std::vector<std::string> order;  // the subset that changes which sentences an update contains
  std::vector<std::string> model;  // the subset that changes the model

  void compare_keys(TrainConfig before, TrainConfig after, DataOrder data_order);
  /// `generated`: the run makes its data on the fly.
  void compare_states(const TrainingState& before, const TrainingState& after, bool generated);
};

void Changes::compare_keys(TrainConfig before, TrainConfig after, DataOrder data_order) {
  OptionBinder old_keys, new_keys;
  before.bind(old_keys);
  after.bind(new_keys);
  const bool mixes = after.data.has_mix(), mixed = before.data.has_mix();
  for (std::size_t i = 0; i < new_keys.fields().size(); ++i) {
    const std::string& key = new_keys.fields()[i].key;
    const std::string then = old_keys.fields()[i].get(), now = new_keys.fields()[i].get();
    if (then == now || key.starts_with("lab.")) continue;  // the lab's tools change no bits
    all.push_back(change(key, then, now));
    const bool cuts = key == "data.tokens_per_update" && data_order == DataOrder::pooled;
    const bool begins_to_mix = key.starts_with("data.mix") && mixes != mixed;  // other weights go on where it was
    if (key == "training.seed" || (key == "data.max_length" && after.task == Task::translation) || cuts ||
        begins_to_mix) {
      order.push_back(all.back());
    }
    if (key.starts_with("model.")) model.push_back(all.back());
  }
}

void Changes::compare_states(const TrainingState& before, const TrainingState& after, bool generated) {
  if (before.corpus_digest != after.corpus_digest) {
    const char* name = generated ? "gssm: generator and length" : "data.folder: corpus";
    all.push_back(change(name, before.corpus_digest.substr(0, 12), after.corpus_digest.substr(0, 12)));
    order.push_back(all.back());
  }
  const auto compare = [&](const char* name, std::int64_t then, std::int64_t now) {
    if (then != 0 && then != now) all.push_back(change(name, std::to_string(then), std::to_string(now)));
  };
  compare("ranks", before.ranks, after.ranks);
  compare("threads per rank", before.threads, after.threads);
}

/// Drops the checkpoint's best score and its patience if its scores mean something else than this run's.
void compare_scoring(json::object& checkpoint_state, const TrainingState& stored, const TrainConfig& before,
                     const TrainingState& now) {
  if (now.scoring.empty() || !std::isfinite(stored.best_score)) return;
  json::object then = stored.scoring, own = now.scoring;
  if (then.empty()) {  // of a version that stored no scoring, and had no other tokenizer
    then = scoring_options(before, Tokenizer::thirteen_a);
    own.erase("digest");
    own.erase("sequences");
  }
  std::vector<std::string> changes;
  const auto text = [](const json::object& scoring, std::string_view member) {
    const json::value* value = scoring.if_contains(member);
    return value != nullptr && value->is_string() ? std::string(value->get_string()).substr(0, 12) : "";
  };
  for (const auto& [member, value] : own) {
    const std::string name = member == "digest" ? "validation set" : std::string(member);
    if (!then.contains(member) || then.at(member) != value) {
      changes.push_back(change(name, text(then, member), text(own, member)));
    }
  }
  if (changes.empty()) return;
  spdlog::info(
      "the checkpoint's scores mean something else ({}): the best evaluation and validation.patience begin anew",
      fmt::join(changes, ", "));
  for (const char* member : {"best_score", "best_loss", "best_update", "best_resamples"})
    checkpoint_state.erase(member);
  checkpoint_state["evaluations_since_best"] = 0;
}

}  // namespace

std::string vocabulary_digest(const Checkpoint& checkpoint) {
  const auto file = std::find_if(checkpoint.files.begin(), checkpoint.files.end(),
                                 [](const CheckpointFile& each) { return each.name == "spm.model"; });
  return file != checkpoint.files.end() ? file->sha256 : "";
}

bool weights_fit(const TensorFiles& weights, const ParameterStore& parameters) {
  return weights.names().size() == parameters.all().size() &&
         std::all_of(parameters.all().begin(), parameters.all().end(), [&](const Parameter& parameter) {
           return weights.contains(parameter.name) && weights.tensor(parameter.name).shape == parameter.shape;
         });
}

std::string other_onednn(const TrainingState& stored, const TrainingState& state) {
  const std::string &then = stored.libraries.onednn, &now = state.libraries.onednn;
  if (then.empty() || now.empty() || then == now) return "";
  return fmt::format(
      "the checkpoint was written with oneDNN {}, this attempt has {}: bf16 results may differ in their last bits from "
      "those of an unbroken run, f32 results do not",
      then, now);
}

void check_resume(Checkpoint& checkpoint, const TrainConfig& config, const TrainingState& state,
                  const ParameterStore& parameters, const std::string& vocabulary, bool accept_changes) {
  const std::filesystem::path file = checkpoint.folder / "config.yaml";
  const TrainingState stored = run_state_from_json(checkpoint.state);
  Changes changes;
  const TrainConfig before = read_stored_config(read_file(file), file.string());
  changes.compare_keys(before, config, stored.data_order);
  changes.compare_states(stored, state, config.on_the_fly());
  for (const std::string& line : changes.all) spdlog::info("differs from the checkpoint: {}", line);

  compare_scoring(checkpoint.state, stored, before, state);

  const std::string name = checkpoint.folder.filename().string();
  if (!changes.model.empty() && !weights_fit(checkpoint.weights(), parameters)) {
    throw UsageFailure(fmt::format("resume: the weights of {} do not fit: {}; use its model or a new run folder", name,
                                   fmt::join(changes.model, ", ")));
  }
  const std::string trained_vocabulary = vocabulary_digest(checkpoint);
  if (!vocabulary.empty() && !trained_vocabulary.empty() && trained_vocabulary != vocabulary) {
    throw UsageFailure(fmt::format(
        "resume: the vocabulary of {} is {:.12}, the vocabulary of data.folder {} is {:.12}; to train on other data, "
        "start a new run with training.start_from on data prepared by `nmt prepare --vocabulary {}`",
        name, trained_vocabulary, config.data.folder, vocabulary, checkpoint.folder.string()));
  }
  if (!accept_changes && !(changes.model.empty() && changes.order.empty())) {
    std::vector<std::string> refused = changes.model;
    refused.insert(refused.end(), changes.order.begin(), changes.order.end());
    const bool other_corpus = stored.corpus_digest != state.corpus_digest;
    throw UsageFailure(fmt::format(
        "resume from {}: {} would change the model or the data order; use the checkpoint's values, or continue anyway "
        "with --accept-changes{}",
        name, fmt::join(refused, ", "),
        other_corpus ? ", or start a new run from its weights with training.start_from" : ""));
  }
  if (changes.order.empty()) return;
  checkpoint.state.erase("data_epoch");
  checkpoint.state.erase("data_sentences");
}

}  // namespace babelring
