// The format: Argos Translate, argostranslate/package.py and translate.py.
#include <unicode/locid.h>
#include <unicode/unistr.h>
#include <zip.h>

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "nmt/interop/export.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

/// The English name of a language by its ISO 639 code; throws UsageFailure if it has none.
std::string language_name(const std::string& code, std::string_view option) {
  icu::UnicodeString text;
  const icu::Locale language(code.c_str());
  language.getDisplayLanguage(icu::Locale::getEnglish(), text);
  std::string name;
  text.toUTF8String(name);
  const bool is_code = !code.empty() && code == language.getLanguage() && name != code;
  if (!is_code) throw UsageFailure(fmt::format("{}: found '{}', expected a language's code, such as en", option, code));
  return name;
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};

}  // namespace

void check_languages(const ExportOptions& options) {
  language_name(options.from, "--from");
  language_name(options.into, "--into");
  if (options.from == options.into) throw UsageFailure(fmt::format("--into: found {} again", options.into));
}

std::string argos_folder(const ExportOptions& options) {
  return fmt::format("translate-{}_{}-1_0", options.from, options.into);
}

void write_argos(const ExportedModel& model, const ExportOptions& options, const fs::path& folder) {
  fs::create_directory(folder / "model");
  write_ctranslate2(model, options.quantization, folder / "model");
  fs::rename(folder / "model" / "sentencepiece.model", folder / "sentencepiece.model");
  const json::object metadata = {{"package_version", "1.0"},  {"argos_version", "1.0"},
                                 {"from_code", options.from}, {"from_name", language_name(options.from, "--from")},
                                 {"to_code", options.into},   {"to_name", language_name(options.into, "--into")}};
  write_file_atomically(folder / "metadata.json", to_text(metadata) + "\n");
}

void write_zip(const fs::path& folder, const fs::path& root, const fs::path& file) {
  int error = 0;
  std::unique_ptr<zip_t, Discard> owner(zip_open(file.c_str(), ZIP_CREATE | ZIP_EXCL, &error));
  zip_t* const archive = owner.get();
  if (archive == nullptr) fail("export: {}: cannot create a zip archive (libzip's error {})", file.string(), error);
  const auto require = [&](bool done) {
    if (!done) fail("export: {}: {}", file.string(), zip_strerror(archive));
  };
  for (const fs::path& path : files_below(folder)) {
    const std::string name = fs::relative(path, root).string();
    zip_source_t* const source = zip_source_file(archive, path.c_str(), 0, -1);  // to the end of the file
    require(source != nullptr);
    const zip_int64_t added = zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (added < 0) zip_source_free(source);
    require(added >= 0);
    const auto entry = static_cast<zip_uint64_t>(added);
    require(zip_set_file_compression(archive, entry, ZIP_CM_STORE, 0) == 0);  // weights do not get smaller
    constexpr zip_uint16_t midnight = 0, first_day = 1 << 5 | 1;  // of 1980; so that the same files give the same bytes
    require(zip_file_set_dostime(archive, entry, midnight, first_day, 0) == 0);
  }
  require(zip_close(archive) == 0);  // writes it all
  static_cast<void>(owner.release());
  sync_file(file);
}

}  // namespace babelring
