#include "nmt/data/manifest.h"

#include <fmt/ranges.h>

#include <system_error>

#include "base/digest.h"
#include "base/failure.h"
#include "base/files.h"
#include "base/records/fields.h"
#include "base/result.h"

namespace babelring {

namespace {

constexpr const char* format_name = "babelring-prepared";

/// Reads members of the manifest's JSON. Errors name the file and the member.
class Reader {
 public:
  Reader(std::string file, const json::object& object) : file_(std::move(file)), object_(object) {}

  const json::value& member(const char* name) const {
    const json::value* found = object_.if_contains(name);
    if (!found) fail("{}: member '{}' is missing", file_, name);
    return *found;
  }
  std::string text(const char* name) const {
    const json::value& value = member(name);
    if (!value.is_string()) fail_member(name, "a string", value);
    return std::string(value.as_string());
  }
  std::int64_t count(const char* name) const {
    const json::value& value = member(name);
    if (!value.is_int64() || value.as_int64() < 0) fail_member(name, "an integer of at least 0", value);
    return value.as_int64();
  }
  Reader object(const char* name) const { return Reader(file_, as_object(member(name), name)); }
  Reader element(const json::value& value, const char* name) const { return Reader(file_, as_object(value, name)); }
  const json::array& array(const char* name) const {
    const json::value& value = member(name);
    if (!value.is_array()) fail_member(name, "an array", value);
    return value.as_array();
  }
  const json::object& raw() const { return object_; }
  bool has(const char* name) const { return object_.contains(name); }

  void read_corpora(ManifestSet& set) const {
    std::int64_t sentences = 0;
    for (const json::value& entry : array("corpora")) {
      const Reader corpus = element(entry, "corpora");
      set.corpora.push_back({.name = corpus.text("name"),
                             .tag = corpus.has("tag") ? corpus.text("tag") : "",
                             .sentences = corpus.count("sentences"),
                             .source_tokens = corpus.count("source_tokens"),
                             .target_tokens = corpus.count("target_tokens")});
      sentences += set.corpora.back().sentences;
      if (set.corpora.back().sentences == 0 || set.corpora.size() > max_corpora) {
        fail("{}: set '{}': expected up to {} corpora that have sentences", file_, set.name, max_corpora);
      }
    }
    if (sentences == set.sentences) return;
    fail("{}: the corpora of set '{}' have {} sentences, expected those of the set, {}", file_, set.name, sentences,
         set.sentences);
  }

  ManifestFile file(const char* name) const {
    const Reader entry = object(name);
    ManifestFile file{entry.text("name"), entry.count("bytes"), entry.text("sha256")};
    if (file.name.empty() || file.name.find('/') != std::string::npos || file.name[0] == '.') {
      fail("{}: '{}' is not the name of a file in its folder", file_, file.name);
    }
    return file;
  }

 private:
  const json::object& as_object(const json::value& value, const char* name) const {
    if (!value.is_object()) fail_member(name, "an object", value);
    return value.as_object();
  }
  [[noreturn]] void fail_member(const char* name, const char* expected, const json::value& value) const {
    fail("{}: member '{}': expected {}, found {}", file_, name, expected, found_json(value));
  }
  std::string file_;
  const json::object& object_;
};

ManifestSet read_set(const Reader& entry) {
  ManifestSet set;
  set.name = entry.text("name");
  set.sentences = entry.count("sentences");
  set.source_tokens = entry.count("source_tokens");
  set.target_tokens = entry.count("target_tokens");
  if (entry.has("source_ids")) set.source_ids = entry.file("source_ids");
  set.target_ids = entry.file("target_ids");
  if (entry.has("source_text")) set.source_text = entry.file("source_text");
  if (entry.has("target_text")) set.target_text = entry.file("target_text");
  if (entry.has("links")) set.links = entry.file("links");
  if (entry.has("corpora")) entry.read_corpora(set);
  return set;
}

json::object file_json(const ManifestFile& file) {
  return {{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}};
}

json::object set_json(const ManifestSet& set) {
  json::object object = {{"name", set.name},
                         {"sentences", set.sentences},
                         {"source_tokens", set.source_tokens},
                         {"target_tokens", set.target_tokens}};
  if (set.source_ids) object["source_ids"] = file_json(*set.source_ids);
  object["target_ids"] = file_json(set.target_ids);
  if (set.source_text) object["source_text"] = file_json(*set.source_text);
  if (set.target_text) object["target_text"] = file_json(*set.target_text);
  if (set.links) object["links"] = file_json(*set.links);
  json::array corpora;
  for (const ManifestCorpus& corpus : set.corpora) {
    json::object entry = {{"name", corpus.name},
                          {"sentences", corpus.sentences},
                          {"source_tokens", corpus.source_tokens},
                          {"target_tokens", corpus.target_tokens}};
    if (!corpus.tag.empty()) entry["tag"] = corpus.tag;
    corpora.push_back(std::move(entry));
  }
  if (!corpora.empty()) object["corpora"] = std::move(corpora);
  return object;
}

}  // namespace

std::string ManifestSet::digest() const {
  return sha256_hex((source_ids ? source_ids->sha256 : "") + target_ids.sha256);
}

const ManifestSet& Manifest::set(const std::string& name) const {
  std::vector<std::string> names;
  for (const ManifestSet& candidate : sets) {
    if (candidate.name == name) return candidate;
    names.push_back(candidate.name);
  }
  fail("{}: no set '{}', only {}", folder.string(), name, fmt::join(names, ", "));
}

std::vector<ManifestFile> Manifest::files_of(const std::string& name) const {
  const ManifestSet& found = set(name);
  std::vector<ManifestFile> files{found.target_ids};
  for (const auto& file : {found.source_ids, found.source_text, found.target_text, found.links}) {
    if (file) files.push_back(*file);
  }
  return files;
}

void Manifest::require_pairs(const std::string& name, std::string_view key) const {
  const ManifestSet& found = set(name);
  if (!found.source_ids) {
    fail("{}: set '{}' of {} holds sequences of `nmt gssm data`, expected sentence pairs of `nmt prepare`", key, name,
         folder.string());
  }
  if (found.sentences > 0 && found.source_tokens > 0 && found.target_tokens > 0) return;
  fail(
      "{}: set '{}' of {} has {} sentence pairs ({} source tokens, {} target tokens) by its manifest, expected at "
      "least "
      "1; run `nmt prepare` again with text for it{}",
      key, name, folder.string(), found.sentences, found.source_tokens, found.target_tokens,
      key == "data.valid_set" ? ", or train without validation (data.valid_set=)" : "");
}

Manifest load_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / Manifest::file_name;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    fail("{}: no {} there, expected a complete folder of `nmt prepare` or `nmt gssm data`", folder.string(),
         Manifest::file_name);
  }
  const Result<json::value> parsed = parse_json(read_file(path));
  if (!parsed) fail("{}: {}", path.string(), parsed.error());
  if (!parsed->is_object()) fail("{}: not a JSON object", path.string());
  const Reader reader(path.string(), parsed->as_object());
  if (reader.text("format") != format_name || reader.count("version") != Manifest::format_version) {
    fail("{}: format '{}' version {}, expected '{}' version {}", path.string(), reader.text("format"),
         reader.count("version"), format_name, Manifest::format_version);
  }
  Manifest manifest;
  manifest.folder = folder;
  manifest.program = reader.text("program");
  manifest.vocabulary = reader.file("vocabulary");
  manifest.vocabulary_size = reader.count("vocabulary_size");
  for (const json::value& entry : reader.array("sets")) {
    manifest.sets.push_back(read_set(reader.element(entry, "sets")));
  }
  manifest.options = reader.object("options").raw();
  return manifest;
}

void save_manifest(const std::filesystem::path& folder, const Manifest& manifest) {
  json::array sets;
  for (const ManifestSet& set : manifest.sets) sets.push_back(set_json(set));
  const json::object object = {{"format", format_name},
                               {"version", Manifest::format_version},
                               {"program", manifest.program},
                               {"vocabulary", file_json(manifest.vocabulary)},
                               {"vocabulary_size", manifest.vocabulary_size},
                               {"sets", std::move(sets)},
                               {"options", manifest.options}};
  write_file_atomically(folder / Manifest::file_name, to_text(object) + "\n");
}

void publish_folder(const std::filesystem::path& folder, const std::filesystem::path& work,
                    const std::vector<std::string>& finished, const Manifest& manifest) {
  std::error_code error;
  std::filesystem::remove(folder / Manifest::file_name, error);
  if (error) fail("cannot remove the old {}: {}", Manifest::file_name, error.message());
  for (const std::string& name : finished) {
    std::filesystem::rename(work / name, folder / name, error);
    if (error) fail("cannot move {} to {}: {}", name, folder.string(), error.message());
  }
  save_manifest(folder, manifest);
}

ManifestFile describe_file(const std::filesystem::path& folder, const std::string& name) {
  const std::filesystem::path path = folder / name;
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) fail("cannot read the size of {}: {}", path.string(), error.message());
  return {name, static_cast<std::int64_t>(bytes), sha256_file(path)};
}

void check_file(const std::filesystem::path& folder, const ManifestFile& file, bool verify) {
  const std::filesystem::path path = folder / file.name;
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  const auto refuse = [&path](const std::string& found) { throw UsageFailure(path.string() + ": " + found); };
  if (error) refuse(fmt::format("{}, expected {} bytes by its manifest", error.message(), file.bytes));
  if (static_cast<std::int64_t>(bytes) != file.bytes) {
    refuse(fmt::format("truncated or damaged, {} bytes, expected {} by its manifest", bytes, file.bytes));
  }
  if (!verify) return;
  const std::string digest = sha256_file(path);
  if (digest != file.sha256) {
    refuse(fmt::format("damaged, its SHA-256 is {}, expected {} by its manifest", digest, file.sha256));
  }
}

}  // namespace babelring
