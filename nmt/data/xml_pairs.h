#pragma once

#include <expat.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "nmt/data/pair_source.h"

namespace babelring {

/// The attributes of an element: names and values in turn, then null.
using XmlAttributes = const char**;

/// The value of an attribute; empty if there is none.
std::string get_attribute(XmlAttributes attributes, std::string_view name);

/// 2: the wanted language (in letters of any case, "_" as "-"), 1: a variant of it, 0: another one. An empty one suits
/// an empty one.
int suits_language(std::string_view found, std::string_view wanted);

/// Parses XML, from which a form takes pairs.
///
/// By Expat rather than libxml2: a parser that is fed, so that memory stays bounded; it loads nothing from outside by
/// itself and bounds the expansion of entities (since 2.4); its interface is the same on Debian 12 and 13.
class XmlPairs : public PairSource {
 public:
  XmlPairs(std::unique_ptr<ByteSource> source, std::filesystem::path file, TextForm form, const PairChoice& choice);

  Next next(RawLine& source, RawLine& target) override;
  const std::filesystem::path& source_file() const override { return file_; }
  const std::filesystem::path& target_file() const override { return file_; }
  std::int64_t source_lines() const override { return read_; }
  std::int64_t target_lines() const override { return read_; }
  std::string languages() const override;

 protected:
  /// An element begins or ends; `name` is without a prefix. Not called for elements inside of a captured text, which
  /// are inline: the end of the element that capture() was called in is the next one. Both may throw.
  virtual void open(std::string_view name, XmlAttributes attributes) = 0;
  virtual void close(std::string_view name) = 0;

  std::int64_t line() const {
#if XML_MAJOR_VERSION > 2 || XML_MINOR_VERSION >= 9  // which deprecates the other
    return static_cast<std::int64_t>(XML_GetCurrentLineNumber64(parser_.get()));
#else
    return static_cast<std::int64_t>(XML_GetCurrentLineNumber(parser_.get()));
#endif
  }

  /// The text that is captured from here on counts anew against its limit.
  void begin_unit() { unit_bytes_ = 0; }
  /// Takes the text from here to the next captured(), without native codes of other programs.
  void capture();
  bool capturing() const { return capturing_; }
  RawLine captured();

  /// Remembers a language of the file, for the message that a wanted one is absent.
  void saw(std::string_view language);
  /// Sets the languages to read, unless the user chose them.
  void set_languages(const std::string& from, const std::string& to);
  bool knows_languages() const { return !from_.empty() && !to_.empty(); }

  /// Throws Failure (file, line, element) if `inside`: a unit, document or version begins before the last has ended.
  void refuse_nested(bool inside, std::string_view name) const;
  /// Throws Failure (file, line, element) if `outside`: an element without the unit or document that it belongs to.
  void refuse_outside(bool outside, std::string_view name, std::string_view unit) const;

  /// Adds a pair, or what is there of it. Takes the texts.
  void add(RawLine* source, RawLine* target);

  const std::filesystem::path& file() const { return file_; }
  std::string from_, to_;  // languages

 private:
  struct Found {
    Next kind;
    RawLine source, target;
  };
  struct Handlers;
  void feed();
  std::string defect() const;
  void require_languages() const;
  void begin(std::string_view name, XmlAttributes attributes);
  void end(std::string_view name);
  void take(std::string_view text);

  std::unique_ptr<ByteSource> bytes_;
  std::filesystem::path file_;
  TextForm form_;
  std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser_;
  std::vector<char> chunk_;
  std::exception_ptr failure_;  // of a handler
  std::deque<Found> found_;
  std::set<std::string> seen_;  // languages
  std::int64_t read_ = 0;
  std::size_t unit_bytes_ = 0, tag_bytes_ = 0;  // tag_bytes_: since the last event
  RawLine text_;
  int depth_ = 0, code_depth_ = 0;  // elements that are open inside of a captured text; since the outermost code
  bool capturing_ = false, ended_ = false, told_ = false;
};

}  // namespace babelring
