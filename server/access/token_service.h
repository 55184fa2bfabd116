#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/http/access.h"
#include "server/store/access.h"
#include "server/store/store.h"

namespace babelring::access {

/// The access tokens. The store keeps their digests; a copy in memory authenticates requests without SQL. Thread-safe.
class TokenService : public http::Authenticator {
 public:
  /// Reads the store. Throws SqlFailure.
  explicit TokenService(store::Store& store);
  ~TokenService() override;
  TokenService(const TokenService&) = delete;
  TokenService& operator=(const TokenService&) = delete;

  std::shared_ptr<const http::Caller> identify(std::string_view secret) override;
  bool holds(const http::Caller& caller) override;

  struct NewToken {
    std::string name;
    http::Scope scope = http::Scope::read;
    std::string run;                         // the only run that it may write to, or read; empty: any
    std::optional<std::int64_t> expires_ms;  // absent: never
    std::string created_by;
    std::string run_prefix = {};  // name prefix of the runs that it may report for; empty: any
  };
  struct CreatedToken {
    store::TokenRow row;
    std::string secret;  // returned only here
  };
  /// Runs in the transaction that creates or removes a token.
  using InTransaction = std::function<void(store::Database&, const store::TokenRow&)>;
  /// Creates a token; waits for the commit. Generates the secret unless given. Throws Problem 409 too_many_tokens, and
  /// like access::write().
  CreatedToken create(const NewToken& token, std::string secret = {}, const InTransaction& in_transaction = {});
  /// Removes a token; false if there is none with this id. Throws Problem 409 last_admin for the last administrator.
  bool remove(const std::string& id, const InTransaction& in_transaction = {});
  /// All tokens, oldest first, with their times of last use.
  std::vector<store::TokenRow> list() const;

  /// Creates the token with which the ranks of a run started by the server report and poll for commands. Returns the
  /// secret. Valid until remove_run_tokens().
  std::string create_run_token(const std::string& run);
  /// Removes all tokens that report for this run alone.
  void remove_run_tokens(const std::string& run);

  /// Creates an administrator's token if there is no usable one, and returns its secret.
  std::optional<std::string> first_admin();
  /// Creates another administrator's token and returns its secret.
  std::string new_admin();

  /// Writes changed times of last use to the store.
  void save_uses();

  static constexpr std::size_t max_tokens = 10'000;

 private:
  struct Entry {
    store::TokenRow row;
    std::shared_ptr<const http::Caller> caller;
    std::atomic<std::int64_t> used_ms = 0, saved_ms = 0;
  };
  using Key = std::string;  // first digits of the digest; the rest is compared in constant time

  void hold(const store::TokenRow& row);
  std::size_t usable_admins(const std::string& but) const;

  store::Store& store_;
  std::mutex removing_;  // serializes removals, so that two requests cannot remove the last two administrators
  mutable std::shared_mutex mutex_;
  std::unordered_map<Key, std::unique_ptr<Entry>> by_hash_;
  std::unordered_map<std::string, Entry*> by_id_;
};

}  // namespace babelring::access
