#include "server/options_file.h"

#include <CLI/CLI.hpp>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/options/options.h"
#include "base/options/usage.h"

namespace babelring {
namespace {

/// One option as set in the file. Which member is used depends on the option's kind.
struct FileOption {
  std::string name, text;
  std::vector<std::string> list;
  bool flag = false;
};

class YamlOptions : public CLI::Config {
 public:
  explicit YamlOptions(const CLI::App& app) : app_(app) {}

  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return {}; }

  std::vector<CLI::ConfigItem> from_config(std::istream&) const override {
    const auto file = app_.get_config_ptr()->as<std::string>();
    std::list<FileOption> options;
    OptionBinder binder;
    for (const CLI::Option* option : app_.get_options()) {
      if (option->get_configurable() && !option->get_lnames().empty()) bind(binder, *option, options.emplace_back());
    }
    load_yaml(binder, read_file(file), file);
    std::vector<CLI::ConfigItem> found;
    for (const FileOption& option : options) {
      CLI::ConfigItem item;
      item.name = option.name;
      item.inputs = option.list;
      if (!option.text.empty()) item.inputs.push_back(option.text);
      if (option.flag) item.inputs.emplace_back("true");
      if (!item.inputs.empty()) found.push_back(std::move(item));
    }
    return found;
  }

 private:
  static void bind(OptionBinder& binder, const CLI::Option& option, FileOption& into) {
    into.name = option.get_lnames().front();
    if (option.get_expected_min() == 0) {
      binder.flag(into.name.c_str(), into.flag, "");
    } else if (option.get_expected_max() > 1) {
      binder.list(into.name.c_str(), into.list, "");
    } else {
      binder.text(into.name.c_str(), into.text, "");
    }
  }

  const CLI::App& app_;
};

}  // namespace

void add_options_file(CLI::App& app) {
  app.config_formatter(std::make_shared<YamlOptions>(app));
  app.set_config("--options", "", "YAML file with these options; reloaded on SIGHUP")
      ->check(existing_file)
      ->type_name("FILE");
}

}  // namespace babelring
