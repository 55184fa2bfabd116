#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace babelring::http {

/// The permission required by a route, as named in openapi.yaml. `admin` includes all others, `operate` includes
/// `read`, and `ingest` includes no other.
enum class Scope { none, read, ingest, operate, admin };

std::string_view name_of(Scope scope);
/// The scope with this name. Returns nothing for an unknown name or "none".
std::optional<Scope> scope_named(std::string_view name);
/// True if a token of scope `held` may use a route that requires `needed`.
bool covers(Scope held, Scope needed);

/// The identity behind a token.
struct Caller {
  std::string token;  // token id, t_…
  std::string name;
  Scope scope = Scope::none;
  std::string run;         // id of the only run it may write to, or with scope read may read; empty: any
  std::string run_prefix;  // required name prefix of runs it may report for; empty: any
};

/// Verifies tokens. Implementations must be thread-safe and must not block, because the I/O threads call them.
class Authenticator {
 public:
  virtual ~Authenticator() = default;
  /// The caller with this secret; null if the token is unknown, expired or revoked.
  virtual std::shared_ptr<const Caller> identify(std::string_view secret) = 0;
  /// True if the caller's token is still valid. Checked repeatedly during long responses.
  virtual bool holds(const Caller& caller) = 0;
};

/// Audit entry of a write request, to a route of scope ingest, operate or admin, with its result.
struct WriteNote {
  std::int64_t time_ms = 0;
  std::string actor, token;           // the token's name and id; "anonymous" and empty without a token
  std::string method, route, object;  // object: path of the request, or of the created resource
  int status = 0;
  std::string request, address;
  bool ingest = false;       // a route for records, called several times per second
  bool kept_by_age = false;  // by an operator, an administrator or the server itself
  bool kept = false;         // already in the audit, stored in the same transaction as the change
};

/// Records write requests. Implementations must be thread-safe.
class AuditTrail {
 public:
  virtual ~AuditTrail() = default;
  /// Stores a note without blocking. Calls `then`, which may be empty, once the note is stored or cannot be stored.
  virtual void record(WriteNote note, std::function<void()> then) = 0;
};

}  // namespace babelring::http
