#include "server/access/token_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/digest.h"
#include "base/names.h"
#include "base/records/records.h"
#include "base/secret.h"
#include "server/access/audited.h"
#include "server/http/reply.h"

namespace babelring::access {
namespace {

constexpr std::size_t key_digits = 16;

bool expired(const store::TokenRow& row, std::int64_t now_ms) {
  return row.expires_ms && *row.expires_ms <= now_ms;
}

std::shared_ptr<const http::Caller> caller_of(const store::TokenRow& row) {
  const auto scope = http::scope_named(row.scope).value_or(http::Scope::none);
  return std::make_shared<http::Caller>(http::Caller{row.id, row.name, scope, row.run, row.run_prefix});
}

}  // namespace

TokenService::TokenService(store::Store& store) : store_(store) {
  auto reader = store_.reader();
  for (const store::TokenRow& row : store::list_tokens(*reader)) hold(row);
}

TokenService::~TokenService() {
  try {
    save_uses();
  } catch (const std::exception& failure) {
    spdlog::warn("tokens: {}", failure.what());
  }
}

void TokenService::hold(const store::TokenRow& row) {
  auto entry = std::make_unique<Entry>();
  entry->row = row;
  entry->caller = caller_of(row);
  entry->used_ms = entry->saved_ms = row.used_ms.value_or(0);
  const std::unique_lock lock(mutex_);
  by_id_[row.id] = entry.get();
  by_hash_[row.hash.substr(0, key_digits)] = std::move(entry);
}

std::shared_ptr<const http::Caller> TokenService::identify(std::string_view secret) {
  const std::string hash = sha256_hex(secret);
  const std::shared_lock lock(mutex_);
  const auto found = by_hash_.find(hash.substr(0, key_digits));
  if (found == by_hash_.end() || !equal_constant_time(found->second->row.hash, hash)) return nullptr;
  Entry& entry = *found->second;
  const std::int64_t now_ms = wall_time_ms();
  if (expired(entry.row, now_ms)) return nullptr;
  entry.used_ms.store(now_ms, std::memory_order_relaxed);
  return entry.caller;
}

bool TokenService::holds(const http::Caller& caller) {
  const std::shared_lock lock(mutex_);
  const auto found = by_id_.find(caller.token);
  return found != by_id_.end() && !expired(found->second->row, wall_time_ms());
}

TokenService::CreatedToken TokenService::create(const NewToken& token, std::string secret,
                                                const InTransaction& in_transaction) {
  {
    const std::shared_lock lock(mutex_);
    if (by_id_.size() >= max_tokens) {
      throw http::Problem(409, "too_many_tokens",
                          fmt::format("found {} tokens, the max: revoke some first", max_tokens));
    }
  }
  if (secret.empty()) secret = std::string(token_prefix) + make_secret();
  CreatedToken created{{}, std::move(secret)};
  created.row.id = make_id('t');
  created.row.name = token.name;
  created.row.hash = sha256_hex(created.secret);
  created.row.scope = http::name_of(token.scope);
  created.row.run = token.run;
  created.row.run_prefix = token.run_prefix;
  created.row.created_by = token.created_by;
  created.row.created_ms = wall_time_ms();
  created.row.expires_ms = token.expires_ms;
  created.row.number = write(store_, [&](store::Database& database) {
    const std::int64_t number = store::add_token(database, created.row);
    if (in_transaction) in_transaction(database, created.row);
    return number;
  });
  hold(created.row);
  return created;
}

std::size_t TokenService::usable_admins(const std::string& but) const {
  const std::int64_t now_ms = wall_time_ms();
  return static_cast<std::size_t>(std::count_if(by_id_.begin(), by_id_.end(), [&](const auto& entry) {
    const store::TokenRow& row = entry.second->row;
    return row.scope == "admin" && row.id != but && !expired(row, now_ms);
  }));
}

bool TokenService::remove(const std::string& id, const InTransaction& in_transaction) {
  const std::lock_guard one_at_a_time(removing_);
  store::TokenRow row;
  {
    const std::shared_lock lock(mutex_);
    const auto found = by_id_.find(id);
    if (found == by_id_.end()) return false;
    if (found->second->row.scope == "admin" && usable_admins(id) == 0) {
      throw http::Problem(409, "last_admin", "this is the last administrator's token: create another one first");
    }
    row = found->second->row;
  }
  write(store_, [&](store::Database& database) {
    if (store::remove_token(database, id) && in_transaction) in_transaction(database, row);
  });
  const std::unique_lock lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return false;
  const Key key = found->second->row.hash.substr(0, key_digits);
  by_id_.erase(found);
  by_hash_.erase(key);
  return true;
}

std::vector<store::TokenRow> TokenService::list() const {
  std::vector<store::TokenRow> rows;
  {
    const std::shared_lock lock(mutex_);
    for (const auto& [id, entry] : by_id_) {
      rows.push_back(entry->row);
      const std::int64_t used_ms = entry->used_ms.load(std::memory_order_relaxed);
      if (used_ms > 0) rows.back().used_ms = used_ms;
    }
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
  return rows;
}

std::string TokenService::create_run_token(const std::string& run) {
  return create({"ranks of " + run, http::Scope::ingest, run, std::nullopt, "server"}).secret;
}

void TokenService::remove_run_tokens(const std::string& run) {
  if (run.empty()) return;
  write(store_, [&](store::Database& database) { store::remove_run_tokens(database, run); });
  const std::unique_lock lock(mutex_);
  const auto reports = [&](const store::TokenRow& row) { return row.run == run && row.scope == "ingest"; };
  std::erase_if(by_id_, [&](const auto& entry) { return reports(entry.second->row); });
  std::erase_if(by_hash_, [&](const auto& entry) { return reports(entry.second->row); });
}

std::optional<std::string> TokenService::first_admin() {
  {
    const std::shared_lock lock(mutex_);
    if (usable_admins("") > 0) return std::nullopt;
  }
  return new_admin();
}

std::string TokenService::new_admin() {
  return create({"admin.token", http::Scope::admin, "", std::nullopt, "server"}).secret;
}

void TokenService::save_uses() {
  std::vector<std::pair<std::string, std::int64_t>> uses;
  {
    const std::shared_lock lock(mutex_);
    for (const auto& [id, entry] : by_id_) {
      const std::int64_t used_ms = entry->used_ms.load(std::memory_order_relaxed);
      if (entry->saved_ms.exchange(used_ms) != used_ms) uses.emplace_back(id, used_ms);
    }
  }
  if (uses.empty()) return;
  store_.write([&](store::Database& database) { store::mark_tokens_used(database, uses); });
}

}  // namespace babelring::access
