#include "apps/cifar10/images.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_RESIZE_IMPLEMENTATION
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#include <stb/stb_image.h>
#include <stb/stb_image_resize.h>
#pragma GCC diagnostic pop

namespace fs = std::filesystem;

namespace tandem::cifar10 {
namespace {
constexpr int kSide = 32;
}

Tensor load_image(const std::string& path) {
  int width = 0, height = 0, channels = 0;
  std::unique_ptr<stbi_uc, void (*)(void*)> pixels(stbi_load(path.c_str(), &width, &height, &channels, 3),
                                                   stbi_image_free);
  check<IoError>(pixels != nullptr, path, ": ", stbi_failure_reason());
  const int side = std::min(width, height);
  const stbi_uc* square = pixels.get() + 3 * (((height - side) / 2) * width + (width - side) / 2);
  std::vector<uint8_t> scaled(kSide * kSide * 3);  // [32,32,3]
  if (side == kSide) {
    for (int row = 0; row < kSide; ++row)
      std::copy_n(square + 3 * row * width, 3 * kSide, scaled.begin() + 3 * row * kSide);
  } else {
    check<IoError>(stbir_resize_uint8(square, side, side, 3 * width, scaled.data(), kSide, kSide, 0, 3) == 1, path,
                   ": can't be scaled from ", side, "x", side);
  }
  return from_vector(scaled, {kSide, kSide, 3}).permute({2, 0, 1}).contiguous();
}

std::vector<std::string> find_images(const std::vector<std::string>& arguments) {
  std::vector<std::string> found;
  for (auto& a : arguments) {
    if (!fs::is_directory(a)) {
      found.push_back(a);
      continue;
    }
    std::vector<std::string> inside;
    for (auto& entry : fs::directory_iterator(a)) {
      std::string extension = entry.path().extension().string();
      std::transform(extension.begin(), extension.end(), extension.begin(),
                     [](unsigned char c) { return std::tolower(c); });
      if (extension == ".png" || extension == ".jpg" || extension == ".jpeg" || extension == ".ppm" ||
          extension == ".bmp")
        inside.push_back(entry.path().string());
    }
    check<IoError>(!inside.empty(), a, ": no pictures (PNG, JPEG, PPM, BMP) in this folder");
    std::sort(inside.begin(), inside.end());
    found.insert(found.end(), inside.begin(), inside.end());
  }
  return found;
}

}  // namespace tandem::cifar10
