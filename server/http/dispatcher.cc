#include "server/http/dispatcher.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "server/http/fields.h"
#include "server/http/reply.h"
#include "server/http/static_files.h"

namespace babelring::http {
namespace {

constexpr std::size_t max_object_bytes = 512;

}  // namespace

std::shared_ptr<WriteNote> begin_note(const Request& request, const Route& route, bool kept_out) {
  const bool steers = route.scope == Scope::operate || route.scope == Scope::admin;
  if (!writes(request) || !(steers || route.scope == Scope::ingest)) return nullptr;
  const std::string_view path = std::string_view(request.target).substr(0, request.target.find('?'));
  auto note = std::make_shared<WriteNote>();
  note->actor = request.actor;
  if (request.caller) note->token = request.caller->token;
  note->method = request.method;
  note->route = route.path;
  note->object = printable(std::string_view(redact(path)).substr(0, max_object_bytes));
  note->request = redact(request.id);
  note->address = request.address;
  note->ingest = route.scope == Scope::ingest;
  note->kept_by_age = steers && !kept_out;
  return note;
}

void finish_note(AuditTrail& audit, const Request& request, const Response& response, std::function<void()> then) {
  // If the stored note has another status, the write has failed after its commit: the failure gets a second entry.
  if (!request.note || (request.note->kept && request.note->status == response.status)) {
    if (then) then();
    return;
  }
  WriteNote note = *request.note;
  note.time_ms = wall_time_ms();
  note.status = response.status;
  const std::string_view created = response.header("Location");
  if (!created.empty()) note.object = printable(created.substr(0, max_object_bytes));
  audit.record(std::move(note), std::move(then));
}

namespace {

Response problem_of(const Request& request, const std::exception& failure) {
  if (const auto* problem = dynamic_cast<const Problem*>(&failure)) return problem_response(*problem, request.id);
  spdlog::error("{} {} [{}]: {}", request.method, printable(redact(request.target)), request.id,
                printable(failure.what()));
  return problem_response(Problem(500, "internal", "internal error; see this request id in the server log"),
                          request.id);
}

/// The response if the handler returned without responding.
Response lost_response(const Request& request) {
  if (!request.abandoned()) {
    spdlog::error("{} {} [{}]: the handler sent no response", request.method, printable(request.target), request.id);
  }
  return problem_response(Problem(500, "internal", "internal error; see this request id in the server log"),
                          request.id);
}

/// Response after the client disconnected; at most a proxy reads it.
Response left_response(const Request& request) {
  return problem_response(Problem(503, "busy", "the client disconnected before the response"), request.id);
}

Work work_of(const Request& request) {
  Work work;
  work.owner = request.owner();
  if (const auto run = request.parameters.find("run"); run != request.parameters.end()) work.subject = run->second;
  work.arrived = request.complete;
  return work;
}

/// The path below which a proxy shows this server, from X-Forwarded-Prefix; empty at the root, or if it is no plain
/// path.
std::string forwarded_prefix(const Request& request) {
  std::string prefix(trimmed(request.header("x-forwarded-prefix")));
  while (prefix.ends_with('/')) prefix.pop_back();
  const bool plain = prefix.starts_with('/') && !prefix.starts_with("//") && prefix.size() <= 200 &&
                     std::all_of(prefix.begin(), prefix.end(), [](unsigned char c) {
                       return std::isalnum(c) != 0 || std::string_view("/._~-").find(c) != std::string_view::npos;
                     });
  return plain ? prefix : "";
}

/// Puts the proxy's prefix before the addresses in a response's head.
void add_prefix(const std::string& prefix, Response& response) {
  if (prefix.empty()) return;
  for (auto& [name, value] : response.headers) {
    if (name == "Location" && value.starts_with('/')) value.insert(0, prefix);
    if (name == "Link" && value.starts_with("</")) value.insert(1, prefix);
  }
}

}  // namespace

Dispatcher::Dispatcher(Router router, StaticFiles files, AdmissionOptions options, Executor executor)
    : admission_(std::make_unique<Admission>(std::move(options), std::move(router), std::move(files))),
      executor_(std::move(executor)) {}

Admission::Decision Dispatcher::admit(Request& request) const {
  const Stopwatch watch;
  AuditTrail* audit = admission_->options().audit;
  Admission::Decision decision = admission_->decide(request);
  const int status = decision.refusal ? decision.refusal->status : 0;
  if (decision.route != nullptr && audit != nullptr) {
    const bool kept_out = status == 401 || status == 403 || status == 421 || status == 429;
    request.note = begin_note(request, *decision.route, kept_out);
  }
  if (!decision.refusal) return decision;
  decision.refusal->work_ms = watch.elapsed_ms();
  admission_->router().report_refusal(request, decision.route, status, watch.elapsed_ms() / 1000);
  // A client over its rate limit must not evict other audit entries.
  if (request.note && status != 429) finish_note(*audit, request, *decision.refusal, {});
  return decision;
}

std::optional<Response> Dispatcher::answer_now(Request& request, const Admission::Decision& admission) const {
  request.complete = SteadyClock::now();
  if (admission.route == nullptr || !admission.route->from_cache) return std::nullopt;
  const Stopwatch watch;
  std::optional<Response> response;
  try {
    response = admission.route->from_cache(request);
    if (!response) return std::nullopt;
    add_validator(request, *response);
    compress(request, *response);
    add_prefix(prefix_of(request), *response);
  } catch (const std::exception& failure) {
    response = problem_of(request, failure);
  }
  response->work_ms = watch.elapsed_ms();
  admission_->router().report_refusal(request, admission.route, response->status, response->work_ms / 1000);
  return response;
}

std::string Dispatcher::prefix_of(const Request& request) const {
  return admission_->options().behind_proxy ? forwarded_prefix(request) : "";
}

void Dispatcher::dispatch(std::shared_ptr<const Request> request, const Admission::Decision& admission,
                          Reply reply) const {
  if (std::string prefix = prefix_of(*request); !prefix.empty()) {
    reply = Reply([prefix = std::move(prefix), reply](Response response) {
      add_prefix(prefix, response);
      reply(std::move(response));
    });
  }
  if (admission.route == nullptr) {
    const Stopwatch watch;
    Response response;
    try {
      response = admission_->files().serve(*request);
    } catch (const std::exception& failure) {
      response = problem_of(*request, failure);
    }
    response.work_ms = watch.elapsed_ms();
    reply(std::move(response));
    return;
  }
  const Route& route = *admission.route;
  if (route.on_io_thread) {
    handle(request, route, reply);
    return;
  }
  const Reply certain = Reply::required(reply, [request] { return lost_response(*request); });
  Work work = work_of(*request);
  work.run = [this, request, &route, certain] { handle(request, route, certain); };
  work.drop = [this, request, &route, certain](Work::Drop why) { certain(dropped(*request, route, why)); };
  work.abandoned = [request] { return request->abandoned(); };
  executor_->submit(route.lane, std::move(work));
}

void Dispatcher::run(const Request& request, std::function<void()> task) const {
  Work work = work_of(request);
  work.arrived = SteadyClock::now();
  work.run = std::move(task);
  executor_->submit(Lane::query, std::move(work));
}

Response Dispatcher::dropped(const Request& request, const Route& route, Work::Drop why) const {
  const bool left = why == Work::Drop::abandoned;
  const double seconds = std::chrono::duration<double>(SteadyClock::now() - request.complete).count();
  admission_->router().report_refusal(request, &route, left ? client_left : 503, seconds);
  if (left) return left_response(request);
  const std::string detail = why == Work::Drop::ending
                                 ? "the server is shutting down"
                                 : fmt::format("too many queued requests (lane {}); retry later", name_of(route.lane));
  return problem_response(Problem(503, "busy", detail), request.id);
}

void Dispatcher::handle(const std::shared_ptr<const Request>& request, const Route& route, const Reply& reply) const {
  // The audit entry of a write is stored before its response is sent.
  const Stopwatch watch;
  const auto finish = [this, request, reply, watch](Response response) {
    if (!request->note) {
      response.work_ms = watch.elapsed_ms();
      reply(std::move(response));
      return;
    }
    auto held = std::make_shared<Response>(std::move(response));
    finish_note(*admission_->options().audit, *request, *held, [reply, held, watch] {
      held->work_ms = watch.elapsed_ms();
      reply(std::move(*held));
    });
  };
  const Reply answer = Reply::required(
      [request, finish](Response response) {
        add_validator(*request, response);
        compress(*request, response);
        finish(std::move(response));
      },
      [request] { return lost_response(*request); });
  try {
    route.handler(request, answer);
  } catch (const std::exception& failure) {
    answer(request->abandoned() ? left_response(*request) : problem_of(*request, failure));
  }
}

}  // namespace babelring::http
