#include "worker/run_folder.h"

#include "nmt/base/atomic_file.h"
#include "nmt/base/failure.h"
#include "nmt/base/json.h"
#include "nmt/base/records.h"

namespace babelring {

RunFolder::RunFolder(std::filesystem::path path) : path_(std::move(path)) {
  std::filesystem::create_directories(path_);
  const std::filesystem::path file = path_ / "run.json";
  if (std::filesystem::exists(file)) {
    const Result<json::value> stored = parse_json(read_file(file));
    const json::object* object = stored.ok() ? stored->if_object() : nullptr;
    const json::value* run = object != nullptr ? object->if_contains("run") : nullptr;
    const json::value* attempt = object != nullptr ? object->if_contains("attempt") : nullptr;
    if (run == nullptr || attempt == nullptr || !run->is_string() || !attempt->is_int64() ||
        !valid_id(run->get_string(), 'r')) {
      fail("{}: expected {{\"run\": id, \"attempt\": number}}; remove the file to start a new run there",
           file.string());
    }
    run_ = std::string(run->get_string());
    attempt_ = attempt->get_int64() + 1;
  } else {
    run_ = make_id('r');
  }
  json::object object;
  object["run"] = run_;
  object["attempt"] = attempt_;
  write_file_atomically(file, to_text(object) + "\n");
}

}  // namespace babelring
