#include "worker/training_set_facts.h"

#include <optional>

#include "base/files.h"
#include "base/json.h"

namespace babelring {
namespace {

/// The pairs dropped from the set, by reason. Nothing if the folder has no readable report.json.
std::optional<json::object> dropped_pairs(const std::filesystem::path& folder, const std::string& set) {
  if (!std::filesystem::exists(folder / "report.json")) return std::nullopt;
  const Result<json::value> report = parse_json(read_file(folder / "report.json"));
  const json::value* sets = report && report->is_object() ? report->get_object().if_contains("sets") : nullptr;
  if (sets == nullptr || !sets->is_array()) return std::nullopt;
  for (const json::value& each : sets->get_array()) {
    if (!each.is_object() || get_text(each.get_object(), "set") != set) continue;
    const json::object* findings = get_object(each.get_object(), "findings");
    if (findings == nullptr) return std::nullopt;
    json::object dropped;
    for (const auto& [reason, finding] : *findings) {
      // A carriage return is removed, and the pair is kept.
      if (reason != "crlf" && finding.is_object()) dropped[reason] = get_integer(finding.get_object(), "count");
    }
    return dropped;
  }
  return std::nullopt;
}

}  // namespace

json::object training_set_facts(const Manifest& manifest, const std::string& set) {
  const ManifestSet& found = manifest.set(set);
  json::object facts = {{"bytes", found.target_ids.bytes + (found.source_ids ? found.source_ids->bytes : 0)},
                        {"pairs", found.sentences},
                        {"source_tokens", found.source_tokens},
                        {"target_tokens", found.target_tokens},
                        {"vocabulary", manifest.vocabulary_size},
                        {"digest", found.digest()}};
  if (auto dropped = dropped_pairs(manifest.folder, set)) facts["dropped"] = *std::move(dropped);
  return facts;
}

}  // namespace babelring
