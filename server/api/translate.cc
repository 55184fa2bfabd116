#include <fmt/ranges.h>
#include <atomic>
#include <boost/json/array.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "server/api/body.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/translate/pool.h"

namespace babelring::api {
namespace {

constexpr std::size_t max_lines = 32;
constexpr std::int64_t max_subwords = 512;  // per line
constexpr std::int64_t max_beam = 12;
constexpr std::int64_t max_mbr_samples = 32;  // as many as usual
constexpr std::size_t max_line_bytes = 16 << 10;
constexpr std::size_t max_models = 8;  // of an ensemble: each takes the memory and the time of one
constexpr double max_weight = 1e6;

json::array read_lines(Body& body) {
  const json::value* text = body.value("text");
  if (text == nullptr || !text->is_array()) Body::refuse("text", "expected an array of lines");
  const json::array& lines = text->get_array();
  if (lines.empty() || lines.size() > max_lines) {
    Body::refuse("text", fmt::format("found {} lines, expected 1 to {}", lines.size(), max_lines));
  }
  for (const json::value& line : lines) {
    if (!line.is_string()) Body::refuse("text", "expected an array of strings");
    const std::string_view words(line.get_string());
    if (words.find_first_of("\r\n") != std::string_view::npos)
      Body::refuse("text", "expected lines without line breaks");
    if (words.size() > max_line_bytes) {
      throw http::Problem(422, "too_long",
                          fmt::format("text: a line of {} bytes, expected at most {}", words.size(), max_line_bytes));
    }
  }
  return lines;
}

/// The other checkpoints of an ensemble, with that of the address, and how they are combined.
struct Others {
  std::vector<std::string> ids;
  std::vector<std::string> options;  // of `nmt translate`
};

std::string read_weights(const json::value& value, std::size_t models) {
  std::string text;
  const bool fits = value.is_array() && value.get_array().size() == models;
  for (std::size_t i = 0; fits && i < models; ++i) {
    const json::value& weight = value.get_array()[i];
    const double number = weight.is_number() ? weight.to_number<double>() : 0;
    if (number <= 0 || number > max_weight) {
      Body::refuse("weights",
                   fmt::format("found {:.100}, expected numbers above 0, up to {}", to_text(weight), max_weight));
    }
    text += (i == 0 ? "" : ",") + fmt::format("{}", number);
  }
  if (!fits) Body::refuse("weights", fmt::format("expected {} numbers, one of each checkpoint", models));
  return text;
}

Others read_others(Body& body, const std::string& own) {
  Others others;
  const json::value *list = body.value("checkpoints"), *weights = body.value("weights");
  const auto combine = body.text("combine", 32);
  if (list == nullptr) {
    if (weights != nullptr || combine) Body::refuse(combine ? "combine" : "weights", "found without checkpoints");
    return others;
  }
  const bool fits = list->is_array() && !list->get_array().empty() && list->get_array().size() < max_models &&
                    std::ranges::all_of(list->get_array(), [](const json::value& id) { return id.is_string(); });
  if (!fits) Body::refuse("checkpoints", fmt::format("expected an array of 1 to {} ids", max_models - 1));
  for (const json::value& id : list->get_array()) {
    std::string other(id.get_string());
    if (other == own || std::ranges::find(others.ids, other) != others.ids.end()) {
      Body::refuse("checkpoints", fmt::format("found {:.64} twice", printable(other)));
    }
    others.ids.push_back(std::move(other));
  }
  if (weights != nullptr) others.options = {"--weights", read_weights(*weights, others.ids.size() + 1)};
  if (combine) {
    if (combine != "probabilities" && combine != "logarithms") {
      Body::refuse("combine", "expected probabilities or logarithms");
    }
    others.options.insert(others.options.end(), {"--combine", *combine});
  }
  return others;
}

/// Builds the request line for the translator, which gives omitted options the defaults of `nmt translate`. It knows
/// them all, with their ranges, and refuses others; here are the limits of a server that many share. A request's size
/// bounds the rest. Sets `stream` if the client wants events, and the other checkpoints of an ensemble.
json::object read_request(const http::Request& request, bool& stream, Others& others) {
  Body body(request);
  others = read_others(body, request.parameter("checkpoint"));
  stream = body.flag("stream").value_or(false);
  json::object line = {{"text", read_lines(body)}, {"max_subwords", max_subwords}};
  const auto beam = body.integer("beam", 1, max_beam);
  const auto nbest = body.integer("nbest", 1, beam.value_or(max_beam));
  if (beam) line["beam"] = *beam;
  if (nbest) line["nbest"] = *nbest;
  const auto mbr_samples = body.integer("mbr_samples", 2, max_mbr_samples);
  if (mbr_samples) line["mbr_samples"] = *mbr_samples;
  for (const char* name : {"id", "max_subwords", "most_pieces", "n_best", "first"}) {
    if (body.value(name) != nullptr) Body::refuse(name, "unknown member");
  }
  for (auto& [name, value] : body.rest()) line[name] = std::move(value);
  return line;
}

http::Problem problem_of(const translate::JobOutcome& outcome) {
  using Status = translate::JobOutcome::Status;
  switch (outcome.status) {
    case Status::refused:
      return outcome.code == "too_long" ? http::Problem(422, "too_long", outcome.detail)
                                        : http::Problem(400, "bad_body", outcome.detail);
    case Status::unavailable:
      return {503, "no_translator", outcome.detail};
    case Status::busy:
      return {503, "busy", outcome.detail};
    case Status::late:
      return {503, "translator_late", outcome.detail};
    case Status::damaged:
      return {409, "damaged", outcome.detail};
    default:
      return {500, "translator_failed", outcome.detail};
  }
}

/// `checkpoints`: of the address, then the others of an ensemble.
http::Response response_of(const http::Request& request, const std::vector<std::string>& checkpoints,
                           translate::JobOutcome outcome) {
  if (outcome.status != translate::JobOutcome::Status::done)
    return http::problem_response(problem_of(outcome), request.id);
  json::object answer = {{"checkpoint", checkpoints.front()}};
  if (checkpoints.size() > 1) answer["checkpoints"] = json::array(checkpoints.begin(), checkpoints.end());
  for (auto& [name, value] : outcome.answer) answer.insert_or_assign(name, std::move(value));
  return json_response(answer);
}

/// The events of a streamed translation. A client that reads slowly gets only the newest text of a line, so that no
/// more is kept than the answer has. Thread-safe.
class TranslationStream : public http::EventSource {
 public:
  /// Adds what the translator knows of a line: its `text` so far, or its `item`.
  void add(const json::object& part) {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    const std::int64_t line = get_integer(part, "line");
    const bool complete = part.contains("item");
    if (complete) {
      texts_.erase(line);
      frames_ += frame("item", to_text(part));
    } else {
      texts_[line] = frame("text", to_text(part));
    }
    wake();
  }
  /// Adds the last event.
  void finish(std::string_view name, const std::string& data) {
    const std::lock_guard lock(mutex_);
    texts_.clear();
    frames_ += frame(name, data);
    finished_ = true;
    wake();
  }

  Frames take() override {
    const std::lock_guard lock(mutex_);
    woken_ = false;
    Frames frames{.text = std::exchange(frames_, {})};
    for (const auto& [line, text] : texts_) frames.text += text;
    texts_.clear();
    return frames;
  }
  bool ended() const override {
    const std::lock_guard lock(mutex_);
    return finished_ && frames_.empty() && texts_.empty();
  }
  void on_ready(std::function<void()> wake) override {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
    woken_ = false;
  }

 private:
  static std::string frame(std::string_view name, std::string_view data) {
    return fmt::format("event: {}\ndata: {}\n\n", name, data);
  }
  void wake() {
    if (wake_ && !std::exchange(woken_, true)) wake_();
  }

  mutable std::mutex mutex_;
  std::map<std::int64_t, std::string> texts_;  // the newest text of each unfinished line, as an event
  std::string frames_;                         // other events
  bool finished_ = false, woken_ = false;
  std::function<void()> wake_;
};

/// Answers a request with a stream of events, or with a problem if nothing was translated before it.
class StreamedAnswer {
 public:
  StreamedAnswer(std::shared_ptr<const http::Request> request, std::vector<std::string> checkpoints, http::Reply reply)
      : request_(std::move(request)), checkpoints_(std::move(checkpoints)), reply_(std::move(reply)) {}

  void add(const json::object& part) {
    start();
    stream_->add(part);
  }
  void finish(translate::JobOutcome outcome) {
    const bool done = outcome.status == translate::JobOutcome::Status::done;
    http::Response response = response_of(*request_, checkpoints_, std::move(outcome));
    if (!done && !started_) return reply_(std::move(response));
    start();
    stream_->finish(done ? "done" : "error", std::get<std::string>(response.body));
  }

 private:
  void start() {
    if (started_.exchange(true)) return;
    http::Response response;
    response.set("Content-Type", "text/event-stream").set("Cache-Control", "no-store").set("X-Accel-Buffering", "no");
    response.body = std::shared_ptr<http::EventSource>(stream_);
    reply_(std::move(response));
  }

  const std::shared_ptr<const http::Request> request_;
  const std::vector<std::string> checkpoints_;
  const http::Reply reply_;
  const std::shared_ptr<TranslationStream> stream_ = std::make_shared<TranslationStream>();
  std::atomic<bool> started_ = false;
};

}  // namespace

namespace {

/// A checkpoint or an ensemble that translates, held so that nobody removes it.
struct Chosen {
  std::vector<std::string> ids;
  std::string name;  // of its process
  translate::Models models;
  std::vector<std::shared_ptr<const void>> held;
};

Chosen chosen_models(Service& service, const std::string& id, const Others& others) {
  Chosen chosen{.ids = {id}, .name = "", .models = {}, .held = {}};
  chosen.ids.insert(chosen.ids.end(), others.ids.begin(), others.ids.end());
  chosen.name = fmt::format("{}", fmt::join(chosen.ids, "+"));
  for (const std::string& option : others.options) chosen.name += " " + option;
  chosen.models.options = others.options;
  std::string run;
  for (const std::string& each : chosen.ids) {
    const store::CheckpointRow row = artifacts::require_checkpoint(service.store, each);
    if (run.empty()) run = row.run;
    if (row.run != run) Body::refuse("checkpoints", fmt::format("found {} of another run", row.id));
    chosen.held.push_back(service.downloads.hold(row.id));
    chosen.models.folders.push_back(artifacts::folder_of(service.checkpoint_roots, row));
  }
  return chosen;
}

}  // namespace

void translate_text(Service& service, const std::shared_ptr<const http::Request>& request, const http::Reply& reply) {
  const std::string id = artifacts::require_checkpoint(service.store, request->parameter("checkpoint")).id;
  bool stream = false;
  Others others;
  json::object line = read_request(*request, stream, others);
  Chosen chosen = chosen_models(service, id, others);
  if (service.translators == nullptr) throw http::Problem(503, "no_translator", "this server does not translate");
  translate::Client client{.owner = request->owner(), .abandoned = [request] { return request->abandoned(); }};
  translate::Pool::Done done = [request, ids = chosen.ids, reply](translate::JobOutcome outcome) {
    reply(response_of(*request, ids, std::move(outcome)));
  };
  if (stream) {
    const auto answer = std::make_shared<StreamedAnswer>(request, chosen.ids, reply);
    client.progress = [answer](const json::object& part) { answer->add(part); };
    done = [answer](translate::JobOutcome outcome) { answer->finish(std::move(outcome)); };
  }
  service.translators->translate(
      std::move(chosen.name), std::move(chosen.models), std::move(line),
      [done = std::move(done), held = std::move(chosen.held)](translate::JobOutcome outcome) {
        done(std::move(outcome));
      },
      std::move(client));
}

}  // namespace babelring::api
