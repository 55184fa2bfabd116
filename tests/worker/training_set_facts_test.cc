#include "worker/run_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"

namespace babelring {
namespace {

TEST(TrainingSetFacts, TellSizesAndWhatWasDropped) {
  std::string name = std::filesystem::temp_directory_path() / "babelring-facts-XXXXXX";
  const std::filesystem::path folder = mkdtemp(name.data());
  Manifest manifest{.folder = folder, .vocabulary_size = 8000};
  manifest.sets.push_back({.name = "train",
                           .sentences = 100,
                           .source_tokens = 1500,
                           .target_tokens = 1400,
                           .source_ids = ManifestFile{"a", 6000, "aa"},
                           .target_ids = {"b", 5600, "bb"}});
  json::object facts = training_set_facts(manifest, "train");
  EXPECT_EQ(get_integer(facts, "bytes"), 11'600);
  EXPECT_EQ(get_integer(facts, "pairs"), 100);
  EXPECT_EQ(get_integer(facts, "vocabulary"), 8000);
  EXPECT_EQ(get_text(facts, "digest"), manifest.sets[0].digest());
  EXPECT_FALSE(facts.contains("dropped")) << "there is no report.json";

  write_file_atomically(folder / "report.json",
                        R"({"sets":[{"set":"valid","findings":{"empty":{"count":9}}},)"
                        R"({"set":"train","findings":{"empty":{"count":2},"crlf":{"count":5}}}]})");
  facts = training_set_facts(manifest, "train");
  const json::object* dropped = get_object(facts, "dropped");
  ASSERT_NE(dropped, nullptr);
  EXPECT_EQ(get_integer(*dropped, "empty"), 2);
  EXPECT_FALSE(dropped->contains("crlf")) << "those pairs are kept";
  EXPECT_THROW(training_set_facts(manifest, "other"), Failure);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace babelring
