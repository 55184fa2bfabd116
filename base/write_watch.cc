#include "base/write_watch.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace babelring {
namespace {

thread_local WriteWatch* watch_of_this_thread = nullptr;

SteadyClock::rep now() {
  return SteadyClock::now().time_since_epoch().count();
}

double seconds_since(SteadyClock::rep begin) {
  return std::chrono::duration<double>(SteadyClock::duration(now() - begin)).count();
}

}  // namespace

WriteWatch::WriteWatch(std::string name, std::chrono::milliseconds late_after)
    : name_(std::move(name)), patience_(late_after) {
  looker_.emplace("watch of writes", late_after / 40, [this] { look(); });
}

WriteWatch::~WriteWatch() {
  looker_.reset();
  look();  // the end of a call that was logged
}

bool WriteWatch::late() const {
  const SteadyClock::rep began = began_.load();
  return began != 0 && SteadyClock::duration(now() - began) >= patience_;
}

void WriteWatch::look() {
  const SteadyClock::rep began = began_.load();
  if (reported_ != 0 && began != reported_) {
    spdlog::info("{}: the write has returned after {:.0f} s", name_, seconds_since(reported_));
    reported_ = 0;
  }
  if (began == 0 || reported_ != 0 || SteadyClock::duration(now() - began) < patience_) return;
  reported_ = began;
  spdlog::warn("{}: a write has taken {:g} s: its file system may hang", name_,
               std::chrono::duration<double>(patience_).count());
}

WriteWatch::Scope::Scope(WriteWatch& watch) : before_(std::exchange(watch_of_this_thread, &watch)) {}

WriteWatch::Scope::~Scope() {
  watch_of_this_thread = before_;
}

WatchedCall::WatchedCall() : watch_(watch_of_this_thread) {
  if (watch_ != nullptr && watch_->began_ != 0) watch_ = nullptr;  // within another call
  if (watch_ != nullptr) watch_->began_ = now();
}

WatchedCall::~WatchedCall() {
  if (watch_ != nullptr) watch_->began_ = 0;
}

}  // namespace babelring
