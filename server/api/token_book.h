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
#include "server/store/store.h"
#include "server/store/tokens.h"

namespace babelring::api {

/// The tokens: kept in the store as digests, and in memory so that a request costs no SQL. Thread-safe.
class TokenBook : public http::Authenticator {
 public:
  /// Reads the store. Throws SqlFailure.
  explicit TokenBook(store::Store& store);
  ~TokenBook() override;
  TokenBook(const TokenBook&) = delete;
  TokenBook& operator=(const TokenBook&) = delete;

  std::shared_ptr<const http::Caller> identify(std::string_view secret) override;
  bool holds(const http::Caller& caller) override;

  struct Wish {
    std::string name;
    http::Scope scope = http::Scope::read;
    std::string run;                         // the one run it may write to; empty: any
    std::optional<std::int64_t> expires_ms;  // absent: never
    std::string created_by;
    std::string run_prefix = {};  // what the names of the runs that it may report for begin with; empty: any
  };
  struct Made {
    store::TokenRow row;
    std::string secret;  // shown once
  };
  /// What is done in the transaction in which a token is made or removed.
  using Besides = std::function<void(store::Database&, const store::TokenRow&)>;
  /// Makes a token; waits for the commit. Throws Problem 409 too_many_tokens, and what api::write() throws. `secret` is
  /// made up unless given.
  Made make(const Wish& wish, std::string secret = {}, const Besides& besides = {});
  /// False if there is none of that id. Throws Problem 409 last_admin rather than leave nobody who may make tokens.
  bool remove(const std::string& id, const Besides& besides = {});
  /// Oldest first, with the times of last use.
  std::vector<store::TokenRow> list() const;

  /// A token by which the ranks of one run may report and ask for orders, for a run that the server starts. Returns the
  /// secret. Holds until remove_run_tokens().
  std::string make_run_token(const std::string& run);
  /// Ends every token that is bound to this run.
  void remove_run_tokens(const std::string& run);

  /// The secret of an administrator's token if there was no usable one before.
  std::optional<std::string> first_admin();
  std::string new_admin();

  /// Writes the times of last use that are new.
  void save_uses();

  static constexpr std::size_t most_tokens = 10'000;

 private:
  struct Entry {
    store::TokenRow row;
    std::shared_ptr<const http::Caller> caller;
    std::atomic<std::int64_t> used_ms = 0, saved_ms = 0;
  };
  using Key = std::string;  // the first digits of the digest; the rest is compared in constant time

  void hold(const store::TokenRow& row);
  std::size_t usable_admins(const std::string& but) const;

  store::Store& store_;
  std::mutex
      removing_;  // one at a time: two requests must not remove the last two administrators, each counting on the other
  mutable std::shared_mutex mutex_;
  std::unordered_map<Key, std::unique_ptr<Entry>> by_hash_;
  std::unordered_map<std::string, Entry*> by_id_;
};

}  // namespace babelring::api
