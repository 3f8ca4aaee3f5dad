/// The programs' networks by name.
#pragma once
#include "apps/models/mlp.h"
#include "apps/models/net.h"
#include "apps/models/resnet18.h"
#include "apps/models/small.h"

#include <memory>
#include <string>

namespace tandem::models {

/// net, resnet18, mlp or small, for images [n,3,32,32] and 10 classes. Throws Error for another name.
inline std::unique_ptr<nn::Module> make(const std::string& name) {
  if (name == "net") return std::make_unique<Net>();
  if (name == "resnet18") return std::make_unique<ResNet18>();
  if (name == "mlp") return std::make_unique<Mlp>();
  if (name == "small") return std::make_unique<Small>();
  throw Error(message("there is no net \"", name, "\": net, resnet18, mlp or small"));
}

}  // namespace tandem::models
