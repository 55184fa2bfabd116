#include "capi/babelring.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/json.h"
#include "base/log.h"
#include "base/version.h"
#include "cli/model_options.h"
#include "cli/translate_service.h"
#include "nmt/decode/pair_scorer.h"

/// An error as a value.
struct babelring_error {
  int kind;
  std::string message;
};

struct babelring_translator {
  explicit babelring_translator(babelring::ModelOptions given)
      : options(std::move(given)),
        backend(options.make_backend()),
        ensemble(options.load_ensemble(*backend)),
        service(options.search, ensemble, *backend),
        arenas(*backend) {}

  const babelring::Vocabulary& vocabulary() const { return *ensemble.models.front().vocabulary; }

  std::mutex calls;
  babelring::ModelOptions options;
  std::unique_ptr<babelring::Backend> backend;
  babelring::LoadedEnsemble ensemble;
  babelring::TranslationService service;
  babelring::ActivationArenas arenas;
  std::unique_ptr<babelring::PairScorer> scorer;  // made by the first score
};

namespace {

using namespace babelring;

/// Returned where no memory is left for another error. Never freed.
babelring_error out_of_memory{BABELRING_FAILURE, "out of memory"};

babelring_error* make_error(int kind, const char* message) noexcept {
  try {
    return new babelring_error{kind, message};
  } catch (...) {
    return &out_of_memory;
  }
}

/// Runs `call`; its exceptions become errors.
template <class Call>
babelring_error* caught(Call&& call) noexcept {
  try {
    call();
    return nullptr;
  } catch (const UsageFailure& failure) {
    return make_error(BABELRING_USAGE, failure.what());
  } catch (const std::bad_alloc&) {
    return &out_of_memory;
  } catch (const std::exception& failure) {
    return make_error(BABELRING_FAILURE, failure.what());
  }
}

/// The same while no other call uses the translator.
template <class Call>
babelring_error* in_turn(babelring_translator* translator, Call&& call) noexcept {
  if (translator == nullptr) return make_error(BABELRING_USAGE, "translator: found NULL, expected an open translator");
  return caught([&] {
    const std::scoped_lock turn(translator->calls);
    call(*translator);
  });
}

/// A copy that babelring_free() frees; at least a byte, so that no result is NULL.
template <class T>
T* copy_out(const T* values, std::size_t count) {
  void* copy = std::malloc(std::max<std::size_t>(1, count * sizeof(T)));
  if (copy == nullptr) throw std::bad_alloc();
  if (count > 0) std::memcpy(copy, values, count * sizeof(T));
  return static_cast<T*>(copy);
}

char* copy_out(const std::string& text) {
  return copy_out(text.c_str(), text.size() + 1);
}

json::object parse_object(const char* name, const char* text) {
  if (text == nullptr) throw UsageFailure(fmt::format("{}: found NULL, expected a JSON object", name));
  Result<json::value> value = parse_json(text);
  if (!value.ok()) throw UsageFailure(fmt::format("{}: {}", name, value.error()));
  if (!value->is_object())
    throw UsageFailure(fmt::format("{}: found {}, expected a JSON object", name, to_text(*value)));
  return value->get_object();
}

[[noreturn]] void refuse(std::string_view name, const json::value& found, std::string_view expected) {
  throw UsageFailure(fmt::format("{}: found {}, expected {}", name, to_text(found), expected));
}

std::string text_of(std::string_view name, const json::value& value) {
  if (!value.is_string()) refuse(name, value, "a string");
  return std::string(value.get_string());
}

/// One of the choices, by its place.
std::size_t choice_of(std::string_view name, const json::value& value, const std::vector<std::string>& choices) {
  const std::string found = text_of(name, value);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (choices[i] == found) return i;
  }
  refuse(name, value, fmt::format("{}", fmt::join(choices, " or ")));
}

void read_checkpoints(const json::value& value, ModelOptions& options) {
  std::vector<std::string> folders;
  if (value.is_array()) {
    for (const json::value& folder : value.get_array()) folders.push_back(text_of("checkpoint", folder));
  } else {
    folders.push_back(text_of("checkpoint", value));
  }
  if (folders.empty()) refuse("checkpoint", value, "at least one folder");
  options.checkpoint = folders.front();
  options.further_checkpoints.assign(folders.begin() + 1, folders.end());
}

void read_weights(const json::value& value, ModelOptions& options) {
  if (!value.is_array()) refuse("weights", value, "an array of numbers");
  for (const json::value& weight : value.get_array()) {
    if (!weight.is_number()) refuse("weights", weight, "a number");
    options.weights.push_back(weight.to_number<double>());
  }
}

ModelOptions read_options(const json::object& object) {
  ModelOptions options;
  for (const auto& [name, value] : object) {
    if (name == "checkpoint") {
      read_checkpoints(value, options);
    } else if (name == "weights") {
      read_weights(value, options);
    } else if (name == "combine") {
      constexpr Combination values[] = {Combination::probabilities, Combination::logarithms};
      options.combination = values[choice_of(name, value, {"probabilities", "logarithms"})];
    } else if (name == "precision") {
      constexpr DType values[] = {DType::f32, DType::bf16, DType::int8};
      options.precision = values[choice_of(name, value, {"f32", "bf16", "int8"})];
    } else if (name == "device") {
      constexpr DeviceChoice values[] = {DeviceChoice::automatic, DeviceChoice::cpu, DeviceChoice::cuda};
      options.device = values[choice_of(name, value, {"auto", "cpu", "cuda"})];
    } else if (name == "threads") {
      const bool fits = value.is_int64() && value.get_int64() >= 0 && value.get_int64() <= 1024;
      if (!fits) refuse(name, value, "an integer from 0 to 1024");
      options.threads = static_cast<int>(value.get_int64());
    } else {
      throw UsageFailure(fmt::format("options: unknown member '{}'", printable(std::string_view(name))));
    }
  }
  if (options.checkpoint.empty()) throw UsageFailure("options: checkpoint is missing, expected a folder");
  return options;
}

/// The lines of a member, and their pieces.
void read_side(const json::object& request, const char* name, TextSide side, const babelring_translator& translator,
               std::vector<std::string>& lines, std::vector<std::vector<std::int32_t>>& ids) {
  const json::value* value = request.if_contains(name);
  if (value == nullptr || !value->is_array()) throw UsageFailure(fmt::format("{}: expected an array of lines", name));
  const std::int64_t longest = std::max(1, translator.ensemble.models.front().config.data.max_length - 1);
  for (const json::value& line : value->get_array()) {
    const std::string place = fmt::format("{}[{}]", name, lines.size());
    lines.push_back(text_of(place, line));
    ids.push_back(translator.vocabulary().encode(lines.back(), side));
    if (std::ssize(ids.back()) <= longest) continue;
    throw UsageFailure(fmt::format("{}: {} pieces, expected at most {}, data.max_length of the training without </s>",
                                   place, ids.back().size(), longest));
  }
}

LinePairs read_pairs(const json::object& request, const babelring_translator& translator) {
  for (const auto& [name, value] : request) {
    if (name == "source" || name == "target") continue;
    throw UsageFailure(
        fmt::format("unknown member '{}', expected source and target", printable(std::string_view(name))));
  }
  LinePairs pairs;
  read_side(request, "source", TextSide::source, translator, pairs.sources, pairs.source_ids);
  read_side(request, "target", TextSide::target, translator, pairs.targets, pairs.target_ids);
  if (pairs.sources.size() != pairs.targets.size()) {
    throw UsageFailure(fmt::format("source has {} lines, target {}; expected equal numbers", pairs.sources.size(),
                                   pairs.targets.size()));
  }
  return pairs;
}

PairScorer& scorer_of(babelring_translator& translator) {
  const std::vector<LoadedModel>& models = translator.ensemble.models;
  if (models.size() > 1) {
    throw UsageFailure(fmt::format("score: found an ensemble of {} models, expected one checkpoint", models.size()));
  }
  if (translator.scorer == nullptr) {
    translator.scorer = std::make_unique<PairScorer>(require_transformer(*models.front().model), *translator.backend,
                                                     translator.arenas, TranslateOptions().batch_tokens);
  }
  return *translator.scorer;
}

/// The program that calls has its own output: only warnings go to standard error.
void log_warnings_only() {
  static std::once_flag once;
  std::call_once(once, [] { init_log("babelring", "warn"); });
}

}  // namespace

int babelring_abi(void) {
  return 1;
}

const char* babelring_version(void) {
  return babelring::version;
}

int babelring_error_kind(const babelring_error* error) {
  return error->kind;
}

const char* babelring_error_message(const babelring_error* error) {
  return error->message.c_str();
}

void babelring_error_free(babelring_error* error) {
  if (error != &out_of_memory) delete error;
}

void babelring_free(void* result) {
  std::free(result);
}

babelring_error* babelring_translator_open(const char* options, babelring_translator** translator) {
  return caught([&] {
    log_warnings_only();
    *translator = std::make_unique<babelring_translator>(read_options(parse_object("options", options))).release();
  });
}

void babelring_translator_close(babelring_translator* translator) {
  if (translator != nullptr) translator->calls.lock(), translator->calls.unlock();
  delete translator;
}

babelring_error* babelring_translate(babelring_translator* translator, const char* request, char** answer) {
  return in_turn(translator, [&](babelring_translator& t) {
    const json::object members = parse_object("request", request);
    *answer = copy_out(to_text(t.service.answer(members)));
  });
}

babelring_error* babelring_translate_stream(babelring_translator* translator, const char* request,
                                            babelring_on_text on_text, void* context) {
  struct Ended {};  // by on_text
  return in_turn(translator, [&](babelring_translator& t) {
    const json::object members = parse_object("request", request);
    try {
      t.service.answer(members, [&](const json::object& part) {
        const json::value* item = part.if_contains("item");
        const json::value& text = item == nullptr ? part.at("text") : item->at("hyp");
        const auto line = static_cast<std::size_t>(part.at("line").to_number<std::int64_t>());
        if (on_text(context, line, text.as_string().c_str(), item == nullptr ? 0 : 1) != 0) throw Ended();
      });
    } catch (const Ended&) {
    }
  });
}

babelring_error* babelring_score(babelring_translator* translator, const char* request, float** log_probabilities,
                                 int64_t** counts) {
  return in_turn(translator, [&](babelring_translator& t) {
    const LinePairs pairs = read_pairs(parse_object("request", request), t);
    std::vector<float> values;
    std::vector<std::int64_t> tokens;
    for (const std::vector<float>& scores : scorer_of(t).score(pairs)) {
      values.insert(values.end(), scores.begin(), scores.end());
      tokens.push_back(std::ssize(scores));
    }
    std::unique_ptr<float, decltype(&std::free)> copied(copy_out(values.data(), values.size()), &std::free);
    *counts = copy_out(tokens.data(), tokens.size());
    *log_probabilities = copied.release();
  });
}

babelring_error* babelring_encode(babelring_translator* translator, const char* line, int target_side, int32_t** ids,
                                  size_t* count) {
  return in_turn(translator, [&](babelring_translator& t) {
    if (line == nullptr) throw UsageFailure("line: found NULL, expected a text");
    const std::vector<std::int32_t> found =
        t.vocabulary().encode(line, target_side != 0 ? TextSide::target : TextSide::source);
    *ids = copy_out(found.data(), found.size());
    *count = found.size();
  });
}

babelring_error* babelring_decode(babelring_translator* translator, const int32_t* ids, size_t count, char** text) {
  return in_turn(translator, [&](babelring_translator& t) {
    for (std::size_t i = 0; i < count; ++i) {
      if (ids[i] >= 0 && ids[i] < t.vocabulary().size()) continue;
      throw UsageFailure(fmt::format("ids[{}]: found {}, expected 0 to {}", i, ids[i], t.vocabulary().size() - 1));
    }
    *text = copy_out(t.vocabulary().decode({ids, count}));
  });
}
