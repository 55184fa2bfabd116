#include "nmt/data/gssm/finite_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/work_folder.h"
#include "nmt/data/corpus.h"
#include "tests/nmt/data/gssm/graphs.h"
#include "tests/nmt/data/temporary_folder.h"

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

GssmDataOptions small_data(const std::filesystem::path& output) {
  return {.config = {.gssm = chain_graph(), .sequence_length = 32, .seed = 5},
          .output = output,
          .train = 30,
          .test = 7,
          .entropy_sequences = 5,
          .threads = 3};
}

TEST(GssmData, HoldsTheGeneratedSequencesAndTheirEntropy) {
  const TemporaryFolder folder;
  const GssmDataOptions options = small_data(folder / "data");
  write_gssm_data(options);
  const Manifest manifest = load_manifest(options.output);
  EXPECT_EQ(manifest.vocabulary_size, 4);
  EXPECT_EQ(manifest.set("train").sentences, 30);
  EXPECT_EQ(manifest.set("train").target_tokens, 30 * 32);
  EXPECT_FALSE(manifest.set("train").source_ids);
  const GssmGenerator generator(make_gssm_graph(options.config.gssm));
  for (const auto& [name, update] : {std::pair("train", 0), std::pair("test", -1)}) {
    const ManifestSet& set = manifest.set(name);
    const IdSequences ids(options.output / set.target_ids.name, 4);
    for (std::int64_t i = 0; i < set.sentences; ++i) {
      std::vector<std::int32_t> expected(32);
      const SequenceId place{.seed = 5, .update = update, .sequence = i};
      generator.generate(generator.kernels(place), place, expected);
      EXPECT_EQ(std::vector<std::int32_t>(ids[i].begin(), ids[i].end()), expected) << name << " " << i;
    }
  }
  const GssmEntropy entropy = estimate_entropy(generator, {.seed = 5, .update = -1}, 5, 32, 1);
  EXPECT_EQ(manifest.options.at("entropy").at("nats"), json::value(entropy.nats));
  const GssmConfig stored = read_gssm_config(read_file(options.output / "gssm.yaml"), "gssm.yaml", {});
  EXPECT_EQ(make_gssm_graph(stored.gssm).digest(), manifest.options.at("graph").as_string());
}

TEST(GssmData, DoesNotDependOnThreadsAndReplacesAnOlderSet) {
  const TemporaryFolder folder;
  GssmDataOptions options = small_data(folder / "data");
  const std::string first = write_gssm_data(options).manifest.set("train").digest();
  options.threads = 1;
  EXPECT_EQ(write_gssm_data(options).manifest.set("train").digest(), first);
  options.config.seed = 6;
  EXPECT_NE(write_gssm_data(options).manifest.set("train").digest(), first);
}

TEST(GssmData, RefusesAFolderThatAnotherProcessWrites) {
  const TemporaryFolder folder;
  GssmDataOptions options = small_data(folder / "data");
  const std::string first = write_gssm_data(options).manifest.set("train").digest();
  options.config.seed = 6;
  {
    const WorkFolder other(options.output, "work");
    EXPECT_THAT([&] { write_gssm_data(options); },
                ThrowsMessage<UsageFailure>(HasSubstr("writes there at the moment")));
  }
  EXPECT_EQ(load_manifest(options.output).set("train").digest(), first);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(options.output), {}), 4)
      << "two sets, graph and manifest";
}

TEST(GssmData, RefusesEmptySetsAndIsNoCorpusOfPairs) {
  const TemporaryFolder folder;
  GssmDataOptions options = small_data(folder / "data");
  write_gssm_data(options);
  EXPECT_THAT([&] { Corpus::open(options.output, "train"); },
              ThrowsMessage<Failure>(HasSubstr("set 'train' has no source side, expected text that nmt prepare has")));
  options.test = 0;
  EXPECT_THAT([&] { write_gssm_data(options); },
              ThrowsMessage<UsageFailure>("gssm data: 30 training and 0 test sequences, expected at least 1 each"));
}

}  // namespace
}  // namespace babelring
