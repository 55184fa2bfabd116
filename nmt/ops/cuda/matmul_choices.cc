#include "nmt/ops/cuda/matmul_choices.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <charconv>
#include <utility>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/result.h"

namespace babelring::cuda {

namespace {

constexpr std::string_view format_name = "babelring products 2";
constexpr std::size_t word_digits = 16;

std::string hex_of(const std::array<std::uint64_t, 8>& words) {
  std::string text;
  for (const std::uint64_t word : words) text += fmt::format("{:016x}", word);
  return text;
}

bool read_hex(std::string_view text, std::array<std::uint64_t, 8>& words) {
  if (text.size() != words.size() * word_digits) return false;
  for (std::uint64_t& word : words) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + word_digits, word, 16);
    if (error != std::errc() || end != text.data() + word_digits) return false;
    text.remove_prefix(word_digits);
  }
  return true;
}

bool read_ms(const json::object& line, std::string_view name, float& ms) {
  const json::value* value = line.if_contains(name);
  if (value == nullptr || !value->is_number()) return false;
  ms = value->to_number<float>();
  return true;
}

bool read_key(const json::object& line, MatmulKey& key) {
  const json::value* value = line.if_contains("shape");
  const json::array* numbers = value == nullptr ? nullptr : value->if_array();
  if (numbers == nullptr || numbers->size() != key.size()) return false;
  for (std::size_t i = 0; i < key.size(); ++i) {
    if (!(*numbers)[i].is_int64()) return false;
    key[i] = (*numbers)[i].get_int64();
  }
  return true;
}

/// A line after the first; false if it is not what add() writes.
bool read_choice(const std::string& text, MatmulKey& key, MatmulChoice& choice) {
  const Result<json::value> parsed = parse_json(text);
  const json::object* line = parsed.ok() ? parsed->if_object() : nullptr;
  const json::value* algorithm = line == nullptr ? nullptr : line->if_contains("algorithm");
  if (algorithm == nullptr || !read_key(*line, key) || !read_ms(*line, "first_ms", choice.first_ms) ||
      !read_ms(*line, "chosen_ms", choice.chosen_ms)) {
    return false;
  }
  return algorithm->is_string() && read_hex(algorithm->get_string(), choice.algorithm);
}

std::string first_line(const std::string& gpu, const std::string& cublaslt) {
  return to_text(json::object{{"format", format_name}, {"gpu", gpu}, {"cublaslt", cublaslt}}) + "\n";
}

std::string text_in(const json::object* line, std::string_view name) {
  const json::value* value = line == nullptr ? nullptr : line->if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

}  // namespace

MatmulChoices::MatmulChoices(std::filesystem::path file, std::string gpu, std::string cublaslt)
    : file_(std::move(file)), gpu_(std::move(gpu)), cublaslt_(std::move(cublaslt)) {
  if (file_.empty()) return;
  std::error_code error;
  if (file_.has_parent_path()) std::filesystem::create_directories(file_.parent_path(), error);
  const bool is_new = !std::filesystem::exists(file_, error);
  const std::string text = is_new ? "" : read_file(file_);
  const std::string kept = is_new ? first_line(gpu_, cublaslt_) : take(text);
  if (kept != text) write_file_atomically(file_, kept);
  out_.open(file_, std::ios::app);
  if (!out_) fail("chosen matmuls: {} cannot be written", file_.string());
}

std::string MatmulChoices::take(const std::string& text) {
  std::string kept;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size(); ++number) {
    const std::size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    if (number == 0) {
      const Result<json::value> parsed = parse_json(line);
      const json::object* object = parsed.ok() ? parsed->if_object() : nullptr;
      const std::string gpu = text_in(object, "gpu"), cublaslt = text_in(object, "cublaslt");
      if (end == std::string::npos || text_in(object, "format") != format_name) {
        status_ =
            Error{fmt::format("chosen matmuls: {}: found another first line than this version writes; matmuls are "
                              "timed anew",
                              file_.string())};
        return first_line(gpu_, cublaslt_);
      }
      if (gpu != gpu_ || cublaslt != cublaslt_) {
        status_ =
            Error{fmt::format("chosen matmuls: {} was made on {} with cuBLASLt {}, this is {} with {}; matmuls are "
                              "timed anew",
                              file_.string(), gpu, cublaslt, gpu_, cublaslt_)};
        return first_line(gpu_, cublaslt_);
      }
    } else {
      MatmulKey key{};
      MatmulChoice choice;
      if (end == std::string::npos || !read_choice(line, key, choice)) {
        status_ = Error{fmt::format("chosen matmuls: {}:{}: found a damaged line; matmuls from there on are timed anew",
                                    file_.string(), number + 1)};
        return kept;
      }
      choices_[key] = choice;
    }
    begin = end + 1;
    kept = text.substr(0, begin);
  }
  return kept.empty() ? first_line(gpu_, cublaslt_) : kept;
}

const MatmulChoice* MatmulChoices::find(const MatmulShape& shape) const {
  const auto found = choices_.find(key_of(shape));
  return found == choices_.end() ? nullptr : &found->second;
}

void MatmulChoices::add(const MatmulShape& shape, const MatmulChoice& choice) {
  const MatmulKey key = key_of(shape);
  choices_[key] = choice;
  if (file_.empty()) return;
  const std::string epilogue = text_of(shape.epilogue);
  const json::object line{{"product", text_of(shape) + (epilogue.empty() ? "" : ", " + epilogue)},
                          {"shape", json::array(key.begin(), key.end())},
                          {"algorithm", hex_of(choice.algorithm)},
                          {"first_ms", choice.first_ms},
                          {"chosen_ms", choice.chosen_ms}};
  out_ << to_text(line) << std::endl;
  if (!out_) fail("chosen matmuls: {} cannot be written", file_.string());
}

}  // namespace babelring::cuda
