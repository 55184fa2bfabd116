#include "base/open_mpi.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <utility>

#include "base/log.h"

namespace babelring::open_mpi {
namespace {

constexpr std::size_t longest_message = 1000;
constexpr std::size_t longest_name = 253;  // of a host

/// The text from `words` on, in one line with single spaces: Open MPI 5 breaks lines anywhere. Empty without them.
std::string message_from(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return "";
  std::string line;
  for (const char c : text.substr(at, longest_message)) {
    const bool space = c == ' ' || c == '\n' || c == '\r' || c == '\t';
    if (!space) line += c;
    if (space && !line.ends_with(' ')) line += ' ';
  }
  return line;
}

/// Moves `text` behind `words`; false if it does not have them.
bool skip(std::string_view& text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return false;
  text.remove_prefix(at + words.size());
  return true;
}

std::optional<std::int64_t> number_after(std::string_view& text, std::string_view words) {
  if (!skip(text, words)) return std::nullopt;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// The host name, address or path after `words`, also at the end of a sentence.
std::string word_after(std::string_view& text, std::string_view words) {
  if (!skip(text, words)) return "";
  std::string_view word = text.substr(0, text.find_first_of(" ,"));
  while (word.ends_with('.') || word.ends_with(':')) word.remove_suffix(1);
  return printable(word.substr(0, longest_name));
}

/// ssh's complaint: the host after `words` and the rest of the line.
std::optional<StartFailure> unreachable(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = text.substr(at, std::min(text.find('\n', at) - at, longest_message));
  const std::string whole = printable(rest.substr(rest.find(' ') + 1));
  const std::string host = word_after(rest, words);
  return StartFailure{fmt::format("mpirun cannot reach {}: {}", host, whole), host};
}

/// A host of another generation lacks the program that mpirun starts there.
std::optional<StartFailure> missing_daemon(std::string_view text) {
  for (const std::string_view daemon : {"orted", "prted"}) {
    for (const std::string_view words : {": command not found", ": not found", ": No such file or directory"}) {
      if (text.find(fmt::format("{}{}", daemon, words)) == std::string_view::npos) continue;
      return StartFailure{
          fmt::format("mpirun could not start {} on another host: it needs Open MPI {} there, as on this host", daemon,
                      daemon == "orted" ? "4" : "5"),
          ""};
    }
  }
  return std::nullopt;
}

/// Open MPI 4's name of a launcher's variable and 5's. A name that ends with '_' stands for all that begin with it.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> twins = {{
    {"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"},
    {"OMPI_MCA_plm_rsh_args", "PRTE_MCA_plm_ssh_args"},
    {"OMPI_MCA_plm_rsh_no_tree_spawn", "PRTE_MCA_plm_ssh_no_tree_spawn"},
    {"OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"},
    {"OMPI_MCA_orte_keep_fqdn_hostnames", "PRTE_MCA_prte_keep_fqdn_hostnames"},
    {"OMPI_MCA_oob_tcp_", "PRTE_MCA_oob_tcp_"},
    {"OMPI_MCA_plm", "PRTE_MCA_plm"},
}};

/// The other generation's name of a variable; empty if it has none.
std::string twin_of(std::string_view name) {
  for (const auto& [four, five] : twins) {
    for (const auto& [here, there] : {std::pair(four, five), std::pair(five, four)}) {
      if (name == here) return std::string(there);
      if (here.ends_with('_') && name.starts_with(here)) {
        return std::string(there) + std::string(name.substr(here.size()));
      }
    }
  }
  return "";
}

}  // namespace

std::optional<LostRank> find_lost_rank(std::string_view text) {
  constexpr std::string_view noticed = "run noticed that process rank ";
  const std::string message = message_from(text, noticed);
  std::string_view rest = message;
  const auto rank = number_after(rest, noticed);
  if (!rank) return std::nullopt;
  LostRank lost{.rank = *rank, .host = word_after(rest, "on node "), .how = "ended"};
  if (const auto signal = number_after(rest, "exited on signal "))
    lost.how = fmt::format("killed by signal {}", *signal);
  return lost;
}

std::optional<LostRank> find_disconnected_rank(std::string_view text) {
  std::set<std::int64_t> aborted;
  for (std::string_view rest = text; skip(rest, "An error occurred in Socket closed");) {
    std::string_view block = rest.substr(0, longest_message);  // "*** reported by process [JOB,RANK]"
    if (!skip(block, "reported by process [")) continue;
    if (const auto rank = number_after(block, ",")) aborted.insert(*rank);
  }
  if (aborted.empty()) return std::nullopt;
  for (std::string_view rest = text; skip(rest, "already ended: ");) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    while (const auto rank = number_after(line, "rank ")) {
      std::string host = word_after(line, "(host ");
      if (host.ends_with(')')) host.pop_back();
      if (!aborted.contains(*rank)) {
        return LostRank{*rank, host, fmt::format("lost: the connection of rank {} to it closed", *aborted.begin())};
      }
    }
  }
  return std::nullopt;
}

std::string find_lost_host(std::string_view text) {
  const std::string message = message_from(text, "RTE has lost communication with a remote daemon");
  std::string_view rest = message;
  return skip(rest, "Remote daemon:") ? word_after(rest, "on node ") : "";
}

std::optional<StartFailure> find_start_failure(std::string_view text) {
  for (const std::string_view words : {"ssh: Could not resolve hostname ", "ssh: connect to host "}) {
    if (auto failure = unreachable(text, words)) return failure;
  }
  if (auto failure = missing_daemon(text)) return failure;
  const std::string slots = message_from(text, "not enough slots available in the system to satisfy the ");
  std::string_view rest = slots;
  if (const auto wanted = number_after(rest, "to satisfy the ")) {
    return StartFailure{fmt::format("mpirun has fewer slots than the {} ranks", *wanted), ""};
  }
  const std::string program = message_from(text, "was unable to launch the specified application");
  rest = program;
  if (const std::string file = word_after(rest, "Executable: "); !file.empty()) {
    const std::string host = word_after(rest, "Node: ");
    return StartFailure{fmt::format("mpirun could not start {} on {}", file, host), host};
  }
  return std::nullopt;
}

bool is_mpirun(std::string_view process_name) {
  constexpr std::array<std::string_view, 5> names = {"mpirun", "mpiexec", "orterun", "prterun", "prun"};
  return std::find(names.begin(), names.end(), process_name) != names.end();
}

std::vector<std::string> for_both_launchers(std::vector<std::string> variables) {
  const auto sets = [&variables](const std::string& name) {
    return std::any_of(variables.begin(), variables.end(),
                       [&](const std::string& variable) { return variable.starts_with(name + "="); });
  };
  const std::size_t given = variables.size();
  for (std::size_t i = 0; i < given; ++i) {
    const std::size_t equals = variables[i].find('=');
    if (equals == std::string::npos) continue;
    const std::string twin = twin_of(std::string_view(variables[i]).substr(0, equals));
    if (!twin.empty() && !sets(twin)) variables.push_back(twin + variables[i].substr(equals));
  }
  return variables;
}

}  // namespace babelring::open_mpi
