#include "cli/translate_service.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

namespace babelring {
namespace {

constexpr std::size_t max_lines = 1024;     // of a request
constexpr std::size_t max_requests = 1024;  // of a line
constexpr std::int64_t default_max_pieces = 4096;

/// The reason why a request is refused.
struct Refusal {
  std::string code, detail;
};

std::int64_t integer_in(const json::value& value, const char* name, std::int64_t low, std::int64_t high) {
  if (!value.is_int64() || value.get_int64() < low || value.get_int64() > high) {
    throw UsageFailure(fmt::format("{}: found {}, expected an integer from {} to {}", name, to_text(value), low, high));
  }
  return value.get_int64();
}

std::vector<std::string> lines_of(const json::value& value, const char* name, std::size_t max) {
  std::vector<std::string> lines;
  if (!value.is_array() || value.get_array().empty() || value.get_array().size() > max) {
    const bool limited = max == max_lines;
    throw UsageFailure(fmt::format("{}: expected an array of {} lines", name,
                                   limited ? fmt::format("1 to {}", max) : std::string("one or more")));
  }
  for (const json::value& line : value.get_array()) {
    const bool fits = line.is_string() && line.get_string().find_first_of("\r\n") == json::string::npos;
    if (!fits) throw UsageFailure(fmt::format("{}[{}]: expected a string without line breaks", name, lines.size()));
    lines.emplace_back(std::string_view(line.get_string()));
  }
  return lines;
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
    if (choices.alignment != AlignmentKind::none) {
      add_alignment(one, translation, rendering, vocabulary, choices.alignment);
    }
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

}  // namespace

/// A request that is being answered.
struct TranslationService::OpenRequest {
  std::int64_t id = 0;
  std::vector<std::string> text;
  std::vector<Prefix> prefixes;  // of each line, or none
  TranslateChoices choices;
  TranslateOptions options;                     // by the choices
  std::int64_t max_pieces = 0;                  // per line
  std::int64_t first = 0;                       // number of the first line, in answers
  bool stream = false;                          // partial lines are wanted
  std::vector<std::vector<std::int32_t>> ids;   // subwords of its texts: a line is one, or with tags several
  std::vector<std::string> texts;               // these texts
  std::vector<std::size_t> lines;               // of each text
  std::vector<MarkedLine> marked;               // its lines, if they have tags
  std::vector<std::vector<Translation>> found;  // of each line with tags: the translations of its texts
  std::vector<std::size_t> unfound;             // of each line with tags: texts that are not translated
  json::array items;                            // of its lines, null until they are translated
  std::size_t unfinished = 0;                   // lines
};

TranslationService::TranslationService(const TranslateChoices& usual, const LoadedEnsemble& ensemble, Backend& backend)
    : usual_(usual), ensemble_(ensemble), translator_(ensemble.translator(backend)) {}

TranslationService::~TranslationService() = default;

/// Parses a request; without limits if it has the process to itself. Throws UsageFailure that names the member that is
/// refused, Refusal for a line that is too long.
TranslationService::OpenRequest TranslationService::open(const json::object& object, bool limited) {
  const std::int64_t max_pieces = limited ? default_max_pieces : std::numeric_limits<std::int64_t>::max();
  const std::size_t lines = limited ? max_lines : std::numeric_limits<std::size_t>::max();
  OpenRequest open{.id = 0, .text = {}, .prefixes = {}, .choices = usual_, .options = {}, .max_pieces = max_pieces};
  const std::vector<TranslateOption> search = search_options(open.choices), answer = answer_options(open.choices),
                                     samples = sampling_options(open.choices);
  for (const char* name : {"sample", "mbr"}) {
    if (const json::value* value = object.if_contains(name)) read_member(name, *value, samples);
  }
  drop_unused(open.choices.samples);  // the request's own are read after that, and refused if they are without effect
  bool has_text = false;
  for (const auto& [name, value] : object) {
    if (name == "id") {
      open.id = integer_in(value, "id", 0, std::int64_t{1} << 53);
    } else if (name == "text") {
      open.text = lines_of(value, "text", lines);
      has_text = true;
    } else if (name == "max_subwords" || name == "most_pieces") {  // the older name
      open.max_pieces = integer_in(value, "max_subwords", 1, max_pieces);
    } else if (name == "prefix") {
      if (value.is_null()) continue;
      for (std::string& text : lines_of(value, "prefix", lines)) open.prefixes.push_back({std::move(text), ""});
    } else if (name == "first") {
      open.first = integer_in(value, "first", 0, std::int64_t{1} << 53);
    } else if (name == "stream") {
      if (!value.is_bool()) throw UsageFailure(fmt::format("stream: found {}, expected true or false", to_text(value)));
      open.stream = value.get_bool();
    } else if (!read_member(name, value, search) && !read_member(name, value, answer) &&
               !read_member(name, value, samples)) {
      throw UsageFailure(fmt::format("unknown member '{}'", printable(std::string_view(name))));
    }
  }
  if (!has_text) throw UsageFailure("text is missing");
  choose_search(open.choices, object.contains("beam"));
  name_prefixes(open);
  open.choices.translate.check();
  open.options = options_with(open.choices, ensemble_);
  open.options.check();
  encode(open);
  refuse_wrong_prefix(open);
  return open;
}

/// Gives each line a prefix, and each prefix its place. Throws UsageFailure unless there are as many as lines, or none.
void TranslationService::name_prefixes(OpenRequest& open) {
  if (!open.prefixes.empty() && open.prefixes.size() != open.text.size()) {
    throw UsageFailure(fmt::format("prefix: found {} lines, expected as many as those of text, {}",
                                   open.prefixes.size(), open.text.size()));
  }
  if (!open.prefixes.empty() && open.choices.markup != MarkupForm::none) {
    throw UsageFailure("prefix: found lines with markup, expected one of prefix and markup");
  }
  open.prefixes.resize(open.text.size());
  for (std::size_t i = 0; i < open.prefixes.size(); ++i) {
    open.prefixes[i].place = fmt::format("prefix[{}]", open.first + static_cast<std::int64_t>(i));
  }
}

/// Throws UsageFailure that names a prefix that cannot be, so that the requests beside this one are translated
/// together.
void TranslationService::refuse_wrong_prefix(const OpenRequest& open) {
  if (!open.marked.empty()) return;
  const std::vector<std::span<const std::int32_t>> sources(open.ids.begin(), open.ids.end());
  const auto wrong = translator_.wrong_prefix({.ids = sources, .prefixes = open.prefixes}, open.options);
  if (wrong) throw UsageFailure(wrong->reason);
}

/// Adds the texts of a line with tags to those of the request.
void TranslationService::add_marked(OpenRequest& open, const std::string& line) const {
  const std::size_t at = open.marked.size();
  auto read = read_markup(line, open.choices.markup);
  if (!read) {
    throw UsageFailure(fmt::format("text[{}]: {}", open.first + static_cast<std::int64_t>(at), read.error()));
  }
  for (const MarkedText& text : read->texts) {
    open.ids.push_back(vocabulary().encode(text.text));
    open.texts.push_back(text.text);
    open.lines.push_back(at);
  }
  if (read->texts.empty()) {  // nothing is translated, but its end is reported like that of others
    open.ids.emplace_back();
    open.texts.emplace_back();
    open.lines.push_back(at);
  }
  open.found.emplace_back(read->texts.size());
  open.unfound.push_back(std::max<std::size_t>(1, read->texts.size()));
  open.marked.push_back(std::move(*read));
}

void TranslationService::encode(OpenRequest& open) const {
  for (std::size_t at = 0; at < open.text.size(); ++at) {
    const std::size_t first = open.ids.size();
    if (open.choices.markup == MarkupForm::none) {
      open.ids.push_back(vocabulary().encode(open.text[at]));
      open.texts.push_back(open.text[at]);
      open.lines.push_back(at);
    } else {
      add_marked(open, open.text[at]);
    }
    std::int64_t pieces = 0;
    for (std::size_t i = first; i < open.ids.size(); ++i) pieces += std::ssize(open.ids[i]);
    if (pieces <= open.max_pieces) continue;
    throw Refusal{"too_long", fmt::format("text[{}]: {} tokens, expected at most {}",
                                          open.first + static_cast<std::int64_t>(at), pieces, open.max_pieces)};
  }
  open.items.resize(open.text.size());
  open.unfinished = open.text.size();
}

json::object TranslationService::answer(const json::object& request, const Write& part) {
  std::vector<OpenRequest> opened;
  opened.push_back(open(request, false));
  opened.front().stream = static_cast<bool>(part);
  json::object whole;
  translate(opened, [&](json::object object) {
    if (object.contains("items")) {
      whole = std::move(object);
    } else {
      part(std::move(object));
    }
  });
  return whole;
}

void TranslationService::answer_line(const std::string& line, const Write& write) {
  const auto value = parse_json(line);
  if (!value.ok()) return write(error_json(0, {"bad_request", value.error()}));
  const bool joined = value->is_array() && !value->get_array().empty() && value->get_array().size() <= max_requests;
  if (!joined && !value->is_object()) {
    const std::string expected = fmt::format("expected a JSON object, or an array of 1 to {} of them", max_requests);
    return write(error_json(0, {"bad_request", expected}));
  }
  std::vector<OpenRequest> opened;
  if (joined) {
    for (const json::value& one : value->get_array()) take(one, opened, write);
  } else {
    take(*value, opened, write);
  }
  for (std::span<OpenRequest> rest(opened); !rest.empty();) {
    const TranslateOptions options = rest.front().options;
    const auto others =
        std::stable_partition(rest.begin(), rest.end(), [&](const OpenRequest& one) { return one.options == options; });
    const auto equal = static_cast<std::size_t>(others - rest.begin());
    translate(rest.first(equal), write);
    rest = rest.subspan(equal);
  }
}

void TranslationService::take(const json::value& value, std::vector<OpenRequest>& opened, const Write& write) {
  if (!value.is_object()) return write(error_json(0, {"bad_request", "expected a JSON object"}));
  const json::value* id = value.get_object().if_contains("id");
  const std::int64_t number = id != nullptr && id->is_int64() ? id->get_int64() : 0;
  try {
    opened.push_back(open(value.get_object(), true));
  } catch (const UsageFailure& failure) {
    write(error_json(number, {"bad_request", failure.what()}));
  } catch (const Refusal& refusal) {
    write(error_json(number, refusal));
  }
}

/// The translation of a line with tags, once all its texts are translated.
std::optional<Translation> TranslationService::joined(OpenRequest& open, std::size_t text,
                                                      const Translation& translation) const {
  const std::size_t at = open.lines[text];
  std::vector<Translation>& texts = open.found[at];
  const auto first = std::ranges::lower_bound(open.lines, at) - open.lines.begin();
  if (!texts.empty()) texts[text - static_cast<std::size_t>(first)] = translation;
  if (--open.unfound[at] > 0) return std::nullopt;
  return joined_translation(open.marked[at], texts, vocabulary(), open.options.beam.n_best);
}

/// Translates requests with equal options.
void TranslationService::translate(std::span<OpenRequest> requests, const Write& write) {
  struct Line {
    OpenRequest& open;
    std::size_t text, at;    // in its request: text and line
    std::string shown = {};  // the partial line that was sent last
    json::object part() const { return {{"id", open.id}, {"line", open.first + static_cast<std::int64_t>(at)}}; }
  };
  std::vector<Line> lines;
  std::vector<std::span<const std::int32_t>> sources;
  std::vector<std::string> texts;
  std::vector<Prefix> prefixes;
  std::vector<std::int64_t> numbers;
  TranslationFollower follower;
  const auto step = [&](std::size_t i, const std::function<std::string()>& text) {
    Line& line = lines[i];
    if (!line.open.stream || !line.open.marked.empty()) return;  // tags need the whole translation
    std::string now = text();
    if (now == std::exchange(line.shown, now)) return;
    json::object part = line.part();
    part["text"] = now;
    write(part);
  };
  for (OpenRequest& open : requests) {
    std::size_t text = 0;  // of its line
    for (std::size_t i = 0; i < open.ids.size(); ++i) {
      if (i > 0 && open.lines[i] != open.lines[i - 1]) text = 0;
      lines.push_back({open, i, open.lines[i]});
      sources.emplace_back(open.ids[i]);
      texts.push_back(open.texts[i]);
      numbers.push_back(text_number(open.first + static_cast<std::int64_t>(open.lines[i]), text++));
      prefixes.push_back(open.marked.empty() ? open.prefixes[i] : Prefix());
    }
    if (open.stream) follower.step = step;
  }
  const Stopwatch watch;
  follower.finished = [&](std::size_t i, const Translation& translation) {
    OpenRequest& open = lines[i].open;
    json::value& item = open.items[lines[i].at];
    if (open.marked.empty()) {
      item = translation_json(translation, open.choices, vocabulary());
    } else if (const auto whole = joined(open, lines[i].text, translation)) {
      item = translation_json(*whole, open.choices, vocabulary());
    } else {
      return;
    }
    if (open.stream) {
      json::object part = lines[i].part();
      part["item"] = item;
      write(part);
    }
    if (--open.unfinished > 0) return;
    write({{"id", open.id}, {"ms", watch.elapsed_ms()}, {"items", std::move(open.items)}});
  };
  const SourceLines source_lines{.ids = sources, .texts = texts, .prefixes = prefixes, .numbers = numbers};
  translator_.translate_lines(source_lines, requests.front().options, follower);
}

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
  TranslateChoices usual = model.search;
  drop_unused(usual.samples);
  choose_search(usual, false);  // a beam is for the requests that search
  const std::unique_ptr<Backend> backend = make_cpu_backend(model.threads);
  const LoadedEnsemble ensemble = model.load_ensemble(*backend);
  const LoadedModel& loaded = ensemble.models.front();
  const TranslateOptions first = model.translate_with(ensemble);
  first.check();
  TranslateChoices choices = model.search;
  choices.translate.shortlist = first.shortlist;
  TranslationService service(choices, ensemble, *backend);
  out << to_text(json::object{
             {"ready", true}, {"checkpoint", loaded.checkpoint.folder.string()}, {"update", loaded.checkpoint.update}})
      << std::endl;
  const auto write = [&out](const json::object& object) {
    out << to_text(object) << std::endl;
    if (!out) fail("standard output: cannot be written");
  };
  for (std::string line; std::getline(in, line);) service.answer_line(line, write);
}

}  // namespace babelring
