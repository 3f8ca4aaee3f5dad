/// Not installed: the name of a class, for messages and summaries.
#pragma once
#include <string>
#include <typeinfo>

namespace tandem::nn::detail {

/// Without the namespaces: "StepLR".
std::string type_name(const std::type_info& type);

}  // namespace tandem::nn::detail
