#include "lab/probe/probe_environment.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "nmt/checkpoint/weights_digest.h"
#include "nmt/train/setup/own_libraries.h"
#include "tests/nmt/train/small_training.h"

namespace babelring {
namespace {

using testing::MatchesRegex;

class ProbeEnvironment : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  std::unique_ptr<Communicator> communicator = make_single_communicator();
  TrainConfig config = small_config();
  ModelReplica replica{config, pieces, *backend, *communicator};
};

std::string text_of(const ProbeHeader& header, std::string_view name) {
  return std::string(header.environment.at(name).as_string());
}

TEST_F(ProbeEnvironment, NamesVersionsAndVariablesThatChangeArithmetic) {
  ::setenv("OPENBLAS_CORETYPE", "Zen", 1);
  const ProbeHeader header = probe_header(config, replica);
  ::unsetenv("OPENBLAS_CORETYPE");
  const LibraryVersions own = own_libraries();
  visit_libraries(own, [&](std::string_view, std::string_view name, const std::string& version) {
    EXPECT_EQ(text_of(header, name), version);
  });
  EXPECT_THAT(text_of(header, "kernel"), MatchesRegex("Linux [0-9].*"));
  EXPECT_EQ(text_of(header, "communication"), communicator->description());
  EXPECT_EQ(text_of(header, "OPENBLAS_CORETYPE"), "Zen");
  EXPECT_EQ(header.device, backend->description());
  EXPECT_FALSE(header.environment.contains("PATH"));
}

TEST_F(ProbeEnvironment, TheRootOfTheWeightsFollowsFromTheSeed) {
  const auto root = [this](std::uint64_t seed) {
    replica.initialize(seed);
    return probe_header(config, replica).weights;
  };
  const std::string one = root(1);
  EXPECT_EQ(one.size(), 64U);
  EXPECT_NE(root(2), one);
  EXPECT_EQ(root(1), one);
}

}  // namespace
}  // namespace babelring
