#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace babelring::http {

/// What a caller must be allowed for a route; also documented with it. `admin` covers all others, `operate` covers
/// `read`, and `ingest` stands by itself.
enum class Scope { none, read, ingest, operate, admin };

std::string_view name_of(Scope scope);
/// Of read, ingest, operate and admin.
std::optional<Scope> scope_named(std::string_view name);
/// May one who holds `held` do what needs `needed`?
bool covers(Scope held, Scope needed);

/// Who asks: what a token's secret stands for.
struct Caller {
  std::string token;  // its id, t_…
  std::string name;
  Scope scope = Scope::none;
  std::string run;  // the one run it may write to; empty: any
};

/// Knows the tokens. Called on the connections' threads: must not wait. Thread-safe.
class Authenticator {
 public:
  virtual ~Authenticator() = default;
  /// Whom the secret stands for; null for one that is unknown, expired or revoked.
  virtual std::shared_ptr<const Caller> identify(std::string_view secret) = 0;
  /// Does the token of this id still hold? For answers that go on for long.
  virtual bool holds(const Caller& caller) = 0;
};

/// A write that was asked for, and what became of it.
struct WriteNote {
  std::int64_t time_ms = 0;
  std::string actor, token;           // name and id; "anonymous" and empty without one
  std::string method, route, object;  // the route's template; the path that was asked for or made
  int status = 0;
  std::string request, address;
  bool ingest = false;  // of a route that takes records, several times a second
  bool kept = false;    // it stands in the trail already, written together with what it tells of
};

/// Remembers who wrote what. Thread-safe.
class AuditTrail {
 public:
  virtual ~AuditTrail() = default;
  /// Returns at once; calls `then`, unless empty, when the note is kept (or could not be).
  virtual void note(WriteNote note, std::function<void()> then) = 0;
};

}  // namespace babelring::http
