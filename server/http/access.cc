#include "server/http/access.h"

namespace babelring::http {

std::string_view name_of(Scope scope) {
  switch (scope) {
    case Scope::none:
      return "none";
    case Scope::read:
      return "read";
    case Scope::ingest:
      return "ingest";
    case Scope::operate:
      return "operate";
    case Scope::admin:
      return "admin";
  }
  return "";
}

std::optional<Scope> scope_named(std::string_view name) {
  for (const Scope scope : {Scope::read, Scope::ingest, Scope::operate, Scope::admin}) {
    if (name_of(scope) == name) return scope;
  }
  return std::nullopt;
}

bool covers(Scope held, Scope needed) {
  if (needed == Scope::none || held == needed || held == Scope::admin) return true;
  return held == Scope::operate && needed == Scope::read;
}

}  // namespace babelring::http
