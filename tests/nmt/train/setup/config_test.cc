#include "nmt/train/setup/config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <tuple>

#include "base/files.h"
#include "nmt/data/gssm/graph.h"
#include "tests/nmt/data/gssm/graphs.h"

namespace babelring {
namespace {

std::string message_of(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  try {
    read_config(yaml, "test.yaml", overrides);
  } catch (const UsageFailure& failure) {
    return failure.what();
  }
  return "accepted";
}

TEST(LabConfig, AProbeBeginsAtAnUpdate) {
  const TrainConfig config =
      read_config("data: {folder: d}\n", "f", {"lab.probe.at=1000u", "lab.probe.tensors=decoder.*"});
  EXPECT_EQ(config.lab.probe.at.value(), 1000);
  EXPECT_EQ(config.lab.probe.updates, 1);
  EXPECT_EQ(config.lab.probe.tensors, "decoder.*");
  try {
    read_config("data: {folder: d}\n", "f", {"lab.probe.at=1e"});
    FAIL() << "not refused";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.detail, "lab.probe.at: expected a number of updates (1000u), found '1e'");
  }
}

TEST(TrainConfig, KeysOverrideThePreset) {
  const TrainConfig config = read_config("model:\n  dropout: 0.2\npreset: transformer-tiny\ndata:\n  folder: d\n",
                                         "test.yaml", {"model.heads=8", "training.max_minutes=3"});
  EXPECT_EQ(config.model.width, 128);
  EXPECT_EQ(config.model.encoder_layers, 4);
  EXPECT_EQ(config.model.dropout, 0.2);
  EXPECT_EQ(config.model.heads, 8);
  EXPECT_EQ(config.training.max_minutes, 3);
}

TEST(TrainConfig, MicroBatchTokensAcceptsAuto) {
  const TrainConfig config = read_config("data:\n  folder: d\n  micro_batch_tokens: auto\n", "test.yaml", {});
  EXPECT_EQ(config.data.micro_batch_tokens, DataConfig::automatic);
  EXPECT_EQ(read_config(config_yaml(config), "again.yaml", {}).data.micro_batch_tokens, DataConfig::automatic);
  EXPECT_EQ(message_of("data:\n  folder: d\n", {"data.micro_batch_tokens=some"}),
            "override data.micro_batch_tokens: expected an integer from 0 to 1099511627776 or auto, found 'some'");
}

TEST(TrainConfig, BucketMbAcceptsAuto) {
  const TrainConfig config = read_config("data:\n  folder: d\n", "test.yaml", {});
  EXPECT_EQ(config.communication.bucket_mb, CommConfig::automatic);
  EXPECT_EQ(read_config(config_yaml(config), "again.yaml", {}).communication.bucket_mb, CommConfig::automatic);
  EXPECT_EQ(read_config(config_yaml(config), "again.yaml", {"communication.bucket_mb=4"}).communication.bucket_mb, 4);
  EXPECT_EQ(message_of("data:\n  folder: d\n", {"communication.bucket_mb=0"}),
            "override communication.bucket_mb: expected a number from 0.001 to 4096 or auto, found '0'");
}

TEST(TrainConfig, EveryRecipeIsValid) {
  std::size_t recipes = 0;
  for (const auto& file : std::filesystem::directory_iterator(BABELRING_SOURCE_DIR "/configs")) {
    if (file.path().filename() == "gssm-sweep.yaml") continue;  // a grid of configurations
    const bool generates = file.path().filename().string().starts_with("gssm-");
    EXPECT_EQ(message_of(read_file(file.path()), {generates ? "task=gssm" : "data.folder=d"}), "accepted")
        << file.path();
    ++recipes;
  }
  EXPECT_GE(recipes, 4U);
}

/// A stored configuration of an older version lacks keys. Missing model.* keys come from the preset.
TEST(TrainConfig, MissingKeysOfAStoredConfigurationHaveDefaults) {
  const TrainConfig config = read_stored_config("preset: transformer-tiny\ntraining:\n  seed: 3\n", "stored.yaml");
  EXPECT_EQ(config.training.seed, 3);
  EXPECT_EQ(config.training.freeze, "");
  EXPECT_EQ(config.model.width, 128);
  EXPECT_EQ(config.data.folder, "");
}

TEST(TrainConfig, OverrideOfThePresetChangesTheModel) {
  const TrainConfig config = read_config("data:\n  folder: d\n", "test.yaml", {"preset=transformer-big"});
  EXPECT_EQ(config.model.width, 1024);
}

TEST(TrainConfig, ResolvedYamlRoundTrips) {
  const TrainConfig config = read_config("preset: transformer-tiny\ndata:\n  folder: \"a b: c\"\n", "test.yaml",
                                         {"optimizer.learning_rate=0.0012345678901234567", "name=no"});
  const std::string yaml = config_yaml(config);
  const TrainConfig again = read_config(yaml, "again.yaml", {});
  EXPECT_EQ(config_yaml(again), yaml);
  EXPECT_EQ(again.data.folder, "a b: c");
  EXPECT_EQ(again.name, "no");
  EXPECT_EQ(again.optimizer.schedule.learning_rate, config.optimizer.schedule.learning_rate);
}

TEST(TrainConfig, AnEmulatedRunHasNoProfile) {
  const std::string yaml = "data:\n  folder: d\ntraining:\n  device: emulated\nlab:\n  emulated:\n    record: r.json\n";
  EXPECT_EQ(message_of(yaml), "accepted");
  EXPECT_NE(message_of(yaml, {"lab.profile.start=3"})
                .find("lab.profile.start: 3, but training.device emulated measures no times; expected 0"),
            std::string::npos);
}

/// Every word and interval as an older version stored it, and as it was written.
TEST(TrainConfig, EnumsAndIntervalsRoundTripThroughTheStoredYaml) {
  const std::vector<std::vector<std::string>> of_key = {
      {"model.norm", "pre", "post"},
      {"model.activation", "relu", "swish", "gelu"},
      {"model.positions", "sinusoid", "marian"},
      {"model.decoder_start", "bos", "zero"},
      {"model.tied_embeddings", "all", "decoder", "none"},
      {"optimizer.schedule", "inverse-sqrt", "linear", "cosine", "constant"},
      {"training.precision", "bf16", "f32"},
      {"training.device", "auto", "cpu", "cuda"},
      {"communication.all_reduce", "auto", "shared_memory", "ring", "mpi", "nccl", "nccl_ring"},
      {"communication.gradient_wire", "f32", "bf16", "int8"},
      {"communication.optimizer", "auto", "replicated", "sharded"},
      {"optimizer.warm_up", "4000", "0u", "1.50kt"},
      {"optimizer.decay", "100000u", "2e"},
      {"training.stop_after", "20e", "500Mt", "7"},
      {"training.log_every", "50u", "0"},
      {"training.digest_every", "0u", "1e"},
      {"training.divergence.after", "20u", "0"},
      {"lab.trace.start", "20u", "7"},
      {"validation.every", "1e", "0.5e"},
      {"validation.bleu_every", "0", "2e"},
      {"checkpoint.every", "1e", "3Gt"}};
  for (const std::vector<std::string>& words : of_key) {
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string assignment = words[0] + "=" + words[i];
      const std::string yaml = config_yaml(read_config("data:\n  folder: d\n", "test.yaml", {assignment}));
      TrainConfig stored = read_stored_config(yaml, "stored.yaml");
      OptionBinder keys;
      stored.bind(keys);
      EXPECT_EQ(keys.find(words[0])->get(), words[i]) << assignment;
      EXPECT_EQ(config_yaml(stored), yaml) << assignment;
    }
    EXPECT_NE(message_of("data:\n  folder: d\n", {words[0] + "=wrong"}).find("override " + words[0] + ": expected "),
              std::string::npos)
        << words[0];
  }
}

TEST(TrainConfig, ErrorsOfChecksNameTheirKey) {
  const auto key_of = [](const std::vector<std::string>& overrides) {
    try {
      read_config("data: {folder: d}\n", "test.yaml", overrides);
    } catch (const ConfigError& error) {
      return error.key;
    }
    return std::string("accepted");
  };
  EXPECT_EQ(key_of({"data.folder="}), "data.folder");
  EXPECT_EQ(key_of({"model.heads=7"}), "model.heads");
  EXPECT_EQ(key_of({"model.encoder_layers=0"}), "model.encoder_layers");
  EXPECT_EQ(key_of({"training.divergence.after=2e"}), "training.divergence.after");
  for (const char* start : {"1e", "0u", "1.5u"}) {
    EXPECT_EQ(key_of({std::string("lab.trace.start=") + start}), "lab.trace.start") << start;
  }
  EXPECT_EQ(key_of({"training.r_drop=1", "model.dropout=0"}), "training.r_drop");
  EXPECT_EQ(key_of({"training.r_drop=1", "model.dropout=0", "training.layer_drop=0.1"}), "accepted");
  EXPECT_EQ(key_of({"training.layer_drop=0.1", "training.guided_alignment=0.1"}), "training.layer_drop");
  EXPECT_EQ(key_of({"training.r_drop=1", "training.guided_alignment=0.1"}), "accepted");
  EXPECT_EQ(key_of({"lab.parameters.window=2e"}), "lab.parameters.window");
  EXPECT_EQ(key_of({"lab.parameters.window=0.5u"}), "lab.parameters.window");
  EXPECT_EQ(key_of({"optimizer.schedule=linear", "optimizer.decay=2e"}), "optimizer.decay");
  EXPECT_EQ(key_of({"communication.all_reduce=mpi", "communication.gradient_wire=bf16"}),
            "communication.gradient_wire");
  for (const char* path : {"mpi", "nccl", "nccl_ring"}) {
    EXPECT_EQ(key_of({std::string("communication.all_reduce=") + path, "communication.gradient_wire=int8"}),
              "communication.gradient_wire")
        << path;
  }
  for (const char* path : {"auto", "ring", "two_level", "shared_memory"}) {
    EXPECT_EQ(key_of({std::string("communication.all_reduce=") + path, "communication.gradient_wire=int8"}),
              "accepted");
  }
}

TEST(TrainConfig, AShardedOptimizerRefusesWhatNeedsItsStateOnOneHost) {
  const auto message = [](const std::string& override) {
    return message_of("data:\n  folder: d\n", {"communication.optimizer=sharded", override});
  };
  for (const char* path : {"auto", "ring", "two_level", "shared_memory", "nccl", "nccl_ring"}) {
    EXPECT_EQ(message(std::string("communication.all_reduce=") + path), "accepted") << path;
  }
  EXPECT_EQ(
      message("communication.all_reduce=mpi"),
      "communication.optimizer: all_reduce mpi gives every rank all sums, so sharded saves nothing; use optimizer "
      "auto or all_reduce auto");
  EXPECT_EQ(message("lab.parameters.window=10u"),
            "communication.optimizer: sharded, but lab.parameters.window counts the rows of one host; use "
            "replicated");
  EXPECT_NE(message("lab.probe.at=3u").find("lab.probe.at records whole masters"), std::string::npos);
}

TEST(TrainConfig, UnitsRefuseWhatWouldChangeTheirSum) {
  const auto message = [](const std::string& override) {
    return message_of("data:\n  folder: d\n", {"training.reproducible=ranks", override});
  };
  EXPECT_NE(message("training.units=6").find("training.units: expected a power of two, found 6"), std::string::npos);
  for (const std::string key :
       {"communication.gradient_wire=bf16", "communication.gradient_wire=int8", "communication.all_reduce=mpi",
        "communication.all_reduce=nccl", "data.micro_batch_tokens=auto", "training.cuda_graphs=true"}) {
    const std::string refusal = message(key);
    EXPECT_NE(refusal.find(key.substr(0, key.find('='))), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("training.reproducible ranks needs"), std::string::npos) << refusal;
  }
  const TrainConfig config = read_config("data:\n  folder: d\n", "test.yaml", {"training.reproducible=ranks"});
  EXPECT_EQ(config.comm_options().order, AddOrder::tree);
  EXPECT_EQ(message("data.balance=measured"), message("data.balance=equal")) << "whole units move";
  for (const int ranks : {1, 2, 4, 8}) config.check_ranks(ranks);
  for (const int ranks : {3, 16}) EXPECT_THROW(config.check_ranks(ranks), UsageFailure) << ranks;
  const TrainConfig by_run = read_config("data:\n  folder: d\n", "test.yaml", {"training.units=6"});
  EXPECT_EQ(by_run.comm_options().order, AddOrder::any);
  by_run.check_ranks(3);
}

TEST(TrainConfig, CommunicationKeysReachTheCommunicator) {
  const auto options = [](const std::vector<std::string>& overrides) {
    return read_config("data:\n  folder: d\n", "test.yaml", overrides).communication.options();
  };
  EXPECT_EQ(options({}).algorithm, AllReduceAlgorithm::automatic);
  EXPECT_EQ(options({}).wire, GradientWire::f32);
  const CommOptions chosen = options({"communication.all_reduce=ring", "communication.gradient_wire=bf16"});
  EXPECT_EQ(chosen.algorithm, AllReduceAlgorithm::ring);
  EXPECT_EQ(chosen.wire, GradientWire::bf16);
  EXPECT_EQ(options({"communication.all_reduce=shared_memory"}).algorithm, AllReduceAlgorithm::shared_memory);
  EXPECT_EQ(options({"communication.all_reduce=two_level"}).algorithm, AllReduceAlgorithm::two_level);
  EXPECT_NE(message_of("data:\n  folder: d\n", {"communication.all_reduce=mpi", "communication.gradient_wire=bf16"})
                .find("communication.gradient_wire"),
            std::string::npos);
}

TEST(TrainConfig, ASampleOfTheTrainingSetNeedsAnotherValidationSet) {
  const std::string data = "data:\n  folder: d\n";
  EXPECT_EQ(message_of(data, {"validation.train_sample=9", "data.valid_set="}),
            "validation.train_sample: 9, but data.valid_set is empty, so there are no validations; expected 0");
  EXPECT_EQ(message_of(data, {"validation.train_sample=9", "data.valid_set=train"}),
            "validation.train_sample: 9, but data.valid_set is the training set; expected 0");
}

TEST(TrainConfig, LossesOfPairsNeedPairsThatAreComputed) {
  EXPECT_THAT(message_of("task: gssm\npreset: lm-288\n", {"training.pair_losses=true"}),
              testing::HasSubstr("training.pair_losses: true, but task gssm has no sentence pairs; expected false"));
  EXPECT_THAT(message_of("data:\n  folder: d\n", {"training.pair_losses=true", "training.device=emulated"}),
              testing::HasSubstr("training.pair_losses: true, but training.device emulated computes no losses"));
}

TEST(TrainConfig, OtherSetsHaveANameAFolderAndASet) {
  const std::string yaml = "data:\n  folder: d\nvalidation:\n  other_sets: ['general=data/general', 'news=n:1:test']\n";
  const TrainConfig config = read_config(yaml, "test.yaml", {});
  for (const TrainConfig& read : {config, read_config(config_yaml(config), "stored.yaml", {})}) {
    const std::vector<OtherSet> others = read.validation.others();
    ASSERT_EQ(others.size(), 2U);
    EXPECT_EQ(others[0].name + ' ' + others[0].folder + ' ' + others[0].set, "general data/general valid");
    EXPECT_EQ(others[1].name + ' ' + others[1].folder + ' ' + others[1].set, "news n:1 test");
  }
  const auto refusal = [](const std::string& sets, const std::string& more = "data.workers=1") {
    return message_of("data:\n  folder: d\n", {"validation.other_sets=" + sets, more});
  };
  EXPECT_EQ(refusal("general=data/general,news=d:test"), "accepted");
  for (const char* wrong : {"general", "general=", "=data/general", "general=:test", "general=data/general:"}) {
    EXPECT_EQ(refusal(wrong),
              fmt::format("validation.other_sets: expected NAME=FOLDER or NAME=FOLDER:SET, found '{}'", wrong));
  }
  for (const char* taken : {"valid", "train", "general"}) {
    EXPECT_EQ(refusal(fmt::format("general=a,{}=b", taken)),
              fmt::format("validation.other_sets: expected a name that no other set of the validations has, found '{}'",
                          taken));
  }
  EXPECT_EQ(refusal("general=a", "data.valid_set="),
            "validation.other_sets: general, but data.valid_set is empty, so there are no validations; expected []");
}

TEST(TrainConfig, DivergenceAcceptsOnlyUpdates) {
  const std::string data = "data:\n  folder: d\n";
  const TrainConfig config = read_config(data + "training:\n  divergence: {after: 7u, rewind: 2}\n", "test.yaml", {});
  EXPECT_EQ(config.training.divergence.after.text(), "7u");
  EXPECT_EQ(config.training.divergence.rewind, 2);
  EXPECT_EQ(read_config(data, "test.yaml", {}).training.divergence.after.text(), "20u");
  for (const char* wrong : {"2e", "1.5u", "5t"}) {
    EXPECT_EQ(message_of(data, {std::string("training.divergence.after=") + wrong}),
              fmt::format("training.divergence.after: expected a number of updates (20u), found '{}'", wrong));
  }
}

/// A generator in the notation of publications.
constexpr const char* nodes =
    "gssm:\n  - {name: Z1, state_dim: 4, parents: [X]}\n  - {name: X, state_dim: 8, parents: [Z1]}\n";

TEST(TrainConfig, ATaskSetsDefaults) {
  const TrainConfig config = read_config(std::string("task: gssm\n") + nodes, "test.yaml", {});
  EXPECT_EQ(config.preset, "lm-288");
  EXPECT_EQ(config.model.encoder_layers, 0);
  EXPECT_EQ(config.model.width, 288);
  EXPECT_EQ(config.optimizer.label_smoothing, 0);
  EXPECT_EQ(config.validation.bleu_every.value(), 0);
  EXPECT_EQ(config.data.valid_set, "test");
  EXPECT_EQ(config.target_tokens_per_update(), 16 * 2047);
  EXPECT_TRUE(config.on_the_fly());
  const TrainConfig again = read_config(config_yaml(config), "again.yaml", {});
  EXPECT_EQ(config_yaml(again), config_yaml(config));
  const TrainConfig chosen = read_gssm_task(nodes, "nodes.yaml", {"preset=gpt2-xl", "optimizer.label_smoothing=0.1"});
  EXPECT_EQ(chosen.task, Task::gssm);
  EXPECT_EQ(chosen.model.inner, 6400);
  EXPECT_EQ(chosen.optimizer.label_smoothing, 0.1);
}

TEST(TrainConfig, TheNumberOfSequencesMayBeLeftToTheMemory) {
  const std::string yaml = std::string("task: gssm\n") + nodes + "data: {sequences_per_update: auto}\n";
  for (const char* limit : {"data.micro_batch_tokens=0", "data.micro_batch_tokens=auto"}) {
    const TrainConfig config = read_config(yaml, "test.yaml", {limit});
    EXPECT_EQ(config.data.sequences_per_update, DataConfig::automatic);
    EXPECT_EQ(config.target_tokens_per_update(), 2047) << "of one sequence";
    EXPECT_EQ(read_config(config_yaml(config), "again.yaml", {}).data.sequences_per_update, DataConfig::automatic);
  }
  for (const auto& [key, value, name] :
       {std::tuple("data.micro_batch_tokens", "4096", "above 0"), std::tuple("training.reproducible", "ranks", "ranks"),
        std::tuple("data.balance", "measured", "measured")}) {
    EXPECT_EQ(message_of(yaml, {fmt::format("{}={}", key, value)}),
              fmt::format("test.yaml:5:8: data.sequences_per_update: auto fills the memory with equal parts, but {} {} "
                          "needs a number",
                          key, name));
  }
  EXPECT_EQ(message_of(yaml, {"data.sequences_per_update=0"}),
            "override data.sequences_per_update: expected an integer from 1 to 1073741824 or auto, found '0'");
}

TEST(TrainConfig, RefusesWhatDoesNotFitTheTask) {
  const auto refused = [](const std::string& yaml, const std::string& assignment, const std::string& message) {
    EXPECT_EQ(message_of(yaml, {assignment}), message);
  };
  const std::string gssm = std::string("task: gssm\n") + nodes;
  refused(nodes, "data.folder=d", "gssm.nodes: given, but task is translation; expected task: gssm");
  refused("task: gssm\n", "name=a", "gssm.nodes: missing; expected nodes, one of them observed");
  refused(gssm, "gssm.nodes.1.parents=Y", "test.yaml:3:5: gssm.nodes.1.parents: unknown node 'Y'; did you mean 'X'?");
  refused(gssm, "preset=transformer-tiny",
          "model.encoder_layers: 4, but task gssm trains a language model, which has none; use 0 or a preset such as "
          "lm-288");
  refused(gssm, "data.max_length=2046",
          "data.sequence_length: 2048 tokens have 2047 targets, longer than data.max_length 2046");
  refused(gssm, "validation.bleu_every=1e", "validation.bleu_every: 1e, but task gssm translates nothing; expected 0u");
  refused(gssm, "training.stop_after=20e",
          "training.stop_after: 20e, but sequences made on the fly have no epochs; expected updates (u) or target "
          "tokens (t)");
  refused(gssm, "validation.other_sets=general=d",
          "validation.other_sets: general, but task gssm scores a single set; expected []");
  refused(gssm, "validation.train_sample=9",
          "validation.train_sample: 9, but sequences made on the fly have no training set; expected 0");
  refused(gssm, "gssm.entropy_every=1e",
          "test.yaml:2:1: gssm.entropy_every: expected a number of updates (100u), found '1e'");
  EXPECT_EQ(message_of("task: gssm\ngssm: {entropy_every: 5u}\n", {"data.folder=d"}),
            "test.yaml:2:8: gssm.entropy_every: 5u, but needs sequences made on the fly, without data.folder; expected "
            "0u");
  EXPECT_EQ(message_of("task: gssm\ntraining: {stop_after: 2e}\n", {"data.folder=d"}), "accepted");
  EXPECT_THROW(read_gssm_task("task: translation\ndata: {folder: d}\n", "test.yaml", {}), ConfigError);
}

TEST(TrainConfig, ModernPartsArriveByPresetAndByKey) {
  const ModelConfig preset = read_config("preset: modern-base\ndata: {folder: d}\n", "test.yaml", {}).model;
  EXPECT_EQ(preset.encoder_layers, 12);
  EXPECT_EQ(preset.decoder_layers, 2);
  const ModelConfig keys = read_config("data: {folder: d}\n", "test.yaml",
                                       {"model.norm_kind=rms", "model.activation=swiglu", "model.positions=rotary",
                                        "model.initialization=depth_scaled"})
                               .model;
  for (const ModelConfig& model : {preset, keys}) {
    EXPECT_EQ(model.norm_kind, NormKind::rms);
    EXPECT_EQ(model.activation, Activation::swiglu);
    EXPECT_EQ(model.positions, Positions::rotary);
    EXPECT_EQ(model.initialization, Initialization::depth_scaled);
  }
}

TEST(TrainConfig, PublishedConfigurationsAreThoseOfTheTable) {
  const auto options = [](const std::string& name) {
    const std::string file = BABELRING_SOURCE_DIR "/configs/gssm-" + name + ".yaml";
    return read_gssm_task(read_file(file), file, {}).gssm;
  };
  const auto digest = [](const GssmOptions& gssm) { return make_gssm_graph(gssm).digest(); };
  EXPECT_EQ(digest(options("small-z")), digest(published_graph(4, 4, 32, 1e-3, 0.125)));
  EXPECT_EQ(digest(options("small-x")), digest(published_graph(4, 4, 32, 5e-2, 1e-3)));
  EXPECT_EQ(digest(options("large-z")), digest(published_graph(8, 4, 64, 1e-3, 4e-3)));
  EXPECT_EQ(digest(options("large-x")), digest(published_graph(8, 4, 64, 2e-3, 1e-3)));
  EXPECT_EQ(digest(options("difficulty")), digest(published_graph(4, 4, 32, 1e-3, 1e-3)));
}

TEST(TrainConfig, ErrorsNamePlaceAndNearestKey) {
  EXPECT_NE(message_of("data:\n  foldr: d\n").find("test.yaml:2:"), std::string::npos);
  EXPECT_NE(message_of("data:\n  foldr: d\n").find("folder"), std::string::npos);
  EXPECT_NE(message_of("data:\n  folder: d\n", {"optimizer.warmup=3"}).find("optimizer.warm_up"), std::string::npos);
  EXPECT_EQ(message_of("data:\n  folder: d\ntraining:\n  stop_after: later\n"),
            "test.yaml:4:15: training.stop_after: expected a number of updates (4000u), epochs (2e) or target tokens "
            "(50Mt), found 'later'");
  EXPECT_EQ(message_of("model: {norm: pst}\n"),
            "test.yaml:1:15: model.norm: expected pre|post, found 'pst'; did you mean 'post'?");
  EXPECT_EQ(message_of("model: {activation: silu}\n"),
            "test.yaml:1:21: model.activation: expected relu|swish|gelu|swiglu, found 'silu'; did you mean 'relu'?");
  EXPECT_EQ(message_of("model: {norm_kind: rsm}\n"),
            "test.yaml:1:20: model.norm_kind: expected layer|rms, found 'rsm'; did you mean 'rms'?");
  EXPECT_NE(message_of("data: {folder: d}\nmodel: {width: 24, heads: 8, positions: rotary}\n")
                .find("model.positions: rotary needs pairs"),
            std::string::npos);
  for (const char* epsilon : {"0", "1e-13", "0.2"}) {
    EXPECT_NE(message_of(fmt::format("model: {{norm_epsilon: {}}}\n", epsilon)).find("model.norm_epsilon: "),
              std::string::npos);
  }
  EXPECT_NE(message_of("data:\n  folder: d\nmodel:\n  heads: 7\n").find("7 does not divide"), std::string::npos);
  EXPECT_NE(message_of("data: {folder: d}\nmodel: {width: 2, heads: 1, positions: marian}\n")
                .find("model.width: 2 is below 4, which model.positions: marian needs"),
            std::string::npos);
  EXPECT_NE(message_of("task: gssm\npreset: lm-288\ndata: {folder: d}\nmodel: {decoder_start: zero}\n")
                .find("model.decoder_start: zero is for translation"),
            std::string::npos);
  EXPECT_NE(message_of("name: x\n").find("data.folder"), std::string::npos);
}

}  // namespace
}  // namespace babelring
