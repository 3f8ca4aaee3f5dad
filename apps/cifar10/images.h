/// Pictures from files, as the networks take them.
#pragma once
#include <tandem/core/tensor.h>

#include <string>
#include <vector>

namespace tandem::cifar10 {

/// The PNG, JPEG, PPM or BMP as bytes [3,32,32]: cut to its middle square and scaled. Throws IoError naming the file.
Tensor load_image(const std::string& path);

/// Each file as it is, each folder as the pictures in it, sorted. Throws IoError where there is none.
std::vector<std::string> find_images(const std::vector<std::string>& files_or_folders);

}  // namespace tandem::cifar10
