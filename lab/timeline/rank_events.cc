#include "lab/timeline/rank_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "base/json.h"
#include "lab/timeline/trace_file.h"

namespace babelring {

double TimeSet::ms() const {
  double sum = 0;
  for (const auto& [begin, end] : joined()) sum += end - begin;
  return sum / 1e3;
}

TimeSet TimeSet::within(const TimeSet& other) const {
  TimeSet both;
  const auto ours = joined(), theirs = other.joined();
  for (auto a = ours.begin(), b = theirs.begin(); a != ours.end() && b != theirs.end();) {
    both.add(std::max(a->first, b->first), std::min(a->second, b->second));
    (a->second < b->second ? a : b)++;
  }
  return both;
}

std::vector<std::pair<double, double>> TimeSet::joined() const {
  std::vector<std::pair<double, double>> sorted = parts_, whole;
  std::ranges::sort(sorted);
  for (const auto& part : sorted) {
    if (!whole.empty() && part.first <= whole.back().second) {
      whole.back().second = std::max(whole.back().second, part.second);
    } else {
      whole.push_back(part);
    }
  }
  return whole;
}

void SplitCounter::add(std::string_view category, std::string_view name, double begin_us, double end_us,
                       std::int64_t bytes) {
  const bool phase = category == "phase", range = device_ && category == "range";
  if (category == "update") updates_.add(begin_us, end_us);
  if (category == "collective" && bytes > 0) all_reduces_.add(begin_us, end_us);
  if (phase && name == "data") data_.add(begin_us, end_us);
  if (phase && !device_ && name == "communication") exposed_.add(begin_us, end_us);
  if (range && name == "gradient_sum") exposed_.add(begin_us, end_us);
  const bool computes = name != "data" && name != "communication" && name != "other";
  if (phase && !device_ && computes) compute_.add(begin_us, end_us);
  if (range && name != "gradient_sum" && name != "data") compute_.add(begin_us, end_us);
}

RankSplit SplitCounter::split() const {
  RankSplit split;
  const TimeSet all_reduces = all_reduces_.within(updates_);
  split.total_ms = updates_.ms();
  split.exposed_ms = exposed_.within(updates_).ms();
  split.compute_ms = compute_.within(updates_).ms();
  // A device computes on while the host waits for data.
  split.data_ms = std::clamp(split.total_ms - split.exposed_ms - split.compute_ms, 0.0, data_.ms());
  split.other_ms = split.total_ms - split.exposed_ms - split.compute_ms - split.data_ms;
  split.hidden_ms = all_reduces.ms() - all_reduces.within(exposed_).ms();
  if (all_reduces.ms() > 0) split.overlap = split.hidden_ms / all_reduces.ms();
  return split;
}

namespace {

using Time = SteadyClock::time_point;

/// Writes one rank's events.
class RankWriter {
 public:
  RankWriter(const RankTimeline& timeline, const ClockMap& clock, Time origin)
      : timeline_(timeline), clock_(clock), origin_(origin), text_(timeline.rank), split_(timeline.device) {}

  void write();
  const std::vector<TracedCollective>& collectives() const { return collectives_; }
  const std::string& text() const { return text_.text(); }
  RankSplit split() const { return split_.split(); }

 private:
  double us(Time time) const {
    return std::chrono::duration<double, std::micro>(clock_.on_rank_0(time) - origin_).count();
  }
  void slice(int thread, std::string_view name, std::string_view category, Time begin, Time end,
             std::string arguments = {}, std::int64_t bytes = 0) {
    split_.add(category, name, us(begin), us(end), bytes);
    text_.add({thread, name, category, us(begin), us(end), std::move(arguments)});
  }
  void write_names();
  void write_update(const TracedUpdate& update);
  void write_phases(const TracedUpdate& update);
  void write_counters(const TracedUpdate& update);
  void write_spans();
  void write_op(const TimedOp& op);
  void write_collectives();
  void write_arrow_from_op(const CommSpan& span, const TracedCollective& traced);

  const RankTimeline& timeline_;
  const ClockMap& clock_;
  Time origin_;
  TraceText text_;
  SplitCounter split_;
  std::vector<TracedCollective> collectives_;
};

void RankWriter::write() {
  write_names();
  for (const TracedUpdate& update : timeline_.updates) write_update(update);
  write_spans();
  for (const TimedRange& range : timeline_.ranges) {
    slice(trace_thread::device, range.name, "range", range.begin, range.end);
  }
  for (const TimedOp& op : timeline_.ops) write_op(op);
  write_collectives();
}

void RankWriter::write_names() {
  text_.name_process(fmt::format("rank {} on {}", timeline_.rank, timeline_.host));
  text_.name_thread(trace_thread::main, "main");
  text_.name_thread(trace_thread::device, timeline_.device ? "device" : "device (processor)");
  text_.name_thread(trace_thread::data, "data");
  text_.name_thread(trace_thread::reporter, "reporter");
}

void RankWriter::write_update(const TracedUpdate& update) {
  const StepRecord& record = update.record;
  std::string arguments = fmt::format(R"("update":{},"target_tokens":{})", record.update, record.target_tokens);
  for (const StepTimesMember& member : step_times_members) {
    arguments += fmt::format(R"(,"{}":{:.6f})", member.key, record.times.*member.value);
  }
  slice(trace_thread::main, fmt::format("update {}", record.update), "update", update.begin, update.end, arguments);
  write_phases(update);
  write_counters(update);
}

/// The phases of the main thread fill the update without gaps: time that belongs to no other phase is "other".
void RankWriter::write_phases(const TracedUpdate& update) {
  std::vector<const LoggedSpan*> phases;
  for (const LoggedSpan& span : timeline_.spans) {
    const bool inside = span.thread == "main" && span.end > update.begin && span.begin < update.end;
    if (inside && (span.category == "data" || (span.category == "phase" && span.name != "other"))) {
      phases.push_back(&span);
    }
  }
  std::ranges::sort(phases, {}, &LoggedSpan::begin);
  Time done = update.begin;
  for (const LoggedSpan* phase : phases) {
    const Time begin = std::max(done, phase->begin), end = std::min(update.end, phase->end);
    if (begin > done) slice(trace_thread::main, "other", "phase", done, begin);
    if (end <= begin) continue;
    slice(trace_thread::main, phase->name, "phase", begin, end);
    done = end;
  }
  if (done < update.end) slice(trace_thread::main, "other", "phase", done, update.end);
}

void RankWriter::write_counters(const TracedUpdate& update) {
  std::vector<std::pair<std::string, double>> memory;
  for (const auto& [purpose, bytes] : update.record.memory_bytes) {
    if (purpose != "peak" && purpose != "process") memory.emplace_back(purpose, static_cast<double>(bytes));
  }
  const auto count = [&](std::string_view name, const char* unit, double value) {
    const std::pair<std::string, double> series{unit, value};
    text_.count(name, us(update.end), std::span(&series, 1));
  };
  if (!memory.empty()) text_.count("memory", us(update.end), memory);
  count("bytes sent", "bytes", static_cast<double>(update.bytes_sent));
  if (update.record.power_w > 0) count("power", "W", update.record.power_w);
}

/// Writes what the threads did outside of phases.
void RankWriter::write_spans() {
  static const std::map<std::string_view, int> threads = {
      {"main", trace_thread::main}, {"data", trace_thread::data}, {"reporter", trace_thread::reporter}};
  for (const LoggedSpan& span : timeline_.spans) {
    const auto thread = threads.find(span.thread);
    const bool phase = span.category == "phase" || (span.thread == "main" && span.category == "data");
    if (thread == threads.end() || phase) continue;
    slice(thread->second, span.name, span.category, span.begin, span.end);
  }
}

/// The shapes of an op's fields as members of a JSON object. The second field of one name is called NAME.2.
std::string shape_members(std::span<const NamedShape> fields) {
  std::string members;
  std::map<std::string_view, int> seen;
  for (const NamedShape& field : fields) {
    const int occurrence = ++seen[field.name];
    const std::string suffix = occurrence > 1 ? fmt::format(".{}", occurrence) : "";
    members += fmt::format(R"({}"{}{}":"{}")", members.empty() ? "" : ",", field.name, suffix, field.shape.text());
  }
  return members;
}

void RankWriter::write_op(const TimedOp& op) {
  const double seconds = std::chrono::duration<double>(op.end - op.begin).count();
  const std::string shapes = shape_members(std::span(timeline_.shapes).subspan(op.first_shape, op.shapes));
  std::string arguments = fmt::format(R"("gflop":{:.6g},"bytes":{:.0f})", op.cost.flops * 1e-9, op.cost.bytes);
  if (op.cost.flops > 0 && seconds > 0) {
    arguments += fmt::format(R"(,"gflop_per_s":{:.6g})", op.cost.flops * 1e-9 / seconds);
  }
  if (!op.layer.empty()) arguments += fmt::format(R"(,"layer":{})", json_string(op.layer));
  slice(trace_thread::device, op.name, "op", op.begin, op.end, fmt::format(R"({},"shapes":{{{}}})", arguments, shapes));
}

/// Each collective gets the first thread that is free when it begins, so that slices of a thread do not overlap.
void RankWriter::write_collectives() {
  std::vector<const CommSpan*> spans;
  for (const CommSpan& span : timeline_.collectives) spans.push_back(&span);
  std::ranges::stable_sort(spans, {}, [](const CommSpan* span) { return span->begun; });
  std::vector<Time> free_from;  // by thread
  for (const CommSpan* span : spans) {
    auto lane = std::ranges::find_if(free_from, [span](Time time) { return time <= span->begun; });
    if (lane == free_from.end()) {
      lane = free_from.insert(free_from.end(), Time());
      const int thread = trace_thread::communication + static_cast<int>(free_from.size()) - 1;
      text_.name_thread(thread, free_from.size() == 1 ? std::string("communication")
                                                      : fmt::format("communication {}", free_from.size()));
    }
    *lane = span->done;
    const TracedCollective traced{.number = span->number,
                                  .bytes = span->bytes,
                                  .asked_us = us(span->asked),
                                  .begun_us = us(span->begun),
                                  .done_us = us(span->done),
                                  .thread = trace_thread::communication + static_cast<int>(lane - free_from.begin())};
    slice(traced.thread, span->name, "collective", span->begun, span->done,
          fmt::format(R"("number":{},"bytes":{},"asked_us":{:.3f})", span->number, span->bytes, traced.asked_us),
          span->bytes);
    write_arrow_from_op(*span, traced);
    collectives_.push_back(traced);
  }
}

/// An arrow from the op that completed a bucket: the last one that ended before the bucket was asked for.
void RankWriter::write_arrow_from_op(const CommSpan& span, const TracedCollective& traced) {
  if (span.bytes == 0) return;
  const auto after = std::ranges::upper_bound(timeline_.ops, span.asked, {}, &TimedOp::end);
  if (after == timeline_.ops.begin()) return;
  const TimedOp& op = *std::prev(after);
  const std::string id = fmt::format("{}-op-{}", timeline_.rank, span.number);
  text_.begin_arrow(id, trace_thread::device, (us(op.begin) + us(op.end)) / 2);
  text_.end_arrow(id, traced.thread, (traced.begun_us + traced.done_us) / 2);
}

}  // namespace

RankEvents events_of(const RankTimeline& timeline, const std::optional<ClockMap>& clock, Time origin) {
  RankEvents result{.rank = timeline.rank, .host = timeline.host, .device = timeline.device};
  if (!clock) return result;
  RankWriter writer(timeline, *clock, origin);
  writer.write();
  const Time begin = timeline.updates.empty() ? Time() : timeline.updates.front().begin;
  const auto us = [](Nanoseconds time) { return std::chrono::duration<double, std::micro>(time).count(); };
  result.clock = {.ahead_us = us(clock->ahead(begin)), .error_us = us(clock->error()), .drift_ppm = clock->drift_ppm()};
  result.split = writer.split();
  result.collectives = writer.collectives();
  result.events = gzip_part(writer.text());
  return result;
}

std::string RankEvents::packed() const {
  json::array list;
  for (const TracedCollective& one : collectives) {
    list.push_back({one.number, one.bytes, one.asked_us, one.begun_us, one.done_us, one.thread});
  }
  json::object head{{"rank", rank}, {"host", host}, {"device", device}, {"collectives", std::move(list)}};
  head["shares"] = {split.total_ms, split.compute_ms, split.exposed_ms, split.data_ms, split.other_ms, split.hidden_ms};
  if (clock) head["clock"] = {clock->ahead_us, clock->error_us, clock->drift_ppm};
  head["events"] = {events.crc, events.text_bytes};
  return to_text(head) + "\n" + events.blocks;
}

Result<RankEvents> RankEvents::unpack(const std::string& text) {
  const std::size_t line = text.find('\n');
  const Result<json::value> head = parse_json(std::string_view(text).substr(0, line));
  if (!head || line == std::string::npos) return Error{"a rank's part of the trace is damaged"};
  const json::object& members = head->as_object();
  RankEvents result{.rank = static_cast<int>(get_integer(members, "rank")),
                    .host = get_text(members, "host"),
                    .device = get_flag(members, "device"),
                    .events = {.blocks = text.substr(line + 1)}};
  const json::array& events = members.at("events").as_array();
  result.events.crc = events.at(0).to_number<std::uint32_t>();
  result.events.text_bytes = events.at(1).to_number<std::uint64_t>();
  if (const json::value* clock = members.if_contains("clock")) {
    const auto number = [clock](std::size_t i) { return clock->as_array().at(i).to_number<double>(); };
    result.clock = {.ahead_us = number(0), .error_us = number(1), .drift_ppm = number(2)};
  }
  const auto ms = [&members](std::size_t i) { return members.at("shares").as_array().at(i).to_number<double>(); };
  result.split = {.total_ms = ms(0),
                  .compute_ms = ms(1),
                  .exposed_ms = ms(2),
                  .data_ms = ms(3),
                  .other_ms = ms(4),
                  .hidden_ms = ms(5)};
  for (const json::value& one : members.at("collectives").as_array()) {
    const json::array& values = one.as_array();
    const auto number = [&values](std::size_t i) { return values.at(i).to_number<double>(); };
    result.collectives.push_back({values.at(0).as_int64(), values.at(1).as_int64(), number(2), number(3), number(4),
                                  static_cast<int>(values.at(5).as_int64())});
  }
  return result;
}

}  // namespace babelring
