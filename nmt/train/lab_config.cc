#include "nmt/train/lab_config.h"

namespace babelring {

void LabConfig::bind(OptionBinder& b) {
  b.integer("keep", keep, 1, 100000, "max number of files of each kind that a rank keeps in the folder lab of the run");
}

}  // namespace babelring
