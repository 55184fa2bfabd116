#include "server/artifacts/exports.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/json.h"
#include "tests/server/checkpoint_fixture.h"
#include "tests/soon.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using artifacts::ExportFormat;
using testing::Answer;
using testing::Client;

/// A server whose `nmt export` is the fake one: float32 succeeds, bfloat16 fails, int8 waits for the file `go`; where
/// the file `no-marian` is, Marian lacks the model's arithmetic.
class ExportsTest : public testing::CheckpointFixture {
 protected:
  void SetUp() override {
    path = make(10, 30);
    begin({});
  }
  void TearDown() override { end(); }

  /// `spare_bytes`: disk space that an export must leave.
  void begin(artifacts::ExportLimits limits, std::uintmax_t spare_bytes = 0) {
    end();
    limits.program = BABELRING_BIN_DIR "/fake_translator";
    limits.spare_bytes = spare_bytes;
    exports_ = std::make_unique<artifacts::Exports>(server.store(), limits);
    server.service().exports = exports_.get();
  }
  void end() {
    server.service().exports = nullptr;
    exports_.reset();
  }

  static std::string body_of(const std::string& quantization) {
    return R"({"format":"ctranslate2","quantization":")" + quantization + "\"}";
  }
  Answer order(const std::string& body) { return ask("POST", path + "/exports", body); }
  std::string state_of(const std::string& name) {
    return std::string(object(path + "/exports/" + name).at("state").as_string());
  }
  /// Orders an export and waits until it is complete.
  void complete(const std::string& body, const std::string& name) {
    const Answer answer = order(body);
    EXPECT_TRUE(answer.status == 202 || answer.status == 200) << answer.body;
    EXPECT_TRUE(soon([&] { return state_of(name) == "complete"; })) << ask("GET", path + "/exports/" + name).body;
  }
  void refuse_marian() { std::ofstream(folder_of(10).parent_path() / "no-marian") << "no"; }
  void let_go() { std::ofstream(folder_of(10).parent_path() / "go") << "go"; }
  /// How often the program was started.
  std::int64_t starts() {
    std::ifstream file(folder_of(10).parent_path() / "exports");
    std::int64_t lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    return lines;
  }
  fs::path kept() { return server.folder() / "exports" / path.substr(path.rfind('/') + 1); }

  std::string path;

 private:
  std::unique_ptr<artifacts::Exports> exports_;
};

TEST(ExportFormatTest, HasANameThatGivesItBack) {
  for (const ExportFormat& format :
       {ExportFormat{"huggingface", "float32", "", ""}, ExportFormat{"ctranslate2", "int8", "", ""},
        ExportFormat{"marian", "float32", "", ""}, ExportFormat{"bergamot", "int8", "", ""},
        ExportFormat{"argos", "bfloat16", "en", "de"}}) {
    const auto found = ExportFormat::named(format.name());
    ASSERT_TRUE(found) << format.name();
    EXPECT_EQ(found->format + found->quantization + found->from + found->into,
              format.format + format.quantization + format.from + format.into);
  }
  for (const char* name : {"", "-", "huggingface-float32", "marian-float32", "bergamot-int8", "ctranslate2",
                           "ctranslate2-int4", "ctranslate2--int8", "argos-int8", "argos-en-int8", "argos-en_-int8",
                           "argos-../x_de-int8", "argos-en_de_fr-int8", "../ctranslate2-int8", "argos-EN_de-int8"}) {
    EXPECT_FALSE(ExportFormat::named(name)) << name;
  }
}

TEST_F(ExportsTest, IsMadeOnceAndDownloaded) {
  complete(body_of("float32"), "ctranslate2-float32");
  const Answer again = order(R"({"format":"ctranslate2"})");
  EXPECT_EQ(again.status, 200) << "it exists";
  EXPECT_EQ(starts(), 1) << "it is not made again";
  const json::object made = object(path + "/exports/ctranslate2-float32");
  EXPECT_EQ(made.at("files").as_array().size(), 2u);
  EXPECT_EQ(made.at("bytes"), 2 + 26);
  EXPECT_EQ(object(run_path + "/exports").at("items").as_array().size(), 1u);
  const std::string etag = ask("GET", path + "/exports/ctranslate2-float32").headers.at("etag");
  EXPECT_EQ(ask("GET", path + "/exports/ctranslate2-float32", "", "If-None-Match: " + etag + "\r\n").status, 304);
  const Answer tar = ask("GET", path + "/exports/ctranslate2-float32/archive");
  EXPECT_EQ(tar.headers.at("content-type"), "application/x-tar");
  EXPECT_EQ(tar.headers.at("content-disposition"), "attachment; filename=\"update-00000010-ctranslate2-float32.tar\"");
  EXPECT_EQ(tar.body.size() % 512, 0u);
  EXPECT_NE(tar.body.find("update-00000010-ctranslate2-float32/onnx/encoder_model.onnx"), std::string::npos);
  EXPECT_NE(tar.body.find("encoder of update-00000010"), std::string::npos);
}

/// Both kinds of downloads answer with parts and by entity tags.
TEST_F(ExportsTest, PartsOfDownloads) {
  complete(R"({"format":"huggingface"})", "huggingface");
  const std::string base = path + "/exports/huggingface";
  for (const std::string& file :
       {base + "/archive", base + "/files/config.json", base + "/files/onnx/encoder_model.onnx"}) {
    const Answer whole = ask("GET", file);
    ASSERT_EQ(whole.status, 200) << whole.body;
    const std::string etag = whole.headers.at("etag");
    EXPECT_EQ(ask("GET", file, "", "If-None-Match: " + etag + "\r\n").status, 304);
    const Answer part = ask("GET", file, "", "Range: bytes=1-1\r\nIf-Range: " + etag + "\r\n");
    EXPECT_EQ(part.status, 206);
    EXPECT_EQ(part.body, whole.body.substr(1, 1));
    EXPECT_EQ(ask("GET", file, "", "Range: bytes=9999999-\r\n").status, 416);
  }
  EXPECT_EQ(ask("GET", base + "/files/onnx/encoder_model.onnx").body, "encoder of update-00000010");
}

TEST_F(ExportsTest, OnlyItsFilesAreRead) {
  complete(R"({"format":"huggingface"})", "huggingface");
  const std::string files = path + "/exports/huggingface/files/";
  std::ofstream(kept() / "secret") << "secret";
  fs::create_symlink(kept() / "secret", kept() / "update-00000010-huggingface" / "link");
  for (const std::string name : {"none", "onnx", "onnx%2F..%2F..%2Fsecret", "%2E%2E%2Fsecret", "onnx/x", "link",
                                 "%2Fetc%2Fpasswd", "onnx/..%2F..%2Fsecret"}) {
    const Answer answer = ask("GET", files + name);
    EXPECT_EQ(answer.status, 404) << name;
    EXPECT_EQ(code_of(answer), "file_unknown") << name;
  }
  for (const std::string name : {"../secret", "%2e%2e/secret"}) EXPECT_EQ(ask("GET", files + name).status, 400) << name;
  for (const std::string name : {"..%2Fx", "nothing", "ctranslate2-int8"}) {
    EXPECT_EQ(code_of(ask("GET", path + "/exports/" + name + "/archive")), "export_unknown") << name;
  }
}

TEST_F(ExportsTest, ANameThatAWorkerReportsLeadsNowhereElse) {
  fs::create_directories(server.folder() / "exports");
  fs::create_directories(server.folder() / "other-huggingface");
  std::ofstream(server.folder() / "other-huggingface" / "secret") << "secret";
  const CheckpointRecord record{.update = 11, .name = "../../other", .folder = server.folder() / "run"};
  std::vector<Record> records = {testing::record_of(record, ++sequence)};
  const std::string id = testing::put(server.store(), records).fresh.at(0).id;
  fs::create_directories(server.folder() / "exports" / id);
  const std::string forged = "/api/v1/checkpoints/" + id + "/exports/huggingface";
  EXPECT_EQ(code_of(ask("GET", forged)), "export_unknown");
  EXPECT_EQ(code_of(ask("GET", forged + "/files/secret")), "export_unknown");
}

/// Formats that have one type of matrices need no word about it, neither here nor on the command line.
TEST_F(ExportsTest, MarianAndBergamotHaveOneQuantization) {
  for (const auto& [format, quantization] : {std::pair("marian", "float32"), std::pair("bergamot", "int8")}) {
    complete(fmt::format(R"({{"format":"{}"}})", format), format);
    const json::object made = object(path + "/exports/" + format);
    EXPECT_EQ(made.at("format").as_string(), format);
    EXPECT_EQ(made.at("quantization").as_string(), quantization);
    EXPECT_EQ(order(fmt::format(R"({{"format":"{}","quantization":"{}"}})", format, quantization)).status, 200);
    const Answer tar = ask("GET", path + "/exports/" + format + "/archive");
    EXPECT_EQ(tar.headers.at("content-disposition"),
              fmt::format("attachment; filename=\"update-00000010-{}.tar\"", format));
  }
  EXPECT_EQ(starts(), 2);
  const Answer other = order(R"({"format":"bergamot","quantization":"float32"})");
  EXPECT_NE(other.body.find("found 'float32', but bergamot is always int8"), std::string::npos) << other.body;
}

/// Its line has the options that the model needs, without the names of program and command.
TEST_F(ExportsTest, AModelThatMarianCannotHoldIsRefusedInALine) {
  refuse_marian();
  EXPECT_EQ(order(R"({"format":"marian"})").status, 202);
  ASSERT_TRUE(soon([&] { return state_of("marian") == "failed"; }));
  EXPECT_EQ(object(path + "/exports/marian").at("detail").as_string(),
            "Marian needs a model with model.norm: post (found pre), model.positions: marian (found sinusoid)");
}

TEST_F(ExportsTest, ArgosIsOneFile) {
  complete(R"({"format":"argos","from":"en","into":"de"})", "argos-en_de-float32");
  const Answer package = ask("GET", path + "/exports/argos-en_de-float32/archive");
  EXPECT_EQ(package.headers.at("content-type"), "application/zip");
  EXPECT_EQ(package.headers.at("content-disposition"),
            "attachment; filename=\"update-00000010-argos-en_de-float32.argosmodel\"");
  EXPECT_EQ(package.body, "PKende");
}

TEST_F(ExportsTest, RefusesWhatIsNoFormat) {
  for (const char* body :
       {"{}", R"({"format":"gguf"})", R"({"format":"huggingface","quantization":"int8"})",
        R"({"format":"marian","quantization":"int8"})", R"({"format":"bergamot","from":"en"})",
        R"({"format":"bergamot","quantization":""})", R"({"format":"ctranslate2","quantization":"int4"})",
        R"({"format":"argos"})", R"({"format":"argos","from":"en"})", R"({"format":"argos","from":"en","into":"en"})",
        R"({"format":"argos","from":"../","into":"de"})", R"({"format":"ctranslate2","from":"en"})",
        R"({"format":"huggingface","beam":4})"}) {
    const Answer answer = order(body);
    EXPECT_EQ(answer.status, 400) << body << answer.body;
    EXPECT_EQ(code_of(answer), "bad_body") << body;
  }
  EXPECT_EQ(starts(), 0);
}

TEST_F(ExportsTest, AFailureIsTold) {
  EXPECT_EQ(order(body_of("bfloat16")).status, 202);
  ASSERT_TRUE(soon([&] { return state_of("ctranslate2-bfloat16") == "failed"; }));
  EXPECT_EQ(object(path + "/exports/ctranslate2-bfloat16").at("detail").as_string(),
            "found a language model, expected a translation model");
  const Answer answer = ask("GET", path + "/exports/ctranslate2-bfloat16/archive");
  EXPECT_EQ(answer.status, 409);
  EXPECT_EQ(code_of(answer), "export_failed");
  EXPECT_NE(answer.body.find("found a language model"), std::string::npos);
  EXPECT_EQ(order(body_of("bfloat16")).status, 202) << "another try";
  EXPECT_TRUE(soon([&] { return starts() == 2; }));
  EXPECT_TRUE(soon([&] { return state_of("ctranslate2-bfloat16") == "failed"; }));
}

TEST_F(ExportsTest, OneIsMadeAtATimeWhileTheServerAnswers) {
  artifacts::ExportLimits limits;
  limits.max_waiting = 1;
  begin(limits);
  EXPECT_EQ(order(body_of("int8")).status, 202);
  ASSERT_TRUE(soon([&] { return state_of("ctranslate2-int8") == "running"; }));
  EXPECT_EQ(order(body_of("int8")).status, 202) << "the same one";
  EXPECT_EQ(order(body_of("float32")).status, 202);
  EXPECT_EQ(state_of("ctranslate2-float32"), "waiting");
  const Answer third = order(R"({"format":"huggingface"})");
  EXPECT_EQ(third.status, 503);
  EXPECT_EQ(code_of(third), "busy");
  const Answer early = ask("GET", path + "/exports/ctranslate2-int8/archive");
  EXPECT_EQ(code_of(early), "export_incomplete");
  const std::string older = path;
  make(11, 20), make(12, 40, true);
  const Answer removal = ask("DELETE", older);
  EXPECT_EQ(code_of(removal), "in_use") << "it is being read";
  let_go();
  EXPECT_TRUE(soon([&] { return state_of("ctranslate2-float32") == "complete"; }));
  EXPECT_EQ(starts(), 2);
}

TEST_F(ExportsTest, OneClientLeavesRoomForOthers) {
  artifacts::ExportLimits limits;
  limits.max_waiting_an_owner = 1;
  begin(limits);
  order(body_of("int8"));
  ASSERT_TRUE(soon([&] { return state_of("ctranslate2-int8") == "running"; }));
  EXPECT_EQ(order(body_of("float32")).status, 202);
  const Answer second = order(R"({"format":"huggingface"})");
  EXPECT_EQ(code_of(second), "busy");
  EXPECT_NE(second.body.find("1 exports of this client"), std::string::npos) << second.body;
  Client other(server.port(), server.token(http::Scope::read));
  EXPECT_EQ(other.post(path + "/exports", R"({"format":"huggingface"})").status, 202) << "scope read suffices";
  let_go();
  EXPECT_TRUE(soon([&] { return state_of("huggingface") == "complete"; }));
}

TEST_F(ExportsTest, GoesWithItsCheckpoint) {
  complete(R"({"format":"huggingface"})", "huggingface");
  make(11, 20), make(12, 40, true);
  ASSERT_TRUE(fs::exists(kept()));
  EXPECT_EQ(ask("DELETE", path).status, 204);
  EXPECT_FALSE(fs::exists(kept()));
  EXPECT_EQ(code_of(ask("GET", path + "/exports/huggingface/archive")), "removed");
  EXPECT_EQ(code_of(order(R"({"format":"huggingface"})")), "removed");
  EXPECT_TRUE(object(run_path + "/exports").at("items").as_array().empty());
}

TEST_F(ExportsTest, GoesWhenRetentionRemovesItsCheckpoint) {
  complete(R"({"format":"huggingface"})", "huggingface");
  make(11, 20), make(12, 40, true);
  EXPECT_EQ(ask("PUT", run_path + "/retention", R"({"keep_last":2})").status, 200);
  EXPECT_TRUE(soon([&] { return !fs::exists(kept()); }));
}

/// As after a worker's retention, of which only a record tells, or the end of a run's grace.
TEST_F(ExportsTest, GoesWhenTheCheckpointIsNoLongerKnown) {
  complete(R"({"format":"huggingface"})", "huggingface");
  fs::create_directories(server.folder() / "exports" / "c_01J8ZQ4T5W6X7Y8Z9A0B1C2D3E" / "x");
  artifacts::remove_orphaned_exports(server.store());
  EXPECT_FALSE(fs::exists(server.folder() / "exports" / "c_01J8ZQ4T5W6X7Y8Z9A0B1C2D3E"));
  EXPECT_TRUE(fs::exists(kept())) << "this one is known";
}

TEST_F(ExportsTest, TheOldestMakeRoom) {
  artifacts::ExportLimits limits;
  limits.max_kept = 2;
  begin(limits);
  complete(body_of("float32"), "ctranslate2-float32");
  fs::last_write_time(kept() / "update-00000010-ctranslate2-float32",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  complete(R"({"format":"huggingface"})", "huggingface");
  fs::last_write_time(kept() / "update-00000010-huggingface", fs::file_time_type::clock::now() - std::chrono::hours(1));
  complete(R"({"format":"argos","from":"en","into":"de"})", "argos-en_de-float32");
  EXPECT_EQ(code_of(ask("GET", path + "/exports/ctranslate2-float32")), "export_unknown");
  EXPECT_EQ(state_of("huggingface"), "complete");
}

TEST_F(ExportsTest, OutlivesTheServerButNotWhatIsUnfinished) {
  complete(R"({"format":"huggingface"})", "huggingface");
  fs::create_directories(kept() / ".tmp-x_1" / "onnx");
  begin({});
  EXPECT_FALSE(fs::exists(kept() / ".tmp-x_1"));
  EXPECT_EQ(state_of("huggingface"), "complete");
  EXPECT_EQ(order(body_of("int8")).status, 202);
  ASSERT_TRUE(soon([&] { return state_of("ctranslate2-int8") == "running"; }));
  begin({});  // ends the process that hangs
  EXPECT_EQ(code_of(ask("GET", path + "/exports/ctranslate2-int8")), "export_unknown");
}

TEST_F(ExportsTest, SaysWhyNothingCanBeExported) {
  std::ofstream(folder_of(10) / "weights.safetensors") << "short";
  EXPECT_EQ(code_of(order(R"({"format":"huggingface"})")), "damaged");
  fs::remove_all(folder_of(10));
  EXPECT_EQ(code_of(order(R"({"format":"huggingface"})")), "gone");
  path = make(11, 30);
  artifacts::ExportLimits limits;
  begin(limits, std::uintmax_t{1} << 60);
  const Answer full = order(R"({"format":"huggingface"})");
  EXPECT_EQ(full.status, 507);
  EXPECT_EQ(code_of(full), "disk_full");
  limits = {};
  limits.deadline = std::chrono::milliseconds(100);
  begin(limits);
  EXPECT_EQ(order(body_of("int8")).status, 202);
  ASSERT_TRUE(soon([&] { return state_of("ctranslate2-int8") == "failed"; }));
  EXPECT_EQ(object(path + "/exports/ctranslate2-int8").at("detail").as_string(), "it took over 0.1 s and was ended");
  end();
  EXPECT_EQ(code_of(order(R"({"format":"huggingface"})")), "no_exporter");
  EXPECT_EQ(code_of(ask("GET", path + "/exports/huggingface")), "no_exporter");
}

}  // namespace
}  // namespace babelring
