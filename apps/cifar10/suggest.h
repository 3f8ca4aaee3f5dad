/// What a misspelt word was probably meant to be.
#pragma once
#include <string>
#include <vector>

namespace tandem::cifar10 {

/// "--bach-size" -> "--batch-size"; empty where none of the candidates is near.
std::string nearest(const std::string& wrong, const std::vector<std::string>& candidates);

}  // namespace tandem::cifar10
