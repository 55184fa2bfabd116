#include "lab/lab_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/digest.h"
#include "base/failure.h"
#include "base/files.h"
#include "tests/nmt/data/temporary_folder.h"

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Artifacts : public RecordSink {
 public:
  void write(RecordBody body) override { records.push_back(std::get<ArtifactRecord>(std::move(body))); }
  std::vector<ArtifactRecord> records;
};

class LabFolderTest : public testing::Test {
 protected:
  LabFolder folder(int keep, std::int64_t rank = 0) { return {lab_, keep, rank, artifacts_}; }
  void write(LabFolder& lab, std::int64_t update, const std::string& end, const std::string& bytes = "x") {
    lab.write({.kind = "probe", .name = fmt::format("probe-update-{:08}{}", update, end), .update = update}, bytes);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(lab_)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryFolder temporary_;
  std::filesystem::path lab_ = temporary_ / "run/lab";
  Artifacts artifacts_;
};

TEST_F(LabFolderTest, WritesAndReportsAFile) {
  LabFolder lab = folder(20);
  const json::value content = {{"peak", 12}};
  lab.write({.kind = "memory", .name = "memory-00000003.json", .update = 3, .content = content}, "{\"peak\":12}");
  EXPECT_EQ(read_file(lab_ / "memory-00000003.json"), "{\"peak\":12}");
  ASSERT_EQ(artifacts_.records.size(), 1U);
  const ArtifactRecord& record = artifacts_.records[0];
  EXPECT_EQ(record.update, 3);
  EXPECT_EQ(record.name, "memory-00000003.json");
  EXPECT_EQ(record.artifact, "memory");
  EXPECT_EQ(record.folder, lab_.string());
  EXPECT_EQ(record.size, 11);
  EXPECT_EQ(record.sha256, sha256_hex("{\"peak\":12}"));
  EXPECT_FALSE(record.removed);
  EXPECT_EQ(record.content, content);
}

TEST_F(LabFolderTest, ReportsAFileThatAToolCompleted) {
  LabFolder lab = folder(1);
  std::filesystem::create_directories(lab.path());
  for (const std::int64_t update : {1, 2}) {
    const std::string name = fmt::format("probe-update-{}.jsonl", update);
    write_file_atomically(lab.path() / name, "x");
    lab.add({.kind = "probe", .name = name, .update = update});
  }
  ASSERT_EQ(artifacts_.records.size(), 3U);
  EXPECT_EQ(artifacts_.records[1].name, "probe-update-2.jsonl");
  EXPECT_EQ(artifacts_.records[1].sha256, sha256_hex("x"));
  EXPECT_TRUE(artifacts_.records[2].removed) << "update 1: one is kept";
  lab.add({.kind = "probe", .name = "probe-absent.jsonl", .update = 3});
  EXPECT_EQ(artifacts_.records.size(), 3U) << "a missing file is not reported";
}

TEST_F(LabFolderTest, DoesNotReportLargeContent) {
  LabFolder lab = folder(20);
  const json::value large = json::string(max_artifact_content_bytes, 'x');
  lab.write({.kind = "graph", .name = "graph-1.json", .update = 1, .content = large}, "x");
  EXPECT_TRUE(artifacts_.records.at(0).content.is_null());
}

TEST_F(LabFolderTest, KeepsTheNewestOfEachKindAndRank) {
  LabFolder lab = folder(2), other = folder(2, 1);
  write(lab, 1, "-rank-0.jsonl");
  write(lab, 1, "-rank-0.safetensors");
  write(other, 1, "-rank-1.jsonl");
  lab.write({.kind = "trace", .name = "trace-1.json.gz", .update = 1}, "x");
  write(lab, 2, "-rank-0.jsonl");
  EXPECT_EQ(names().size(), 5U) << "files with one stem count as one";
  artifacts_.records.clear();
  write(lab, 3, "-rank-0.jsonl");
  EXPECT_THAT(names(), ElementsAre("probe-update-00000001-rank-1.jsonl", "probe-update-00000002-rank-0.jsonl",
                                   "probe-update-00000003-rank-0.jsonl", "trace-1.json.gz"));
  ASSERT_EQ(artifacts_.records.size(), 3U);
  EXPECT_FALSE(artifacts_.records[0].removed);
  for (const std::size_t i : {1U, 2U}) {
    EXPECT_TRUE(artifacts_.records[i].removed);
    EXPECT_THAT(artifacts_.records[i].name, HasSubstr("probe-update-00000001-rank-0."));
    EXPECT_EQ(artifacts_.records[i].sha256, "");
  }
}

TEST_F(LabFolderTest, AFileThatCannotBeWrittenIsNotReported) {
  temporary_.write("run", "a file in the place of the folder");
  LabFolder lab = folder(2);
  write(lab, 1, ".jsonl");
  EXPECT_TRUE(artifacts_.records.empty());
}

TEST_F(LabFolderTest, AFailedWriterLeavesNothing) {
  LabFolder lab = folder(2);
  lab.write({.kind = "probe", .name = "probe-1.jsonl", .update = 1}, [](const std::filesystem::path& file) {
    write_file_atomically(file, "half");
    fail("disk full");
  });
  EXPECT_TRUE(artifacts_.records.empty());
  EXPECT_TRUE(names().empty());
}

TEST_F(LabFolderTest, RefusesNamesThatDoNotFit) {
  const auto refusal = [](LabFolder lab, const Artifact& artifact) {
    try {
      lab.write(artifact, "x");
    } catch (const Failure& failure) {
      return std::string(failure.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal(folder(2), {.kind = "dream", .name = "dream-1.json"}),
              HasSubstr("expected kind probe, trace, parameters, memory, graph, profile, found 'dream'"));
  EXPECT_THAT(refusal(folder(2), {.kind = "probe", .name = "1.json"}),
              HasSubstr("begins with 'probe-', found '1.json'"));
  EXPECT_THAT(refusal(folder(2), {.kind = "probe", .name = "probe-/../../x"}), HasSubstr("found 'probe-/../../x'"));
  EXPECT_THAT(refusal(folder(2, 3), {.kind = "probe", .name = "probe-rank-2.json"}),
              HasSubstr("contains '-rank-3', found 'probe-rank-2.json'"));
}

}  // namespace
}  // namespace babelring
