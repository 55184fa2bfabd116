#include "nmt/train/checkpointing/training_state.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/files.h"
#include "base/records/fields.h"
#include "nmt/checkpoint/quantized_weights.h"
#include "nmt/checkpoint/tensor_files.h"
#include "nmt/data/gssm/graph.h"

namespace babelring {

void read_weights(const TensorFiles& weights, Model& model, Backend& backend, const std::string& prefix) {
  require_finite(weights);
  for (const Parameter& parameter : model.parameters().all()) {
    const ConstTensor tensor = weights.tensor(prefix + parameter.name, parameter.shape);
    backend.upload(tensor.data, parameter.master);
    release_pages(tensor);
  }
  model.refresh_compute_copies(backend);
}

void read_trained_weights(const Checkpoint& checkpoint, Model& model, Backend& backend) {
  const std::string first = raw_weight_prefix + model.parameters().all().front().name;
  const bool has_moments =
      std::any_of(checkpoint.files.begin(), checkpoint.files.end(),
                  [](const CheckpointFile& file) { return file.name.starts_with(optimizer_tensors); });
  if (has_moments && checkpoint.optimizer().contains(first)) {
    return read_weights(checkpoint.optimizer(), model, backend, raw_weight_prefix);
  }
  read_weights(checkpoint.weights(), model, backend);
}

namespace {

/// The moment whose tensors begin with `prefix`, in the order of the flat arrays, with 0 in their padding.
std::vector<float> read_moment(const TensorFiles& moments, const std::string& prefix,
                               const ParameterStore& parameters) {
  std::vector<float> values(static_cast<std::size_t>(parameters.flat_size()));
  for (const Parameter& parameter : parameters.all()) {
    const ConstTensor tensor = moments.tensor(prefix + parameter.name, parameter.shape);
    std::copy_n(tensor.as<float>(), tensor.shape.elements(), values.begin() + parameter.offset);
  }
  return values;
}

}  // namespace

void load_moments(const Checkpoint* checkpoint, const ModelReplica& replica) {
  for (const auto& [moment, prefix] : {std::pair(&replica.adam.first_moment(), "m."),
                                       {&replica.adam.second_moment(), "v."},
                                       {replica.adam.average(), ""}}) {
    if (moment == nullptr) continue;
    std::vector<float> values;
    if (checkpoint != nullptr) {
      // The weights of a checkpoint are the average, which begins as the weights themselves.
      const bool of_average = moment == replica.adam.average();
      values =
          read_moment(of_average ? checkpoint->weights() : checkpoint->optimizer(), prefix, replica.model.parameters());
    }
    replica.sharding.write_moment(*moment, values);
  }
}

LoadedModel load_model(const std::filesystem::path& folder, Backend& backend, DType precision) {
  Checkpoint checkpoint = load_checkpoint(folder, Verify::model).value();
  const std::filesystem::path config_file = checkpoint.folder / "config.yaml";
  TrainConfig config = read_config(read_file(config_file), config_file.string(), {});
  std::optional<Vocabulary> vocabulary;
  if (config.task == Task::translation) vocabulary = Vocabulary::load(checkpoint.folder / "spm.model");
  const std::int64_t tokens = vocabulary ? vocabulary->size() : make_gssm_graph(config.gssm).vocabulary();
  const ParameterMemory memory{
      .weights = [&](std::size_t bytes) { return backend.allocate(bytes, MemoryPurpose::weights); }, .gradients = {}};
  std::unique_ptr<Model> model =
      make_model(config.model, tokens, static_cast<float>(config.optimizer.label_smoothing), memory, precision);
  if (precision == DType::int8) {
    read_quantized_weights(checkpoint, *model, backend);
  } else {
    read_weights(checkpoint.weights(), *model, backend);
  }
  return {.config = std::move(config),
          .vocabulary = std::move(vocabulary),
          .model = std::move(model),
          .checkpoint = std::move(checkpoint)};
}

namespace {

/// Parses the member data_order. States of older versions lack it and imply `pooled`.
DataOrder order_of(const std::string& name) {
  if (name != "shuffled" && name != "pooled") {
    fail("state.json: member 'data_order' is '{}', expected shuffled or pooled", name);
  }
  return name == "shuffled" ? DataOrder::shuffled : DataOrder::pooled;
}

json::object mix_json(const DataPosition& position) {
  json::array corpora;
  for (const CorpusPosition& corpus : position.corpora) {
    corpora.push_back(json::array{corpus.epoch, corpus.sentences, corpus.credit});
  }
  return {{"updates", position.updates}, {"target_tokens", position.target_tokens}, {"corpora", std::move(corpora)}};
}

void read_mix(const json::value& value, DataPosition& position) try {
  position.updates = value.at("updates").as_int64();
  position.target_tokens = value.at("target_tokens").as_int64();
  for (const json::value& corpus : value.at("corpora").as_array()) {
    position.corpora.push_back(
        {.epoch = corpus.at(0).as_int64(), .sentences = corpus.at(1).as_int64(), .credit = corpus.at(2).as_int64()});
  }
} catch (const std::exception&) {
  fail("state.json: member 'data_mix' is {}, expected updates, target_tokens and three integers of each of corpora",
       to_text(value));
}

}  // namespace

json::object to_json(const TrainingState& state) {
  json::object object;
  object["run"] = state.run;
  object["attempt"] = state.attempt;
  object["update"] = state.progress.update;
  object["epoch"] = state.progress.epoch;
  object["target_tokens"] = state.progress.target_tokens;
  object["data_order"] = state.data_order == DataOrder::shuffled ? "shuffled" : "pooled";
  if (state.position) {
    object["data_epoch"] = state.position->epoch;
    object["data_sentences"] = state.position->sentences;
    if (!state.position->corpora.empty()) object["data_mix"] = mix_json(*state.position);
  }
  object["adam_steps"] = state.adam_steps;
  object["ranks"] = state.ranks;
  object["threads"] = state.threads;
  object["libraries"] = to_json(state.libraries);
  object["elapsed_minutes"] = state.elapsed_minutes;
  if (std::isfinite(state.best_score)) object["best_score"] = state.best_score;
  if (std::isfinite(state.best_loss)) object["best_loss"] = state.best_loss;
  if (state.best_update > 0) object["best_update"] = state.best_update;
  if (!state.best_resamples.scores.empty()) {
    json::object resamples;
    FieldWriter field(resamples);
    visit_fields(state.best_resamples, field);
    object["best_resamples"] = std::move(resamples);
  }
  object["evaluations_since_best"] = state.evaluations_since_best;
  if (!state.scoring.empty()) object["scoring"] = state.scoring;
  object["rewinds"] = state.rewinds;
  object["corpus_digest"] = state.corpus_digest;
  if (state.source_lines) {
    object["source_lines"] =
        json::object{{"pieces", state.source_lines->pieces}, {"sentences", state.source_lines->sentences}};
  }
  return object;
}

TrainingState run_state_from_json(const json::object& object) {
  const auto member = [&](const char* name) -> const json::value& {
    const json::value* value = object.if_contains(name);
    if (value == nullptr) fail("state.json: member '{}' is missing", name);
    return *value;
  };
  const auto integer = [&](const char* name) {
    const json::value& value = member(name);
    if (!value.is_int64()) fail("state.json: member '{}' is {}, expected an integer", name, to_text(value));
    return value.get_int64();
  };
  const auto number = [&](const char* name) {
    const json::value& value = member(name);
    if (!value.is_number()) fail("state.json: member '{}' is {}, expected a number", name, to_text(value));
    return value.to_number<double>();
  };
  const auto text = [&](const char* name) {
    const json::value& value = member(name);
    if (!value.is_string()) fail("state.json: member '{}' is {}, expected a string", name, to_text(value));
    return std::string(value.get_string());
  };
  TrainingState state{
      .run = text("run"),
      .attempt = integer("attempt"),
      .progress = {.update = integer("update"), .epoch = number("epoch"), .target_tokens = integer("target_tokens")},
      .data_order = object.contains("data_order") ? order_of(text("data_order")) : DataOrder::pooled,
      .position = std::nullopt,
      .adam_steps = integer("adam_steps"),
      .ranks = object.contains("ranks") ? integer("ranks") : 0,
      .threads = object.contains("threads") ? integer("threads") : 0,
      .libraries =
          object.contains("libraries") ? library_versions_from_json(object.at("libraries")) : LibraryVersions(),
      .elapsed_minutes = number("elapsed_minutes"),
      .evaluations_since_best = integer("evaluations_since_best"),
      .corpus_digest = text("corpus_digest")};
  if (object.contains("data_epoch")) {
    state.position = {.epoch = integer("data_epoch"), .sentences = integer("data_sentences")};
    if (object.contains("data_mix")) read_mix(object.at("data_mix"), *state.position);
  }
  if (object.contains("rewinds")) state.rewinds = integer("rewinds");  // missing in older checkpoints
  if (object.contains("best_score")) state.best_score = number("best_score");
  if (object.contains("best_loss")) state.best_loss = number("best_loss");
  if (object.contains("best_update")) state.best_update = integer("best_update");
  if (const json::value* resamples = object.if_contains("best_resamples")) {
    if (!resamples->is_object()) fail("state.json: member 'best_resamples' is not an object");
    UnknownMembers unknown;
    FieldReader field(resamples->get_object(), "best_resamples.", &unknown);
    visit_fields(state.best_resamples, field);
    if (!field.finish().empty()) fail("state.json: {}", field.error());
  }
  if (const json::value* scoring = object.if_contains("scoring")) {
    if (!scoring->is_object()) fail("state.json: member 'scoring' is {}, expected an object", to_text(*scoring));
    state.scoring = scoring->get_object();
  }
  state.source_lines = source_lines_of(object);
  return state;
}

std::optional<LineSize> source_lines_of(const json::object& state) {
  const json::value* lines = state.if_contains("source_lines");
  if (lines == nullptr) return std::nullopt;
  const auto positive = [&](const char* name) {
    const json::value* value = lines->is_object() ? lines->get_object().if_contains(name) : nullptr;
    if (value == nullptr || !value->is_int64() || value->get_int64() < 1) {
      fail("state.json: member 'source_lines' is {}, expected positive integers pieces and sentences", to_text(*lines));
    }
    return value->get_int64();
  };
  return LineSize{.pieces = positive("pieces"), .sentences = positive("sentences")};
}

}  // namespace babelring
