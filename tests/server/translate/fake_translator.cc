// Does what `nmt translate --serve` and `nmt export` do, and misbehaves as the checkpoint's name, the text to translate
// or the format of the export say.
#include <unistd.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "base/json.h"

namespace {

namespace json = boost::json;

void hang() {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(60));
}

void write(const json::value& value) {
  std::cout << babelring::to_text(value) << std::endl;
}

void refuse(const json::value& id, const char* code, const std::string& detail) {
  write({{"id", id}, {"error", json::object{{"code", code}, {"detail", detail}}}});
}

/// The member of a request that this program refuses; empty if there is none.
std::string fault_of(const json::object& request) {
  for (const auto& [name, value] : request) {
    const std::string known = "id text max_subwords beam nbest length_penalty min_length first stream";
    if (known.find(name) == std::string::npos) return "unknown member '" + std::string(name) + "'";
    if (name == "min_length" && !value.is_int64()) return "min_length: found nonsense";
  }
  return "";
}

/// Translates by turning the letters round. `joined`: number of requests that came in the same line.
void answer(const json::object& request, std::size_t joined) {
  const json::value id = request.at("id");
  const json::value* first = request.if_contains("first");
  std::int64_t number = first == nullptr ? 0 : first->as_int64();
  json::array items;
  if (const std::string fault = fault_of(request); !fault.empty()) return refuse(id, "bad_request", fault);
  for (const json::value& line : request.at("text").as_array()) {
    std::string text(std::string_view(line.as_string()));
    if (text == "long") return refuse(id, "too_long", "text[" + std::to_string(number) + "]: 700 tokens");
    std::reverse(text.begin(), text.end());
    if (const json::value* least = request.if_contains("min_length")) text += "+" + std::to_string(least->as_int64());
    // For tests, source_pieces is the process id, and the score tells how many requests were joined: -1.5 of one alone.
    const json::object item = {{"hyp", text},
                               {"score", -0.5 - static_cast<double>(joined)},
                               {"source_pieces", getpid()},
                               {"nbest", json::array()}};
    if (request.contains("stream")) {
      for (std::size_t end = 1; end <= text.size(); ++end) {
        write({{"id", id}, {"line", number}, {"text", text.substr(0, end)}});
      }
      write({{"id", id}, {"line", number}, {"item", item}});
    }
    items.push_back(item);
    ++number;
  }
  write({{"id", id}, {"ms", 1.5}, {"items", std::move(items)}});
}

/// Answers the requests of a line, unless one of them makes the process fail.
void answer_all(const json::array& requests) {
  for (const json::value& request : requests) {
    for (const json::value& line : request.at("text").as_array()) {
      const std::string_view text(line.as_string());
      if (text == "die" || (text == "die-joined" && requests.size() > 1)) kill(getpid(), SIGKILL);
      if (text == "hang") hang();
      if (text == "nonsense") return write("nonsense");
    }
  }
  for (const json::value& request : requests) answer(request.as_object(), requests.size());
}

/// The word that follows `option` on the command line; empty if there is none.
std::string option_of(int argc, char** argv, const char* option) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], option) == 0) return argv[i + 1];
  }
  return "";
}

/// Writes an export beside its place and renames it. int8 hangs until the file `go` is beside the checkpoint's folder,
/// bfloat16 fails; so does Marian's format where the file `no-marian` is.
int export_checkpoint(int argc, char** argv, const std::filesystem::path& checkpoint) {
  namespace fs = std::filesystem;
  const std::string type = option_of(argc, argv, "--quantization"), output = option_of(argc, argv, "--output");
  std::ofstream(checkpoint.parent_path() / "exports", std::ios::app) << output << std::endl;
  if (type == "bfloat16") {
    std::cerr << "a log line\nnmt: found a language model, expected a translation model\n";
    return 2;
  }
  if (option_of(argc, argv, "--to") == "marian" && fs::exists(checkpoint.parent_path() / "no-marian")) {
    std::cerr << "nmt: export: Marian needs a model with model.norm: post (found pre), model.positions: marian (found "
                 "sinusoid)\n";
    return 2;
  }
  while (type == "int8" && !fs::exists(checkpoint.parent_path() / "go")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (option_of(argc, argv, "--to") == "argos") {
    std::ofstream(".tmp-x") << "PK" << option_of(argc, argv, "--from") << option_of(argc, argv, "--into");
  } else {
    fs::create_directories(".tmp-x/onnx");
    std::ofstream(".tmp-x/config.json") << "{}";
    std::ofstream(".tmp-x/onnx/encoder_model.onnx") << "encoder of " << checkpoint.filename().string();
  }
  fs::rename(".tmp-x", output);
  std::cout << output << ": exported" << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path checkpoint = option_of(argc, argv, "--checkpoint");
  if (argc > 1 && std::strcmp(argv[1], "export") == 0) return export_checkpoint(argc, argv, checkpoint);
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
    answer_all(babelring::parse_json(line).value().as_array());
  }
  return 0;
}
