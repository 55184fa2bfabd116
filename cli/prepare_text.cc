#include "cli/prepare_text.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/failure.h"
#include "base/text.h"
#include "nmt/data/pair_source.h"
#include "nmt/data/vocabulary.h"

namespace babelring {

namespace {

bool is_same_file(const std::string& one, const std::string& other) {
  std::error_code error;
  return std::filesystem::is_regular_file(one, error) && std::filesystem::equivalent(one, other, error);
}

/// The files of an option as inputs: each that holds both sides alone, others as pairs. A lone last file is left to be
/// told by content when it is read: it may be a pipe.
std::vector<TextFiles> text_files(const std::string& option, const std::vector<std::string>& given) {
  std::vector<TextFiles> inputs;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const TextForm form = form_of(std::filesystem::path(given[i]));
    if (holds_both_sides(form)) {
      inputs.push_back({given[i], {}});
      continue;
    }
    if (i + 1 == given.size()) {
      if (!std::filesystem::is_regular_file(given[i])) {
        inputs.push_back({given[i], {}});
        break;
      }
      throw UsageFailure(fmt::format(
          "{}: found {} file{}, '{}' ({}) is without a target; expected source and target in turn, or files of TSV, "
          "TMX, XLIFF or XML of WMT, which hold both",
          option, given.size(), given.size() == 1 ? "" : "s", given.back(), name_of(form)));
    }
    const TextForm next = form_of(std::filesystem::path(given[i + 1]));
    if (holds_both_sides(next) && next != TextForm::tsv) {
      throw UsageFailure(
          fmt::format("{}: '{}' is {}, which holds both sides, and stands in the place of the target of "
                      "'{}' ({})",
                      option, given[i + 1], name_of(next), given[i], name_of(form)));
    }
    inputs.push_back({given[i], given[i + 1]});
    ++i;
  }
  return inputs;
}

std::string named(const TextFiles& files) {
  return files.target.empty() ? files.source.string()
                              : fmt::format("{} and {}", files.source.string(), files.target.string());
}

/// Warns if the files are among those of `texts`.
bool is_given(const std::vector<NamedText>& texts, const TextFiles& files) {
  for (const NamedText& text : texts) {
    const auto again = std::find_if(text.files.begin(), text.files.end(), [&](const TextFiles& earlier) {
      return is_same_file(earlier.source, files.source) && earlier.target.empty() == files.target.empty() &&
             (files.target.empty() || is_same_file(earlier.target, files.target));
    });
    if (again == text.files.end()) continue;
    const bool one = files.target.empty();
    spdlog::warn("--train: {} {} read once{}: {} {}", named(files), one ? "is" : "are",
                 text.name.empty() ? "" : ", for corpus " + text.name, one ? "it is the file" : "they are the files",
                 named(*again));
    return true;
  }
  return false;
}

/// The text of a corpus, new or with a --train already.
NamedText& text_of(std::vector<NamedText>& texts, const TrainOption& option) {
  const auto known =
      std::find_if(texts.begin(), texts.end(), [&](const NamedText& text) { return text.name == option.name; });
  if (known == texts.end()) {
    texts.push_back({.name = option.name, .tag = option.tag, .files = {}});
    return texts.back();
  }
  if (known->tag != option.tag) {
    const auto found = [](const std::string& tag) { return tag.empty() ? std::string("none") : "'" + tag + "'"; };
    throw UsageFailure(fmt::format("--tag: found {} and {} for corpus {}, expected one tag for all of its text",
                                   found(known->tag), found(option.tag), option.name));
  }
  return *known;
}

/// The files of all as if they stood behind one --train.
TrainOption joined(const std::vector<TrainOption>& train) {
  TrainOption all;
  for (const TrainOption& option : train) all.files.insert(all.files.end(), option.files.begin(), option.files.end());
  return all;
}

TrainOption& option_before(std::vector<TrainOption>& train, const char* option, const std::string& text) {
  if (!train.empty()) return train.back();
  throw UsageFailure(
      fmt::format("{}: found '{}' before any --train, expected it behind the files to which it belongs", option, text));
}

void set_once(std::string& member, const char* option, const std::string& text) {
  if (!member.empty()) {
    throw UsageFailure(
        fmt::format("{}: found '{}' and '{}' for one --train, expected one of them", option, member, printable(text)));
  }
  member = text;
}

}  // namespace

void name_text(std::vector<TrainOption>& train, const std::string& name) {
  TrainOption& option = option_before(train, "--as", printable(name));
  if (!is_corpus_name(name)) {
    throw UsageFailure(
        fmt::format("--as: found '{}', expected 1 to 40 letters, digits, _ or -, and not until", printable(name)));
  }
  set_once(option.name, "--as", name);
}

void tag_text(std::vector<TrainOption>& train, const std::string& tag) {
  TrainOption& option = option_before(train, "--tag", printable(tag));
  check_symbols({tag}, "--tag");
  set_once(option.tag, "--tag", tag);
}

std::vector<NamedText> training_texts(const std::vector<TrainOption>& train) {
  std::vector<NamedText> texts;
  const auto has_name = [](const TrainOption& option) { return !option.name.empty(); };
  const bool names = std::any_of(train.begin(), train.end(), has_name);
  for (const TrainOption& option : train) {
    if (!has_name(option) && (names || !option.tag.empty())) {
      throw UsageFailure(fmt::format("--train: '{}' has no name but {}, expected --as NAME behind it",
                                     option.files.front(), names ? "other text has one" : "a --tag"));
    }
  }
  for (const TrainOption& option : names ? train : std::vector<TrainOption>{joined(train)}) {
    NamedText& text = text_of(texts, option);
    for (const TextFiles& files : text_files("--train", option.files)) {
      if (!is_given(texts, files)) text.files.push_back(files);
    }
  }
  if (texts.size() > max_corpora) {
    throw UsageFailure(fmt::format("--as: found {} names, expected at most {}", texts.size(), max_corpora));
  }
  for (const NamedText& text : texts) {
    if (text.files.empty()) {
      throw UsageFailure(
          fmt::format("--as: all files of corpus {} were given before, expected another file", text.name));
    }
  }
  return texts;
}

std::optional<TextFiles> held_out_files(const std::string& option, const std::vector<std::string>& given) {
  std::vector<TextFiles> inputs = text_files(option, given);
  if (inputs.size() > 1) {
    throw UsageFailure(
        fmt::format("{}: found '{}' ({}) and '{}', expected one file that holds both sides, or source and target",
                    option, given[0], name_of(form_of(std::filesystem::path(given[0]))), given[1]));
  }
  if (inputs.empty()) return std::nullopt;
  return inputs.front();
}

}  // namespace babelring
