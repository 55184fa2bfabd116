#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "nmt/data/byte_source.h"
#include "nmt/data/line_reader.h"

namespace babelring {

/// Forms in which parallel text comes, told by content.
enum class TextForm {
  lines,   // a sentence on each line
  sgml,    // a set of mteval: <srcset>, <refset>, <tstset>, also in XML's syntax
  tsv,     // both sides on a line, separated by tabs
  tmx,     // Translation Memory eXchange
  xliff,   // XLIFF 1.2, 2.0, 2.1
  wmt,     // the XML of WMT's test sets: <dataset><doc><src>…<ref>
  markup,  // other XML or HTML
};

/// "TMX".
std::string_view name_of(TextForm form);
/// The same with its compression, if it has one: "TMX, gzip".
std::string describe(TextForm form, std::string_view compression);
/// Whether one file of this form holds source and target: TSV, TMX, XLIFF and WMT's XML.
bool holds_both_sides(TextForm form);

/// The form of data that begins with `start`, which is the whole of it or at least 64 KiB. TSV: nine of ten of the
/// first 100 lines have a tab.
TextForm form_of(std::string_view start);
/// The form of a regular file, compressed or not; `lines` for anything else, since a pipe can be read only once. Throws
/// Failure if it cannot be opened.
TextForm form_of(const std::filesystem::path& file);

/// The parts that are read of a file that holds both sides.
struct PairChoice {
  std::string source_language, target_language;  // BCP 47; "en" means each variant, such as en-GB; empty: of the file
  int source_column = 1, target_column = 2;      // of TSV, from 1
};

/// Reads pairs of texts from two files or from one, in the order of the source. Memory is bounded by a unit (of TMX,
/// XLIFF), or a document of WMT's XML, of at most 64 MiB. A sentence's lines become one, joined by a space. XML may be
/// in UTF-8, UTF-16 or ISO-8859-1; nothing outside of the file is loaded, and entities expand at most a hundredfold.
class PairSource {
 public:
  enum class Next {
    pair,
    too_few_columns,
    untranslated,  // a unit without one of the languages
    source_only,   // the target file has ended
    target_only,
    end,
  };

  PairSource() = default;
  virtual ~PairSource() = default;
  PairSource(const PairSource&) = delete;
  PairSource& operator=(const PairSource&) = delete;

  /// Reads the next pair, each side with the number of its first line. If one is absent, `source` has the text
  /// that is there. Throws Failure (file, line) on damaged data or XML that is not well-formed.
  virtual Next next(RawLine& source, RawLine& target) = 0;

  /// The file of each side, and the number of its lines or segments read.
  virtual const std::filesystem::path& source_file() const = 0;
  virtual const std::filesystem::path& target_file() const = 0;
  virtual std::int64_t source_lines() const = 0;
  virtual std::int64_t target_lines() const = 0;

  /// The languages that are read, as in "en to de"; empty if the form names none, or nothing was read yet.
  virtual std::string languages() const { return {}; }
};

/// Opens two files of lines or SGML, or one that holds both sides if `target` is empty, each plain or compressed.
/// Throws Failure if a file cannot be opened, or has a form that does not suit (of two files only when the first pair
/// is read): what was found, what was expected.
std::unique_ptr<PairSource> open_pairs(const std::filesystem::path& source, const std::filesystem::path& target,
                                       const PairChoice& choice);

/// Opens a file of `form`, one of TMX, XLIFF and WMT's XML.
std::unique_ptr<PairSource> open_xml_pairs(std::unique_ptr<ByteSource> source, const std::filesystem::path& file,
                                           TextForm form, const PairChoice& choice);

/// Makes one line of a text in markup: without white space at its ends, and with a space for each run of white space
/// that has a tab or a line end. Cut to LineReader::longest_bytes and marked if it is longer.
void finish_line(RawLine& line);

}  // namespace babelring
