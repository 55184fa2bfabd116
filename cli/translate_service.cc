#include "cli/translate_service.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

namespace babelring {
namespace {

constexpr std::size_t max_lines = 1024;
constexpr std::int64_t default_max_pieces = 4096;

/// The reason why a request is refused.
struct Refusal {
  std::string code, detail;
};

struct Request {
  std::int64_t id = 0;
  std::vector<std::string> text;
  std::vector<Prefix> prefixes;  // of each line, or none
  TranslateChoices choices;
  std::int64_t max_pieces = default_max_pieces;  // per line
};

std::int64_t integer_in(const json::value& value, const char* name, std::int64_t low, std::int64_t high) {
  if (!value.is_int64() || value.get_int64() < low || value.get_int64() > high) {
    throw UsageFailure(fmt::format("{}: found {}, expected an integer from {} to {}", name, to_text(value), low, high));
  }
  return value.get_int64();
}

std::vector<std::string> lines_of(const json::value& value, const char* name) {
  std::vector<std::string> lines;
  if (!value.is_array() || value.get_array().empty() || value.get_array().size() > max_lines) {
    throw UsageFailure(fmt::format("{}: expected an array of 1 to {} lines", name, max_lines));
  }
  for (const json::value& line : value.get_array()) {
    const bool fits = line.is_string() && line.get_string().find_first_of("\r\n") == json::string::npos;
    if (!fits) throw UsageFailure(fmt::format("{}[{}]: expected a string without line breaks", name, lines.size()));
    lines.emplace_back(std::string_view(line.get_string()));
  }
  return lines;
}

/// Parses a request. Throws UsageFailure naming the invalid member.
Request read_request(const json::object& object, const TranslateChoices& usual) {
  Request request{.id = 0, .text = {}, .choices = usual};
  const std::vector<TranslateOption> search = search_options(request.choices), answer = answer_options(request.choices),
                                     samples = sampling_options(request.choices);
  bool has_text = false;
  for (const auto& [name, value] : object) {
    if (name == "id") {
      request.id = integer_in(value, "id", 0, std::int64_t{1} << 53);
    } else if (name == "text") {
      request.text = lines_of(value, "text");
      has_text = true;
    } else if (name == "max_subwords" || name == "most_pieces") {  // the older name
      request.max_pieces = integer_in(value, "max_subwords", 1, default_max_pieces);
    } else if (name == "prefix") {
      if (value.is_null()) continue;
      for (std::string& text : lines_of(value, "prefix")) {
        request.prefixes.push_back({std::move(text), fmt::format("prefix[{}]", request.prefixes.size())});
      }
    } else if (!read_member(name, value, search) && !read_member(name, value, answer) &&
               !read_member(name, value, samples)) {
      throw UsageFailure(fmt::format("unknown member '{}'", printable(std::string_view(name))));
    }
  }
  if (!has_text) throw UsageFailure("text is missing");
  choose_search(request.choices, object.contains("beam"));
  if (!request.prefixes.empty() && request.prefixes.size() != request.text.size()) {
    throw UsageFailure(fmt::format("prefix: found {} lines, expected as many as those of text, {}",
                                   request.prefixes.size(), request.text.size()));
  }
  request.choices.translate.check();
  return request;
}

json::object translation_json(const Translation& translation, const TranslateChoices& choices,
                              const Vocabulary& vocabulary) {
  json::array n_best;
  for (const Rendering& rendering : translation.n_best) {
    json::object one = {{"hyp", rendering.text},
                        {"score", rendering.score},
                        {"log_probability", rendering.log_probability},
                        {"complete", rendering.complete}};
    tell_scores(choices, rendering, vocabulary, one);
    n_best.push_back(std::move(one));
  }
  json::object item = {
      {"hyp", translation.text()},
      {"score", translation.n_best.empty() ? json::value(nullptr) : json::value(translation.n_best.front().score)},
      {"source_pieces", translation.source_pieces},
      {"nbest", std::move(n_best)}};
  if (!choices.terms.empty()) item["terms"] = terms_json(translation);
  return item;
}

json::object error_json(std::int64_t id, const Refusal& refusal) {
  return {{"id", id}, {"error", json::object{{"code", refusal.code}, {"detail", refusal.detail}}}};
}

/// A process that translates with one ensemble.
struct Service {
  const TranslateChoices& usual;
  const LoadedEnsemble& ensemble;
  Translator translator;
};

json::object answer(const Request& request, Service& service) {
  const Vocabulary& vocabulary = *service.ensemble.models.front().vocabulary;
  const TranslateOptions options = options_with(request.choices, service.ensemble);
  for (std::size_t i = 0; i < request.text.size(); ++i) {
    const auto pieces = std::ssize(vocabulary.encode(request.text[i]));
    if (pieces <= request.max_pieces) continue;
    return error_json(request.id, {"too_long", fmt::format("text[{}]: {} tokens, expected at most {}", i, pieces,
                                                           request.max_pieces)});
  }
  const Stopwatch watch;
  json::array items;
  for (const Translation& translation : service.translator.translate(request.text, options, request.prefixes)) {
    items.push_back(translation_json(translation, request.choices, vocabulary));
  }
  return {{"id", request.id}, {"ms", watch.elapsed_ms()}, {"items", std::move(items)}};
}

/// Handles one request line. Errors of the request become the response.
json::object answer_line(const std::string& line, Service& service) {
  const auto object = parse_json(line);
  if (!object.ok()) return error_json(0, {"bad_request", object.error()});
  if (!object->is_object()) return error_json(0, {"bad_request", "expected a JSON object"});
  const json::value* id = object->get_object().if_contains("id");
  try {
    return answer(read_request(object->get_object(), service.usual), service);
  } catch (const UsageFailure& failure) {
    return error_json(id != nullptr && id->is_int64() ? id->get_int64() : 0, {"bad_request", failure.what()});
  }
}

}  // namespace

void apply_limits(const ServiceLimits& limits) {
  if (limits.end_with_parent && prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail("prctl: {}", std::strerror(errno));
  if (limits.memory_mb > 0) {
    const auto bytes = static_cast<rlim_t>(limits.memory_mb) << 20;
    const struct rlimit limit{bytes, bytes};
    if (setrlimit(RLIMIT_AS, &limit) != 0) fail("setrlimit: {}", std::strerror(errno));
  }
  const struct rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
}

void serve_translations(const ModelOptions& model, const ServiceLimits& limits, std::istream& in, std::ostream& out) {
  apply_limits(limits);
  const std::unique_ptr<Backend> backend = make_cpu_backend(model.threads);
  const LoadedEnsemble ensemble = model.load_ensemble(*backend);
  const LoadedModel& loaded = ensemble.models.front();
  model.translate_with(ensemble).check();
  Service service{.usual = model.search, .ensemble = ensemble, .translator = ensemble.translator(*backend)};
  out << to_text(json::object{
             {"ready", true}, {"checkpoint", loaded.checkpoint.folder.string()}, {"update", loaded.checkpoint.update}})
      << std::endl;
  for (std::string line; std::getline(in, line);) {
    out << to_text(answer_line(line, service)) << std::endl;
    if (!out) fail("standard output: cannot be written");
  }
}

}  // namespace babelring
