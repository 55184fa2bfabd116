#include "cli/runs/run_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <span>
#include <thread>

#include "base/failure.h"
#include "base/records/spool_reader.h"
#include "base/text.h"
#include "cli/runs/screen.h"
#include "client/delivery.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_batch_records = 1000;
constexpr std::size_t max_batch_bytes = std::size_t{1} << 20;

std::vector<SpoolFile> spools_of_ended_run(const fs::path& folder) {
  std::vector<SpoolFile> spools = list_spools(folder / "spool");
  if (spools.empty()) {
    throw UsageFailure(
        fmt::format("{}: found no spool/attempt-*/rank-*.jsonl, expected the folder of a run", folder.string()));
  }
  const bool busy = has_writer(folder / "run.lock") ||
                    std::ranges::any_of(spools, [](const SpoolFile& spool) { return has_writer(spool.file); });
  if (busy) {
    throw UsageFailure(
        fmt::format("{}: a process still trains there and sends its records itself, expected the folder "
                    "of a run that has ended",
                    folder.string()));
  }
  return spools;
}

/// Sends the spools of one run.
class RunSync {
 public:
  RunSync(HttpClient& client, const SyncOptions& options, SyncedRun& result)
      : client_(client), options_(options), result_(result) {}

  void send(const fs::path& file) {
    SpoolReader spool(file);
    confirmed_ = 0;
    if (options_.all) {
      spool.seek(0);
    } else if (spool.remaining() == 0) {  // the server may have lost them: ask with the last one
      const std::int64_t last = last_spool_sequence(file);
      if (last == 0) return;
      spool.seek(last - 1);
      confirmed_ = last;
    } else if (const auto mark = read_spool_mark(file)) {
      confirmed_ = mark->sequence;
    }
    for (;;) {
      const SpoolReader::Batch batch = spool.next(max_batch_records, max_batch_bytes);
      if (batch.lines == 0) break;
      if (deliver(batch.records)) {
        spool.acknowledge(batch);
      } else {
        spool.seek(confirmed_);
      }
      spool.save_acknowledged();
    }
  }

  /// Sends records of one rank, of which the server may have some already.
  void send(std::span<const Record> records) {
    confirmed_ = 0;
    while (!records.empty()) {
      const auto batch = records.first(std::min(records.size(), max_batch_records));
      if (!deliver(batch)) fail("{}: the server has lost records that it had confirmed", client_.address());
      records = records.subspan(batch.size());
    }
  }

 private:
  /// False if the server lacks earlier records: confirmed_ is its newest one then.
  bool deliver(std::span<const Record> records) {
    if (records.empty()) return true;
    result_.run = records.front().header.run;
    const PostedBatch posted = post(records);
    if (posted.delivery == Delivery::stored) {
      confirmed_ = records.back().header.sequence;
      if (posted.accepted > 0) count(records, posted.accepted);
      return true;
    }
    if (posted.delivery == Delivery::missing && posted.stored < confirmed_) {
      confirmed_ = posted.stored;
      return false;
    }
    const bool alone = records.size() == 1;
    if (posted.delivery != Delivery::refused && (posted.delivery != Delivery::oversized || alone)) {
      const bool named = posted.why.starts_with(client_.address());
      fail("{}{}; repeat the command to send what is left{}", named ? "" : client_.address() + ": ", posted.why,
           result_.folder.empty() ? "" : " in " + (result_.folder / "spool").string());
    }
    if (alone) {
      if (result_.refused++ == 0) result_.refusal = posted.why;
      return true;
    }
    const auto first = records.first(records.size() / 2);
    return deliver(first) && deliver(records.subspan(first.size()));
  }

  PostedBatch post(std::span<const Record> records) {
    PostedBatch posted = post_records(client_, records, confirmed_);
    auto pause = options_.first_retry;
    for (int retry = 0; retry < options_.retries && posted.delivery == Delivery::again; ++retry) {
      std::this_thread::sleep_for(
          std::max<std::chrono::milliseconds>(pause, posted.retry_after.value_or(std::chrono::seconds(0))));
      pause *= 2;
      posted = post_records(client_, records, confirmed_);
    }
    return posted;
  }

  void count(std::span<const Record> records, std::int64_t accepted) {
    result_.sent += accepted;
    for (const Record& record : records) {
      const auto* step = std::get_if<StepRecord>(&record.body);
      if (step == nullptr) continue;
      result_.first_update = result_.first_update == 0 ? step->update : std::min(result_.first_update, step->update);
      result_.last_update = std::max(result_.last_update, step->update);
    }
  }

  HttpClient& client_;
  const SyncOptions& options_;
  SyncedRun& result_;
  std::int64_t confirmed_ = 0;  // sequence of the newest record of the spool that the server has confirmed; 0: none
};

std::string describe(const SyncedRun& run) {
  if (run.run.empty()) return fmt::format("{}: there are no records", run.folder.string());
  std::string text = fmt::format("{}: run {}: ", run.folder.string(), run.run);
  if (run.sent == 0 && run.refused == 0) return text + "the server has all records";
  text += fmt::format("{} records sent", grouped(static_cast<double>(run.sent)));
  if (run.last_update > 0) {
    text += fmt::format(", updates {} to {}", grouped(static_cast<double>(run.first_update)),
                        grouped(static_cast<double>(run.last_update)));
  }
  return text;
}

json::object to_json(const SyncedRun& run) {
  return {{"folder", run.folder.string()},
          {"run", run.run},
          {"sent", run.sent},
          {"refused", run.refused},
          {"first_update", run.first_update},
          {"last_update", run.last_update}};
}

void print(const std::vector<SyncedRun>& runs, bool as_json) {
  const Screen screen = Screen::of_stdout();
  std::int64_t sent = 0;
  json::array items;
  for (const SyncedRun& run : runs) {
    sent += run.sent;
    items.push_back(to_json(run));
    if (!as_json) screen.out << describe(run) << '\n';
  }
  if (as_json) {
    screen.out << to_text(json::object{{"runs", std::move(items)}, {"sent", sent}}) << '\n';
  } else if (runs.size() > 1) {
    screen.out << fmt::format("{} runs: {} records sent\n", runs.size(), grouped(static_cast<double>(sent)));
  }
  screen.out.flush();
}

struct SyncArguments {
  ServerChoice server;
  std::vector<fs::path> folders;
  bool all = false;
};

void sync(const SyncArguments& arguments) {
  const std::vector<SyncedRun> runs =
      sync_runs(arguments.folders, {.server = arguments.server.access(), .all = arguments.all});
  print(runs, arguments.server.as_json);
  for (const SyncedRun& run : runs) {
    if (run.refused == 0) continue;
    fail("{}: {} records were refused and stay in the spool: {}", run.folder.string(), run.refused, run.refusal);
  }
}

}  // namespace

std::vector<SyncedRun> sync_runs(const std::vector<fs::path>& folders, const SyncOptions& options) {
  std::vector<std::vector<SpoolFile>> spools;
  for (const fs::path& folder : folders) spools.push_back(spools_of_ended_run(folder));
  HttpClient client(options.server.address, client_options(options.server));
  std::vector<SyncedRun> runs;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    SyncedRun& run = runs.emplace_back(SyncedRun{.folder = folders[i]});
    RunSync sending(client, options, run);
    for (const SpoolFile& spool : spools[i]) sending.send(spool.file);
  }
  return runs;
}

SyncedRun send_records(std::span<const Record> records, const SyncOptions& options) {
  HttpClient client(options.server.address, client_options(options.server));
  SyncedRun run;
  RunSync(client, options, run).send(records);
  if (run.refused > 0) {
    fail("{}: {} of {} records were refused: {}", client.address(), run.refused, records.size(), run.refusal);
  }
  return run;
}

void add_run_sync(CLI::App& run) {
  CLI::App* command = run.add_subcommand("sync", "Sends records of ended runs that a server lacks, from their folders");
  const auto arguments = std::make_shared<SyncArguments>();
  command->add_option("folders", arguments->folders, "folders of runs (--run-dir)")->required();
  command->add_flag("--all", arguments->all, "send every record again, also those that the server refused");
  arguments->server.declare(*command);
  command->callback([arguments] { sync(*arguments); });
}

}  // namespace babelring
