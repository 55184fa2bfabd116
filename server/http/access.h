#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace babelring::http {

/// The permission that a route requires; openapi.yaml names it too. `admin` includes all others, `operate` includes
/// `read`, and `ingest` stands alone.
enum class Scope { none, read, ingest, operate, admin };

std::string_view name_of(Scope scope);
/// The scope of that name; nothing for an unknown name or `none`.
std::optional<Scope> scope_named(std::string_view name);
/// Whether a token of scope `held` may do what requires `needed`.
bool covers(Scope held, Scope needed);

/// The identity behind a token.
struct Caller {
  std::string token;  // its id, t_…
  std::string name;
  Scope scope = Scope::none;
  std::string run;         // the one run it may write to; empty: any
  std::string run_prefix;  // what the names of the runs that it may report for begin with; empty: any
};

/// Verifies tokens. Called on the I/O threads, so it must not block. Thread-safe.
class Authenticator {
 public:
  virtual ~Authenticator() = default;
  /// The caller with this secret; null if it is unknown, expired or revoked.
  virtual std::shared_ptr<const Caller> identify(std::string_view secret) = 0;
  /// Whether the caller's token is still valid; asked repeatedly during long responses.
  virtual bool holds(const Caller& caller) = 0;
};

/// A write that a route of scope ingest, operate or admin was asked for, and its outcome, for the audit.
struct WriteNote {
  std::int64_t time_ms = 0;
  std::string actor, token;           // the token's name and id; "anonymous" and empty without a token
  std::string method, route, object;  // object: the path requested, or of what the request created
  int status = 0;
  std::string request, address;
  bool ingest = false;       // on a route for records, which is called several times a second
  bool kept_by_age = false;  // asked for by who may operate or administer, or done by the server itself
  bool kept = false;         // already in the audit, written in the transaction of the change itself
};

/// Records who wrote what. Thread-safe.
class AuditTrail {
 public:
  virtual ~AuditTrail() = default;
  /// Does not block. Calls `then`, unless it is empty, once the note is stored or storing it has failed.
  virtual void note(WriteNote note, std::function<void()> then) = 0;
};

}  // namespace babelring::http
