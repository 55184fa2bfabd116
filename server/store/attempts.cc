#include "server/store/attempts.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "server/store/control.h"

namespace babelring::store {
namespace {

using State = RunState;
using AfterEvents = std::array<std::optional<RunState>, 12>;  // in the order of RunEvent

constexpr std::array<AfterEvents, 10> transitions = [] {
  constexpr std::optional<State> no = std::nullopt;
  constexpr State lau = State::launching, run = State::running, sto = State::stopping, res = State::restarting,
                  sus = State::suspended, los = State::lost, suc = State::succeeded, fai = State::failed,
                  end = State::stopped, que = State::queued;
  // clang-format off
  return std::array<AfterEvents, 10>{{
      //             launch reported finished on request faulted gave_up preempted vanished stop  resume newer evaluation
      /* queued     */ {lau,  no,    no,      no,        no,     fai,    no,       no,      end,  no,    run,  que},
      /* launching  */ {no,   run,   suc,     end,       res,    fai,    sus,      los,     sto,  no,    run,  lau},
      /* running    */ {no,   run,   suc,     end,       res,    fai,    sus,      los,     sto,  no,    run,  run},
      /* stopping   */ {no,   sto,   suc,     end,       end,    end,    end,      los,     sto,  no,    run,  sto},
      /* restarting */ {lau,  no,    no,      no,        no,     fai,    no,       no,      end,  no,    run,  res},
      /* suspended  */ {lau,  no,    no,      no,        no,     fai,    no,       no,      end,  no,    run,  sus},
      /* lost       */ {no,   run,   suc,     end,       no,     fai,    no,       no,      end,  que,   run,  los},
      /* succeeded  */ {no,   no,    no,      no,        no,     no,     no,       no,      no,   que,   run,  suc},
      /* failed     */ {no,   no,    no,      no,        no,     no,     no,       no,      no,   que,   run,  fai},
      /* stopped    */ {no,   no,    no,      no,        no,     no,     no,       no,      no,   que,   run,  end},
  }};
  // clang-format on
}();

constexpr std::array<std::string_view, 10> state_names = {
    "queued", "launching", "running", "stopping", "restarting", "suspended", "lost", "succeeded", "failed", "stopped"};
constexpr std::array<std::string_view, 12> event_names = {
    "launch",   "reported",       "finished",         "ended",         "faulted",          "gave_up", "preempted",
    "vanished", "stop_requested", "resume_requested", "newer_attempt", "evaluation_failed"};
constexpr std::array<std::string_view, 3> stop_mode_names = {"", "checkpoint", "now"};
constexpr std::array<std::string_view, 4> outcome_names = {"", "finished", "stopped", "failed"};

/// The value with this name, or `otherwise`.
template <class Enum, std::size_t count>
Enum value_of(std::string_view name, const std::array<std::string_view, count>& names, Enum otherwise) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? otherwise : static_cast<Enum>(found - names.begin());
}

}  // namespace

std::optional<RunState> next_state(RunState state, RunEvent event) {
  return transitions[static_cast<std::size_t>(state)][static_cast<std::size_t>(event)];
}

bool is_terminal(RunState state) {
  return state == State::succeeded || state == State::failed || state == State::stopped;
}

bool has_attempt(RunState state) {
  return state == State::launching || state == State::running || state == State::stopping;
}

std::string_view name_of(RunState state) {
  return state_names[static_cast<std::size_t>(state)];
}

std::string_view name_of(RunEvent event) {
  return event_names[static_cast<std::size_t>(event)];
}

std::string_view name_of(StopMode mode) {
  return stop_mode_names[static_cast<std::size_t>(mode)];
}

std::string_view name_of(Outcome outcome) {
  return outcome_names[static_cast<std::size_t>(outcome)];
}

std::optional<RunState> run_state_of(std::string_view name) {
  for (const RunState state : all_run_states()) {
    if (name_of(state) == name) return state;
  }
  return std::nullopt;
}

void from_name(std::string_view name, RunState& state) {
  state = value_of(name, state_names, RunState::lost);
}

void from_name(std::string_view name, StopMode& mode) {
  mode = value_of(name, stop_mode_names, StopMode::none);
}

void from_name(std::string_view name, Outcome& outcome) {
  outcome = value_of(name, outcome_names, Outcome::none);
}

const std::vector<RunState>& all_run_states() {
  static const std::vector<RunState> states = {State::queued,     State::launching, State::running, State::stopping,
                                               State::restarting, State::suspended, State::lost,    State::succeeded,
                                               State::failed,     State::stopped};
  return states;
}

template <const_or_not<LaunchRow> Row, class Column>
void visit_columns(Row& run, Column&& column) {
  column("r.run", run.number);
  column("r.id", run.id);
  column("r.name", run.name);
  column("r.profile", run.profile);
  column("folder", run.folder);
  column("launch_config", run.config);
  column("state", run.state);
  column("r.attempt", run.attempt);
  column("launch_ranks", run.world_size);
  column("coalesce(a.world_size, 0)", run.attempt_ranks);
  column("max_restarts", run.max_restarts);
  column("restarts", run.restarts);
  column("resume_folder", run.resume_folder);
  column("resume_step", run.resume_step);
  column("place", run.place);
  column("stop_wish", run.stop_mode);
  column("stop_grace_s", run.stop_grace_s);
  column("launcher", run.launcher);
  column("pid", run.handle.pid);
  column("start_ticks", run.handle.start_ticks);
  column("job", run.handle.job);
  column("outcome", run.outcome);
  column("outcome_detail", run.outcome_detail);
  column("(SELECT coalesce(max(step), 0) FROM checkpoints c WHERE c.run = r.run AND NOT removed)",
         run.newest_checkpoint_step);
}

template <const_or_not<AttemptRow> Row, class Column>
void visit_columns(Row& attempt, Column&& column) {
  column("attempt", attempt.attempt);
  column("launcher", attempt.launcher);
  column("job", attempt.job);
  column("resumed_from", attempt.resumed_from);
  column("cause", attempt.cause);
  column("pid", attempt.pid);
  column("world_size", attempt.world_size);
  column("started_ms", attempt.started_ms);
  column("ended_ms", attempt.ended_ms);
  column("exit_code", attempt.exit_code);
  column("(SELECT min(step) FROM steps s WHERE s.run = attempts.run AND s.rank = 0 AND s.attempt = attempts.attempt)",
         attempt.first_update);
}

template <const_or_not<BlackBoxRow> Row, class Column>
void visit_columns(Row& box, Column&& column) {
  column("attempt", box.attempt);
  column("until_ms", box.until_ms);
  column("content", box.content);
}

namespace {

/// Runs with their launch and their current attempt, where they have them.
std::string select_launches(const std::string& where) {
  return select<LaunchRow>(
             "FROM runs r LEFT JOIN launches l ON l.run = r.run "
             "LEFT JOIN attempts a ON a.run = r.run AND a.attempt = r.attempt WHERE deleted_ms IS NULL AND ") +
         where;
}

}  // namespace

std::optional<std::int64_t> begin_attempt(Database& database, const LaunchRow& run, const std::string& launcher,
                                          const std::string& resumed_from, const std::string& cause,
                                          std::int64_t now_ms) {
  const auto found = find_standing(database, run.id);
  if (!found || !next_state(found->state, RunEvent::launch)) return std::nullopt;
  const std::int64_t attempt = found->attempt + 1;
  database.prepare("UPDATE runs SET attempt = ?, checkpoint_wish = 0 WHERE run = ?").bind(attempt, found->number).run();
  database
      .prepare(
          "INSERT INTO attempts(run, attempt, launcher, world_size, resumed_from, started_ms) VALUES (?, ?, ?, ?, ?, "
          "?)")
      .bind(found->number, attempt, launcher, run.world_size, resumed_from, now_ms)
      .run();
  change_state(database, {run.id, RunEvent::launch, cause, "supervisor"}, now_ms);
  return attempt;
}

std::int64_t on_clock_of_records(Database& database, std::int64_t run, std::int64_t attempt, std::int64_t now_ms) {
  std::int64_t record_ms = 0, updated_ms = 0;
  database.prepare("SELECT record_ms, updated_ms FROM ranks WHERE run = ? AND attempt = ? AND rank = 0")
      .bind(run, attempt)
      .next(record_ms, updated_ms);
  return record_ms > 0 ? record_ms + std::max<std::int64_t>(0, now_ms - updated_ms) : now_ms;
}

bool record_newer_attempt(Database& database, const std::string& run, std::int64_t attempt, const std::string& host,
                          std::int64_t at_ms) {
  const auto found = find_standing(database, run);
  if (!found || attempt <= found->attempt) return false;
  database.prepare("UPDATE runs SET attempt = ?, checkpoint_wish = 0 WHERE run = ?").bind(attempt, found->number).run();
  database.prepare("INSERT OR IGNORE INTO attempts(run, attempt, launcher, started_ms) VALUES (?, ?, 'external', ?)")
      .bind(found->number, attempt, at_ms)
      .run();
  change_state(database, {run, RunEvent::newer_attempt, "started by hand", host}, at_ms);
  return true;
}

void record_launcher(Database& database, std::int64_t run, std::int64_t attempt, const LauncherHandle& handle) {
  database.prepare("UPDATE attempts SET pid = ?, start_ticks = ?, job = ? WHERE run = ? AND attempt = ?")
      .bind(handle.pid, handle.start_ticks, handle.job, run, attempt)
      .run();
}

void fence_attempt(Database& database, std::int64_t run, std::int64_t attempt) {
  database.prepare("UPDATE attempts SET fenced = 1 WHERE run = ? AND attempt = ?").bind(run, attempt).run();
}

std::optional<RunState> end_attempt(Database& database, const AttemptEnd& end, std::int64_t now_ms) {
  const auto run = find_standing(database, end.run);
  if (!run) return std::nullopt;
  // The server may notice the end late. If a rank with the clock of rank 0 has reported it, the record has the time.
  const auto reported_ms = database
                               .prepare(
                                   "SELECT coalesce(min(l.time_ms), 0) FROM attempts a JOIN lifecycle l "
                                   "ON l.run = a.run AND l.attempt = a.attempt AND l.name = a.outcome "
                                   "JOIN ranks k ON k.run = a.run AND k.attempt = a.attempt AND k.rank = l.rank "
                                   "WHERE a.run = ?1 AND a.attempt = ?2 AND (k.rank = 0 OR k.host = "
                                   "(SELECT host FROM ranks WHERE run = ?1 AND attempt = ?2 AND rank = 0))")
                               .bind(run->number, end.attempt)
                               .value<std::int64_t>();
  const std::int64_t ended_ms =
      reported_ms > 0 ? reported_ms : on_clock_of_records(database, run->number, end.attempt, now_ms);
  database
      .prepare(
          "UPDATE attempts SET fenced = 1, ended_ms = max(?, coalesce(started_ms, 0)), exit_code = ?, cause = ? "
          "WHERE run = ? AND attempt = ?")
      .bind(ended_ms, end.exit_code, end.cause, run->number, end.attempt)
      .run();
  if (run->attempt != end.attempt) return run->state;  // a user has started a newer attempt
  const std::int64_t at_ms = reported_ms > 0 ? std::min(reported_ms, now_ms) : now_ms;
  const auto after = change_state(database, {end.run, end.event, end.cause, end.actor, ended_ms}, at_ms);
  if (after == RunState::restarting) {
    database.prepare("UPDATE launches SET restarts = restarts + 1 WHERE run = ?").bind(run->number).run();
  }
  return after;
}

void put_black_box(Database& database, const std::string& run, const BlackBoxRow& box) {
  database
      .prepare(
          "INSERT OR REPLACE INTO black_boxes(run, attempt, until_ms, content) SELECT run, ?, ?, ? FROM runs WHERE id "
          "= ?")
      .bind(box.attempt, box.until_ms, box.content, run)
      .run();
  database
      .prepare(
          "DELETE FROM black_boxes WHERE run = (SELECT run FROM runs WHERE id = ?1) AND attempt <= (SELECT b.attempt "
          "FROM black_boxes b JOIN runs r ON r.run = b.run WHERE r.id = ?1 ORDER BY b.attempt DESC LIMIT 1 OFFSET ?2)")
      .bind(run, max_black_boxes)
      .run();
}

std::vector<LaunchRow> active_launches(Reader& reader) {
  static const std::string sql = select_launches(
      "l.run IS NOT NULL AND state IN ('queued', 'launching', 'running', 'stopping', 'restarting', 'suspended', "
      "'lost') "
      "AND (coalesce(launcher, '') <> 'external' OR state = 'queued') ORDER BY place");
  return reader.database.prepare(sql).all<LaunchRow>();
}

std::vector<LaunchRow> ending_externals(Reader& reader) {
  static const std::string sql = select_launches("state IN ('stopping', 'lost') AND launcher = 'external'");
  return reader.database.prepare(sql).all<LaunchRow>();
}

std::pair<Outcome, std::string> find_outcome(Reader& reader, std::int64_t run, std::int64_t attempt) {
  std::pair<Outcome, std::string> found;
  reader.database.prepare("SELECT outcome, outcome_detail FROM attempts WHERE run = ? AND attempt = ?")
      .bind(run, attempt)
      .next(found.first, found.second);
  return found;
}

std::vector<AttemptRow> list_attempts(Reader& reader, std::int64_t run) {
  static const std::string sql = select<AttemptRow>("FROM attempts WHERE run = ? ORDER BY attempt");
  return reader.database.prepare(sql).bind(run).all<AttemptRow>();
}

std::vector<BlackBoxRow> list_black_boxes(Reader& reader, std::int64_t run) {
  static const std::string sql = select<BlackBoxRow>("FROM black_boxes WHERE run = ? ORDER BY attempt DESC");
  return reader.database.prepare(sql).bind(run).all<BlackBoxRow>();
}

bool has_steps(Reader& reader, std::int64_t run, std::int64_t attempt) {
  return reader.database.prepare("SELECT EXISTS (SELECT 1 FROM steps WHERE run = ? AND rank = 0 AND attempt = ?)")
      .bind(run, attempt)
      .value<bool>();
}

std::string folder_of(Reader& reader, std::int64_t run) {
  return reader.database.prepare("SELECT folder FROM launches WHERE run = ?").bind(run).value<std::string>();
}

}  // namespace babelring::store
