#include "tests/server/checkpoint_fixture.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>

#include "base/digest.h"

namespace babelring::testing {

std::filesystem::path CheckpointFixture::folder_of(std::int64_t update) const {
  return server.folder() / "run/checkpoints" / fmt::format("update-{:08}", update);
}

std::string CheckpointFixture::weights_of(std::int64_t update) {
  std::string content;
  for (std::int64_t i = 0; i < 100'000; ++i) content += static_cast<char>((i * 31 + update) % 251);
  return content;
}

std::string CheckpointFixture::make(std::int64_t update, double sacrebleu, bool best) {
  const auto folder = folder_of(update);
  std::filesystem::create_directories(folder);
  CheckpointRecord record{.update = update, .name = folder.filename(), .folder = folder, .sacrebleu = sacrebleu};
  record.loss = std::isnan(sacrebleu) ? NAN : 100 - sacrebleu;
  record.best = best;
  std::string sums;
  const auto add = [&](const std::string& name, const std::string& content) {
    std::ofstream(folder / name, std::ios::binary) << content;
    record.files.push_back({name, static_cast<std::int64_t>(content.size()), sha256_hex(content)});
    sums += sha256_hex(content) + "  " + name + "\n";
  };
  add("weights.safetensors", weights_of(update));
  add("config.yaml", "seed: 1\n");
  add("empty", "");
  add("state.json", "{}");
  std::ofstream(folder / "SHA256SUMS") << sums;
  if (best) {
    std::filesystem::remove(folder.parent_path() / "best");
    std::filesystem::create_directory_symlink(folder.filename(), folder.parent_path() / "best");
  }
  return "/api/v1/checkpoints/" + put(server.store(), {record_of(record, ++sequence)}).fresh.at(0).id;
}

json::object CheckpointFixture::object(const std::string& path) {
  const Answer answer = ask("GET", path);
  EXPECT_EQ(answer.status, 200) << path << answer.body;
  return parse_json(answer.body).value().as_object();
}

std::string CheckpointFixture::code_of(const Answer& answer) {
  if (answer.status < 300) return "";
  return std::string(parse_json(answer.body).value().at("code").as_string());
}

}  // namespace babelring::testing
