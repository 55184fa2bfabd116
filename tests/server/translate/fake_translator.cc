// Speaks as `nmt translate --serve` does, and misbehaves as the checkpoint's name and the text to translate say.
#include <unistd.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <thread>

#include "base/json.h"

namespace {

namespace json = boost::json;

void hang() {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(60));
}

json::value answer(const json::object& request) {
  const json::value id = request.at("id");
  json::array items;
  for (const json::value& line : request.at("text").as_array()) {
    std::string text(std::string_view(line.as_string()));
    if (text == "die") kill(getpid(), SIGKILL);
    if (text == "hang") hang();
    if (text == "nonsense") return "nonsense";
    if (text == "long") {
      return {{"id", id}, {"error", json::object{{"code", "too_long"}, {"detail", "text[0]: 700 tokens"}}}};
    }
    std::reverse(text.begin(), text.end());
    // source_pieces is the process id, so that a test knows who answered.
    items.push_back({{"hyp", text}, {"score", -1.5}, {"source_pieces", getpid()}, {"nbest", json::array()}});
  }
  return {{"id", id}, {"ms", 1.5}, {"items", std::move(items)}};
}

}  // namespace

int main(int argc, char** argv) {
  std::filesystem::path checkpoint;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--checkpoint") == 0) checkpoint = argv[i + 1];
  }
  const std::string kind = checkpoint.filename();
  if (kind == "damaged") {
    std::cerr << "a log line\nnmt: weights.safetensors: SHA-256 is other\n";
    return 1;
  }
  if (kind == "dies-loading") kill(getpid(), SIGKILL);
  if (kind == "hangs-loading") hang();
  if (kind == "talks") std::cerr << std::string(300000, 'x') << std::endl;  // more than a pipe holds
  std::cout << R"({"ready":true})" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << babelring::to_text(answer(babelring::parse_json(line).value().as_object())) << std::endl;
  }
  return 0;
}
