#include <dlfcn.h>
#include <fmt/ranges.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/digest.h"
#include "base/failure.h"
#include "base/files.h"
#include "nmt/metrics/tokenizer.h"

namespace babelring {
namespace {

/// Names of sacreBLEU's models of SentencePiece, none of which we have, and one for any other.
constexpr const char* piece_models[] = {"spm", "flores101", "flores200", "spBLEU-1K"};

/// A dictionary of MeCab, recognised by its number of words as in sacreBLEU.
struct MecabDictionary {
  Tokenizer tokenizer;
  const char* name;
  unsigned words;
  const char* suffix;    // of the signature
  const char* addition;  // for the suffix if there is a word more; null: not known
  const char* fork;      // part of the library's version; "": any
  const char* advice;    // where library and dictionary come from
  std::vector<const char*> folders;
};

MecabDictionary dictionary_for(Tokenizer tokenizer) {
  if (tokenizer == Tokenizer::japanese) {
    return {.tokenizer = tokenizer,
            .name = "the IPA dictionary in UTF-8",
            .words = 392'126,
            .suffix = "IPA",
            .addition = "+Reiwa",  // Debian adds the era of 2019, for which sacreBLEU refuses its dictionary
            .fork = "",
            .advice = "apt install libmecab2 mecab-ipadic-utf8",
            .folders = {"/var/lib/mecab/dic/ipadic-utf8", "/usr/local/lib/mecab/dic/ipadic"}};
  }
  return {
      .tokenizer = tokenizer,
      .name = "mecab-ko-dic",
      .words = 811'795,
      .suffix = "KO",
      .fork = "ko",
      .advice = "Debian has neither MeCab-ko nor its dictionary: install mecab-ko and mecab-ko-dic from their sources",
      .folders = {"/usr/local/lib/mecab/dic/mecab-ko-dic", "/usr/lib/mecab/dic/mecab-ko-dic"}};
}

/// The begin of the description of a dictionary in the C interface of MeCab 0.996.
struct MecabDictionaryInfo {
  const char* filename;
  const char* charset;
  unsigned size;
};

/// The functions of MeCab's C interface that are used.
struct MecabFunctions {
  void* (*create)(const char* arguments) = nullptr;
  void (*destroy)(void* tagger) = nullptr;
  const char* (*split)(void* tagger, const char* text, std::size_t length) = nullptr;
  const char* (*error)(void* tagger) = nullptr;
  const char* (*version)() = nullptr;
  const MecabDictionaryInfo* (*dictionary)(void* tagger) = nullptr;
};

/// Loads libmecab.so.2, which stays loaded until the program ends.
Result<MecabFunctions> load_mecab() {
  void* library = ::dlopen("libmecab.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Error{"libmecab.so.2 is not installed"};
  MecabFunctions functions;
  bool complete = true;
  const auto take = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    complete = complete && function != nullptr;
  };
  take("mecab_new2", functions.create);
  take("mecab_destroy", functions.destroy);
  take("mecab_sparse_tostr2", functions.split);
  take("mecab_strerror", functions.error);
  take("mecab_version", functions.version);
  take("mecab_dictionary_info", functions.dictionary);
  if (!complete) return Error{"libmecab.so.2 lacks functions of MeCab 0.996"};
  return functions;
}

/// The text without white space at its end, and with `both` at its begin, as Python's rstrip() and strip().
std::string stripped(std::string_view line, bool both) {
  std::u32string text = to_utf32(line);
  while (!text.empty() && is_space(text.back())) text.pop_back();
  if (both) text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), is_space));
  return to_utf8(text);
}

class MecabSegmenter : public Segmenter {
 public:
  MecabSegmenter(const MecabFunctions& functions, const MecabDictionary& dictionary, const std::string& folder)
      : functions_(functions),
        name_(name_of(dictionary.tokenizer)),
        suffix_(dictionary.suffix),
        // An empty file of settings, so that those of the machine change nothing.
        tagger_(functions.create(fmt::format("-r /dev/null -d {} -O wakati", folder).c_str()), functions.destroy) {}

  /// The number of words of the dictionary; 0: none was opened.
  unsigned words() const { return tagger_ == nullptr ? 0 : functions_.dictionary(tagger_.get())->size; }
  void add_suffix(const char* addition) { suffix_ += addition; }

  std::vector<std::u32string> split(std::string_view line) const override {
    const std::string text = stripped(line, true);
    const char* words = functions_.split(tagger_.get(), text.data(), text.size());
    if (words == nullptr) {
      fail("{}: MeCab cannot read a line of {} bytes: {}", name_, text.size(), functions_.error(tagger_.get()));
    }
    return split_words(to_utf32(words));
  }
  std::string signature() const override { return fmt::format("{}-{}-{}", name_, functions_.version(), suffix_); }

 private:
  MecabFunctions functions_;
  std::string name_, suffix_;
  std::unique_ptr<void, void (*)(void*)> tagger_;
};

class PieceSegmenter : public Segmenter {
 public:
  PieceSegmenter(std::string_view name, std::string_view model)
      : signature_(fmt::format("{}[{:.12}]", name, sha256_hex(model))),
        loaded_(!model.empty() && processor_.LoadFromSerializedProto({model.data(), model.size()}).ok()) {}

  bool loaded() const { return loaded_; }

  std::vector<std::u32string> split(std::string_view line) const override {
    std::vector<std::string> pieces;
    const auto status = processor_.Encode(stripped(line, false), &pieces);
    if (!status.ok()) fail("{}: SentencePiece cannot encode a line: {}", signature_, status.ToString());
    std::vector<std::u32string> words;
    words.reserve(pieces.size());
    for (const std::string& piece : pieces) words.push_back(to_utf32(piece));
    return words;
  }
  std::string signature() const override { return signature_; }

 private:
  std::string signature_;
  sentencepiece::SentencePieceProcessor processor_;
  bool loaded_;
};

}  // namespace

Result<std::shared_ptr<const Segmenter>> open_mecab(Tokenizer tokenizer) {
  const MecabDictionary dictionary = dictionary_for(tokenizer);
  const auto missing = [&](const std::string& reason) {
    return Error{fmt::format("{}: {} ({})", name_of(tokenizer), reason, dictionary.advice)};
  };
  const Result<MecabFunctions> functions = load_mecab();
  if (!functions) return missing(functions.error());
  const std::string release = functions->version();
  if (release.find(dictionary.fork) == release.npos) return missing("found MeCab " + release + ", expected MeCab-ko");
  for (const char* folder : dictionary.folders) {
    if (!std::filesystem::exists(folder)) continue;
    const auto segmenter = std::make_shared<MecabSegmenter>(*functions, dictionary, folder);
    const bool added = dictionary.addition != nullptr && segmenter->words() == dictionary.words + 1;
    if (added) segmenter->add_suffix(dictionary.addition);
    if (added || segmenter->words() == dictionary.words) return std::shared_ptr<const Segmenter>(segmenter);
    return missing(fmt::format("{} has {} words, expected {} of {}", folder, segmenter->words(), dictionary.words,
                               dictionary.name));
  }
  return missing(fmt::format("{} is not installed", dictionary.name));
}

namespace {

/// Opens a SentencePiece model, whose pieces are the tokens.
Result<std::shared_ptr<const Segmenter>> open_pieces(std::string_view name, const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(file)) return Error{fmt::format("{}: no such file", file.string())};
  const auto segmenter = std::make_shared<const PieceSegmenter>(name, read_file(file));
  if (!segmenter->loaded()) return Error{fmt::format("{} is not a SentencePiece model", file.string())};
  return std::shared_ptr<const Segmenter>(segmenter);
}

}  // namespace

std::vector<std::string> TokenizerChoice::words() {
  std::vector<std::string> words = words_of(tokenizers());
  for (const char* model : piece_models) words.push_back(std::string(model) + ":FILE");
  return words;
}

Result<TokenizerChoice> TokenizerChoice::parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const bool known = std::find(std::begin(piece_models), std::end(piece_models), name) != std::end(piece_models);
  if (colon == text.npos || !known) {
    const Result<Tokenizer> tokenizer = parse_tokenizer(text);
    if (!tokenizer) return Error{fmt::format("found '{}', expected {}", text, fmt::join(words(), ", "))};
    return TokenizerChoice{.tokenizer = *tokenizer};
  }
  Result<std::shared_ptr<const Segmenter>> segmenter = open_pieces(name, text.substr(colon + 1));
  if (!segmenter) return Error{segmenter.error()};
  return TokenizerChoice{.tokenizer = Tokenizer::none, .segmenter = std::move(segmenter).value()};
}

}  // namespace babelring
