#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "nmt/data/xml_pairs.h"

namespace babelring {

namespace {

/// A text of a unit.
struct Text {
  std::string language;
  RawLine line;
};

/// The first text that suits best; null if none does.
template <typename T>
T* best_of(std::vector<T>& texts, std::string_view wanted) {
  T* found = nullptr;
  for (T& text : texts) {
    if (suits_language(text.language, wanted) > (found == nullptr ? 0 : suits_language(found->language, wanted)))
      found = &text;
  }
  return found;
}

/// <tmx><header srclang><body><tu><tuv xml:lang><seg>. Source: TMX 1.4b.
class TmxPairs : public XmlPairs {
 public:
  using XmlPairs::XmlPairs;

 private:
  void open(std::string_view name, XmlAttributes attributes) override {
    if (name == "header") main_language_ = get_attribute(attributes, "srclang");
    if (name == "tu") {
      refuse_nested(std::exchange(in_unit_, true), name);
      begin_unit();
      texts_.clear();
    } else if (name == "tuv") {
      const std::string language = get_attribute(attributes, "xml:lang");
      language_ = language.empty() ? get_attribute(attributes, "lang") : language;  // TMX 1.1
      saw(language_);
    } else if (name == "seg") {
      refuse_outside(!in_unit_, name, "tu");
      capture();
    }
  }

  void close(std::string_view name) override {
    if (name == "seg" && capturing()) texts_.push_back({language_, captured()});
    if (name != "tu") return;
    in_unit_ = false;
    if (!knows_languages()) find_languages();
    if (!knows_languages()) return add(texts_.empty() ? nullptr : &texts_.front().line, nullptr);
    Text* source = best_of(texts_, from_);
    Text* target = best_of(texts_, to_);
    add(source != nullptr ? &source->line : nullptr, target != nullptr ? &target->line : nullptr);
  }

  /// Takes the languages of the first unit with two: the source is that of the header.
  void find_languages() {
    std::vector<std::string> found;
    for (const Text& text : texts_) {
      if (std::find(found.begin(), found.end(), text.language) == found.end()) found.push_back(text.language);
    }
    if (found.size() < 2) return;
    if (found.size() > 2) {
      fail("{}:{}: a unit in {} languages ({}); expected --languages, such as en,de", file().string(), line(),
           found.size(), fmt::join(found, ", "));
    }
    const auto is_main = [&](const std::string& language) {
      return std::max(suits_language(language, main_language_), suits_language(main_language_, language));
    };
    if (is_main(found[1]) > is_main(found[0])) std::swap(found[0], found[1]);
    set_languages(found[0], found[1]);
  }

  std::string main_language_, language_;
  std::vector<Text> texts_;
  bool in_unit_ = false;
};

/// <xliff><file source-language target-language><trans-unit><source><target> of 1.2, <xliff srcLang trgLang><file>
/// <unit><segment><source><target> of 2.0 and 2.1. Source: OASIS, XLIFF 1.2 and 2.1.
class XliffPairs : public XmlPairs {
 public:
  using XmlPairs::XmlPairs;

 private:
  void open(std::string_view name, XmlAttributes attributes) override {
    // Proposals of a memory, notes and parts between segments also have elements named source and target.
    static constexpr std::array<std::string_view, 5> others = {"alt-trans", "match", "note", "ignorable", "seg-source"};
    if (ignored_ > 0 || std::find(others.begin(), others.end(), name) != others.end()) {
      ++ignored_;
    } else if (name == "xliff" || name == "file") {
      enter_file(get_attribute(attributes, name == "file" ? "source-language" : "srcLang"),
                 get_attribute(attributes, name == "file" ? "target-language" : "trgLang"));
    } else if (name == "trans-unit" || name == "segment") {
      refuse_nested(in_unit_, name);
      begin_unit();
      has_source_ = has_target_ = false;
      in_unit_ = true;
    } else if (in_unit_ && name == "source") {
      capture();
    } else if (in_unit_ && name == "target") {
      const std::string state = get_attribute(attributes, "state");
      is_new_ = state == "new" || state == "needs-translation";
      capture();
    }
  }

  void close(std::string_view name) override {
    if (ignored_ > 0) {
      --ignored_;
    } else if (capturing() && name == "source") {
      source_ = captured();
      has_source_ = true;
    } else if (capturing() && name == "target") {
      target_ = captured();
      has_target_ = !is_new_;
    } else if (name == "trans-unit" || name == "segment") {
      in_unit_ = false;
      add_unit();
    }
  }

  void enter_file(const std::string& source, const std::string& target) {
    if (!source.empty()) source_language_ = source;
    if (!target.empty()) target_language_ = target;
    saw(source);
    saw(target);
  }

  void add_unit() {
    if (!knows_languages()) set_languages(source_language_, target_language_);
    const bool forward = suits_language(source_language_, from_) > 0 && suits_language(target_language_, to_) > 0;
    const bool backward = suits_language(source_language_, to_) > 0 && suits_language(target_language_, from_) > 0;
    RawLine* source = has_source_ && (forward || backward) ? &source_ : nullptr;
    RawLine* target = has_target_ && (forward || backward) ? &target_ : nullptr;
    if (backward && !forward) std::swap(source, target);
    add(source, target);
  }

  std::string source_language_, target_language_;
  RawLine source_, target_;
  bool in_unit_ = false, has_source_ = false, has_target_ = false, is_new_ = false;
  int ignored_ = 0;
};

/// <dataset><doc><src lang><p><seg id>, then <ref lang translator> and <hyp system> alike. Source: WMT, since 2021.
class WmtPairs : public XmlPairs {
 public:
  using XmlPairs::XmlPairs;

 private:
  struct Version {
    std::string language;
    bool is_source = false;
    std::vector<std::pair<std::string, RawLine>> segments;  // by id
  };

  void open(std::string_view name, XmlAttributes attributes) override {
    if (name == "doc") {
      refuse_nested(std::exchange(in_document_, true), name);
      begin_unit();
      versions_.clear();
    } else if (name == "src" || name == "ref") {
      refuse_outside(!in_document_, name, "doc");
      refuse_nested(in_version_, name);
      versions_.push_back({.language = get_attribute(attributes, "lang"), .is_source = name == "src"});
      in_version_ = true;
      saw(versions_.back().language);
    } else if (name == "seg" && in_version_) {
      id_ = get_attribute(attributes, "id");
      capture();
    }
  }

  void close(std::string_view name) override {
    if (name == "seg" && capturing()) versions_.back().segments.emplace_back(id_, captured());
    if (name == "src" || name == "ref") in_version_ = false;
    if (name == "doc") add_document();
  }

  void add_document() {
    in_document_ = false;
    const auto find = [&](bool source) {
      return std::find_if(versions_.begin(), versions_.end(),
                          [&](const Version& one) { return one.is_source == source; });
    };
    if (const auto source = find(true), reference = find(false);
        !knows_languages() && source != versions_.end() && reference != versions_.end()) {
      set_languages(source->language, reference->language);
    }
    Version* from = from_.empty() ? nullptr : best_of(versions_, from_);
    Version* to = to_.empty() ? nullptr : best_of(versions_, to_);
    if (from == nullptr && find(true) != versions_.end() && to == nullptr) from = &*find(true);
    if (from == nullptr) return;
    std::unordered_map<std::string, RawLine*> targets;
    if (to != nullptr) {
      for (auto& [id, text] : to->segments) targets.emplace(id, &text);
    }
    for (auto& [id, text] : from->segments) {
      const auto target = targets.find(id);
      add(&text, target != targets.end() ? target->second : nullptr);
    }
  }

  std::string id_;
  std::vector<Version> versions_;
  bool in_document_ = false, in_version_ = false;
};

}  // namespace

std::unique_ptr<PairSource> open_xml_pairs(std::unique_ptr<ByteSource> source, const std::filesystem::path& file,
                                           TextForm form, const PairChoice& choice) {
  if (form == TextForm::tmx) return std::make_unique<TmxPairs>(std::move(source), file, form, choice);
  if (form == TextForm::xliff) return std::make_unique<XliffPairs>(std::move(source), file, form, choice);
  return std::make_unique<WmtPairs>(std::move(source), file, form, choice);
}

}  // namespace babelring
