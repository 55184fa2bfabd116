#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <utility>

namespace babelring::store {

/// A queue that serves several owners in turn: pop() takes the oldest item of the next owner. Not thread-safe.
template <class Item>
class Turns {
 public:
  void push(const std::string& owner, Item item) {
    std::deque<Item>& items = items_[owner];
    if (items.empty()) owners_.push_back(owner);
    items.push_back(std::move(item));
    ++size_;
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  std::size_t size_of(const std::string& owner) const {
    const auto found = items_.find(owner);
    return found == items_.end() ? 0 : found->second.size();
  }

  /// The queue must not be empty.
  Item pop() {
    const auto found = items_.find(owners_.front());
    Item item = std::move(found->second.front());
    found->second.pop_front();
    --size_;
    if (found->second.empty()) {
      items_.erase(found);
    } else {
      owners_.push_back(std::move(owners_.front()));
    }
    owners_.pop_front();
    return item;
  }

 private:
  std::map<std::string, std::deque<Item>> items_;  // no empty queues
  std::deque<std::string> owners_;                 // owners with items, in the order of their turns
  std::size_t size_ = 0;
};

}  // namespace babelring::store
