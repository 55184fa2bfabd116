#include "lab/probe/probe_run.h"

#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <utility>

#include "base/result.h"
#include "lab/probe/run_probe.h"
#include "nmt/data/gssm/graph.h"
#include "nmt/data/sequence_source.h"
#include "nmt/data/vocabulary.h"
#include "nmt/model/device_batch.h"
#include "nmt/train/checkpointing/training_state.h"
#include "nmt/train/setup/task_data.h"
#include "nmt/train/update/update_runner.h"

namespace babelring {

namespace {

constexpr std::uint64_t batch_seed = 20261123;  // not the configuration's: another seed keeps the batch

PackedSequences random_side(std::int64_t sentences, std::int64_t tokens, std::int64_t vocabulary, std::uint64_t seed) {
  PackedSequences side;
  Random random(seed);
  const auto words = static_cast<std::uint64_t>(vocabulary - first_free_id);
  for (std::int64_t sentence = 0; sentence < sentences; ++sentence) {
    for (std::int64_t i = 1; i < tokens; ++i) {
      side.ids.push_back(first_free_id + static_cast<std::int32_t>(random.below(words)));
    }
    side.ids.push_back(eos_id);
    side.offsets.push_back(static_cast<std::int32_t>(side.ids.size()));
  }
  return side;
}

/// Shifts targets to the decoder's input: <s> first, without </s>.
PackedSequences shifted(const PackedSequences& target) {
  PackedSequences input = target;
  for (std::size_t i = 0; i + 1 < input.offsets.size(); ++i) {
    const auto begin = input.ids.begin() + input.offsets[i], end = input.ids.begin() + input.offsets[i + 1];
    std::copy_backward(begin, end - 1, end);
    *begin = bos_id;
  }
  return input;
}

UpdateBatches random_pairs(const RandomBatch& shape, std::int64_t vocabulary, std::int64_t update) {
  const auto number = static_cast<std::uint64_t>(update);
  PackedBatch batch;
  batch.source = random_side(shape.sentences, shape.source_tokens, vocabulary, derive_seed(batch_seed, number, 0));
  const PackedSequences target =
      random_side(shape.sentences, shape.target_tokens, vocabulary, derive_seed(batch_seed, number, 1));
  batch.target_in = shifted(target);
  batch.target_out = target.ids;
  UpdateBatches batches{.update = update,
                        .global_sentences = shape.sentences,
                        .global_source_tokens = batch.source.tokens(),
                        .global_target_tokens = target.tokens(),
                        .sentences = shape.sentences,
                        .source_tokens = batch.source.tokens(),
                        .target_tokens = target.tokens()};
  batches.micro_batches.push_back(std::move(batch));
  return batches;
}

/// For a language model: random tokens, whose number of targets is shape.target_tokens.
UpdateBatches random_sequences(const RandomBatch& shape, std::int64_t vocabulary, std::int64_t update) {
  const SequenceUpdate size{.update = update, .sequences = shape.sentences, .length = shape.target_tokens + 1};
  return make_sequence_batches(size, {}, [&](std::int64_t sequence, std::span<std::int32_t> tokens) {
    Random random(derive_seed(batch_seed, static_cast<std::uint64_t>(update), static_cast<std::uint64_t>(sequence)));
    for (std::int32_t& token : tokens) {
      token = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary)));
    }
  });
}

/// The model, its data and the position of the next update.
class ProbedTraining {
 public:
  ProbedTraining(const ProbePlan& plan, Backend& backend)
      : plan_(plan), config_(plan.random ? plan.config : with_generator_of_folder(plan.config)), backend_(backend) {
    if (!plan.checkpoint.empty()) checkpoint_ = load_checkpoint(plan.checkpoint).value();
    if (!plan.random) open_data();
    replica_ = std::make_unique<ModelReplica>(config_, vocabulary(), backend, *communicator_);
    replica_->initialize(static_cast<std::uint64_t>(config_.training.seed));
    progress_.update = plan.first_update - 1;
    if (checkpoint_)
      restore();
    else if (data_)
      skip(progress_.update);
    updates_ = std::make_unique<UpdateRunner>(config_, *replica_);
    pipeline_ = make_pipeline();
  }

  ModelReplica& replica() { return *replica_; }
  const TrainConfig& config() const { return config_; }
  std::string data_digest() const { return data_ ? data_->source->digest() : ""; }
  std::int64_t next_update() const { return progress_.update + 1; }

  void train() { progress_ = updates_->run(*pipeline_, progress_, {}, 1).progress; }
  void infer() {
    const UpdateBatches batches = pipeline_->next();
    for (const PackedBatch& batch : batches.micro_batches) {
      const WorkRange micro_batch(backend_, "micro_batch");
      const WorkRange forward(backend_, "forward");
      Context context = replica_->arenas.begin(replica_->model.compute_dtype());
      const DeviceBatch on_device(backend_, context.saved, batch);
      static_cast<void>(replica_->model.evaluate(context, on_device));
    }
    ++progress_.update;
  }

 private:
  void open_data() {
    TrainConfig config = config_;
    config.data.valid_set.clear();  // nothing is validated
    data_ = open_task_data(config);
  }
  std::int64_t vocabulary() const {
    if (data_) return data_->model_vocabulary;
    if (!config_.gssm.nodes.empty()) return make_gssm_graph(config_.gssm).vocabulary();
    return checkpoint_ ? Vocabulary::load(checkpoint_->folder / "spm.model").size() : probe_vocabulary;
  }
  void restore() {
    const TrainingState state = run_state_from_json(checkpoint_->state);
    read_trained_weights(*checkpoint_, replica_->model, backend_);
    load_moments(&*checkpoint_, *replica_);
    replica_->adam.set_steps(state.adam_steps);
    progress_ = state.progress;
    if (data_) position_ = data_->source->resume(state.data_order, state.position, progress_.epoch);
  }
  void skip(std::int64_t updates) {
    for (std::int64_t i = 0; i < updates; ++i) position_ = data_->source->after(position_);
  }
  std::unique_ptr<BatchPipeline> make_pipeline() const {
    if (!data_) {
      const RandomBatch shape = *plan_.random;
      const auto make = [shape, task = config_.task, words = replica_->model.vocabulary()](std::int64_t update) {
        return task == Task::gssm ? random_sequences(shape, words, update) : random_pairs(shape, words, update);
      };
      return std::make_unique<BatchPipeline>(make, next_update(), 1);
    }
    const std::int64_t limit = std::max<std::int64_t>(0, config_.data.micro_batch_tokens);
    return std::make_unique<BatchPipeline>(*data_->source,
                                           PipelineOptions{.part = rank_part(config_, *communicator_, limit),
                                                           .start = position_,
                                                           .first_update = next_update(),
                                                           .prefetch = 1});
  }

  const ProbePlan& plan_;
  const TrainConfig config_;
  Backend& backend_;
  std::unique_ptr<Communicator> communicator_ = make_single_communicator();
  std::optional<Checkpoint> checkpoint_;
  std::optional<TaskData> data_;  // nullopt: random batches
  std::unique_ptr<ModelReplica> replica_;
  Progress progress_;
  DataPosition position_;
  std::unique_ptr<UpdateRunner> updates_;
  std::unique_ptr<BatchPipeline> pipeline_;
};

}  // namespace

Result<RandomBatch> RandomBatch::parse(std::string_view text) {
  RandomBatch batch;
  constexpr std::string_view prefix = "random:";
  const Error wrong{
      fmt::format("expected corpus or random:SENTENCESxSOURCE/TARGET such as random:64x32/32, found '{}'", text)};
  if (!text.starts_with(prefix)) return wrong;
  const char* at = text.data() + prefix.size();
  const char* const end = text.data() + text.size();
  const auto read = [&](std::int64_t& number, char separator) {
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 1 || number > 100'000) return false;
    at = next;
    if (separator == '\0') return at == end;
    if (at == end || *at != separator) return false;
    ++at;
    return true;
  };
  if (!read(batch.sentences, 'x') || !read(batch.source_tokens, '/') || !read(batch.target_tokens, '\0')) return wrong;
  return batch;
}

void run_updates(const ProbePlan& plan, Backend& backend) {
  ProbedTraining training(plan, backend);
  for (std::int64_t i = 0; i < plan.updates; ++i) plan.training ? training.train() : training.infer();
}

void save_probe(const ProbePlan& plan, Backend& backend, std::int64_t threads, const std::filesystem::path& file) {
  ProbedTraining training(plan, backend);
  ProbeHeader header = probe_header(training.config(), training.replica());
  header.mode = plan.training ? "training" : "inference";
  header.first_update = training.next_update();
  header.updates = plan.updates;
  header.corpus = training.data_digest();
  header.threads = threads;
  ProbeRecorder recorder(file, std::move(header), plan.options, training.replica());
  for (std::int64_t i = 0; i < plan.updates; ++i) {
    recorder.begin_update(training.next_update());
    backend.observe(&recorder);
    plan.training ? training.train() : training.infer();
    backend.observe(nullptr);
    recorder.end_update(plan.training);
  }
  recorder.finish();
}

}  // namespace babelring
