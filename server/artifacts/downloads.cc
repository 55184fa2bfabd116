#include "server/artifacts/downloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "server/http/reply.h"

namespace babelring::artifacts {
namespace {

constexpr std::size_t block_bytes = 512;
constexpr std::int64_t max_ustar_bytes = (std::int64_t{1} << 33) - 1;  // eleven octal digits
constexpr std::size_t max_ustar_name = 100;

void put(std::string& block, std::size_t at, std::string_view text) {
  block.replace(at, text.size(), text);
}

std::string ustar_block(std::string_view name, std::int64_t size, std::int64_t mtime_s, char type) {
  std::string block(block_bytes, '\0');
  put(block, 0, name.substr(0, max_ustar_name));
  put(block, 100, "0000644");
  put(block, 108, "0000000");
  put(block, 116, "0000000");
  put(block, 124, fmt::format("{:011o}", std::min(size, max_ustar_bytes)));
  put(block, 136, fmt::format("{:011o}", std::clamp<std::int64_t>(mtime_s, 0, max_ustar_bytes)));
  put(block, 148, "        ");  // the checksum treats its own field as spaces
  block[156] = type;
  put(block, 257, std::string_view("ustar\00000", 8));
  put(block, 265, "root");
  put(block, 297, "root");
  put(block, 329, "0000000");
  put(block, 337, "0000000");
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put(block, 148, fmt::format("{:06o}", sum));
  block[154] = '\0';
  return block;
}

/// A pax record, "LENGTH KEY=VALUE\n". LENGTH includes its own digits.
std::string pax_line(std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t length = rest + 1;
  while (fmt::formatted_size("{}", length) + rest != length) ++length;
  return fmt::format("{} {}={}\n", length, key, value);
}

bool fits_ustar(std::string_view name) {
  return name.size() <= max_ustar_name &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return c >= 0x20 && c < 0x7f; });
}

}  // namespace

std::string tar_header(const std::string& name, std::int64_t size, std::int64_t mtime_s) {
  std::string extended;
  if (!fits_ustar(name)) extended += pax_line("path", name);
  if (size > max_ustar_bytes) extended += pax_line("size", fmt::format("{}", size));
  std::string header;
  if (!extended.empty()) {
    const auto bytes = static_cast<std::int64_t>(extended.size());
    header = ustar_block("pax_header", bytes, mtime_s, 'x') + extended + tar_padding(bytes);
  }
  return header + ustar_block(fits_ustar(name) ? std::string_view(name) : "file", size, mtime_s, '0');
}

std::string tar_padding(std::int64_t size) {
  const auto rest = static_cast<std::size_t>(size) % block_bytes;
  return std::string(rest == 0 ? 0 : block_bytes - rest, '\0');
}

std::string tar_end() {
  return std::string(2 * block_bytes, '\0');
}

http::Response Downloads::count(const http::Request& request, const std::string& id, http::Response response) {
  if (request.method != "HEAD" && response.status < 300) response.held = begin(request, id);
  return response;
}

std::shared_ptr<const void> Downloads::begin(const http::Request& request, const std::string& id) {
  const std::string who = request.caller ? request.caller->token : request.address;
  const std::lock_guard lock(state_->mutex);
  int& active = state_->by_client[who];
  if (active >= max_per_client) {
    throw http::Problem(
        429, "too_many_downloads",
        fmt::format("this {} already has {} active downloads, the max", request.caller ? "token" : "address", active));
  }
  ++active;
  ++state_->by_id[id];
  const auto end = [state = state_, who, id](const void*) {
    const std::lock_guard ending(state->mutex);
    if (--state->by_client[who] == 0) state->by_client.erase(who);
    if (--state->by_id[id] == 0) state->by_id.erase(id);
  };
  return {state_.get(), end};
}

std::shared_ptr<const void> Downloads::hold(const std::string& id) {
  const std::lock_guard lock(state_->mutex);
  ++state_->by_id[id];
  const auto end = [state = state_, id](const void*) {
    const std::lock_guard ending(state->mutex);
    if (--state->by_id[id] == 0) state->by_id.erase(id);
  };
  return {state_.get(), end};
}

bool Downloads::in_use(const std::string& id) const {
  const std::lock_guard lock(state_->mutex);
  return state_->by_id.contains(id);
}

}  // namespace babelring::artifacts
