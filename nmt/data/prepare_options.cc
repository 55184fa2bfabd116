#include "nmt/data/prepare.h"

#include <algorithm>

#include "base/failure.h"
#include "nmt/data/corpus.h"

namespace babelring {

bool is_corpus_name(std::string_view name) {
  constexpr std::string_view characters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  constexpr std::size_t max_characters = 40;
  return !name.empty() && name.size() <= max_characters && name != "until" && name.front() != '-' &&
         name.find_first_not_of(characters) == std::string_view::npos;
}

void Suspects::check(const Vocabulary& used) const {
  if (vocabulary == used.digest()) return;
  fail(
      "prepare: --drop-suspects: the losses of {} are of pairs in pieces of the vocabulary {:.12}, found {:.12}; "
      "expected --vocabulary with the folder that the run was trained on, or its checkpoint",
      file.string(), vocabulary, used.digest());
}

std::optional<double> Suspects::find(std::span<const std::int32_t> source, std::span<const std::int32_t> target) const {
  const auto found = kept.find(pair_hash(source, target));
  return found != kept.end() ? std::optional(found->second) : std::nullopt;
}

json::object to_json(const PrepareOptions& options) {
  json::array inputs;
  const auto add = [&](const char* set, const TextFiles& files, const std::string& corpus = "") {
    json::object input{{"set", set}, {"source", files.source.string()}};
    if (!files.target.empty()) input["target"] = files.target.string();
    if (!corpus.empty()) input["corpus"] = corpus;
    inputs.push_back(std::move(input));
  };
  for (const TextFiles& files : options.train) add("train", files);
  for (const NamedText& corpus : options.corpora) {
    for (const TextFiles& files : corpus.files) add("train", files, corpus.name);
  }
  if (options.valid) add("valid", *options.valid);
  if (options.test) add("test", *options.test);
  return {{"inputs", std::move(inputs)},
          {"languages", json::array{options.choice.source_language, options.choice.target_language}},
          {"columns", json::array{options.choice.source_column, options.choice.target_column}},
          {"model", options.vocabulary.model},
          {"vocabulary_size", options.vocabulary.size},
          {"use_vocabulary", options.use_vocabulary.string()},
          {"character_coverage", options.vocabulary.character_coverage},
          {"byte_fallback", options.vocabulary.byte_fallback},
          {"normalization", options.vocabulary.normalization},
          {"symbols", json::array(options.vocabulary.symbols.begin(), options.vocabulary.symbols.end())},
          {"vocabulary_lines", options.vocabulary_lines},
          {"min_words", options.filter.min_words},
          {"max_words", options.filter.max_words},
          {"max_word_length", options.filter.max_word_length},
          {"max_ratio", options.filter.max_ratio},
          {"keep_identical", options.filter.keep_identical},
          {"keep_duplicates", options.filter.keep_duplicates},
          {"keep_held_out", options.filter.keep_held_out},
          {"min_script", options.filter.min_script},
          {"scripts", json::array(options.filter.scripts.begin(), options.filter.scripts.end())},
          {"identify", options.filter.identify},
          {"max_symbols", options.filter.max_symbols},
          {"max_repeated", options.filter.max_repeated},
          {"min_numbers", options.filter.min_numbers},
          {"same_addresses", options.filter.same_addresses},
          {"drop_near_identical", options.filter.drop_near_identical},
          {"drop_near_duplicates", options.filter.drop_near_duplicates},
          {"drop_suspects", options.suspects ? options.suspects->file.string() : ""},
          {"suspects", options.suspects ? options.suspects->fraction : 0},
          {"max_pieces", options.max_pieces},
          {"max_unknown", options.max_unknown},
          {"align", options.align},
          {"unequal", options.unequal == Unequal::refuse ? "refuse" : "truncate"}};
}

}  // namespace babelring
