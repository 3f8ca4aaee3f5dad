/// Tar archives and gzip files made by hand, proper ones and hostile ones.
#pragma once
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace tandem::test {

/// One entry of a tar archive; `type` 0 is a file, 1 a hard link, 2 a symbolic link, 5 a folder.
inline std::string tar_entry(const std::string& name, const std::string& contents, char type = '0',
                             const std::string& link = "") {
  std::array<char, 512> h{};
  std::memcpy(h.data(), name.data(), name.size());
  std::snprintf(&h[100], 8, "%07o", 0644);
  std::snprintf(&h[108], 8, "%07o", 0);
  std::snprintf(&h[116], 8, "%07o", 0);
  std::snprintf(&h[124], 12, "%011o", unsigned(contents.size()));
  std::snprintf(&h[136], 12, "%011o", 0);
  std::memset(&h[148], ' ', 8);
  h[156] = type;
  std::memcpy(&h[157], link.data(), link.size());
  std::memcpy(&h[257], "ustar\00000", 8);
  unsigned sum = 0;
  for (char c : h) sum += uint8_t(c);
  std::snprintf(&h[148], 8, "%06o", sum);
  return std::string(h.data(), h.size()) + contents + std::string((512 - contents.size() % 512) % 512, '\0');
}

inline std::string tar_end() { return std::string(1024, '\0'); }

/// A gzip file whose contents are stored as they are.
inline std::string gzip(const std::string& contents) {
  auto little = [](uint32_t v, int bytes) {
    std::string s;
    for (int i = 0; i < bytes; ++i) s += char(v >> 8 * i);
    return s;
  };
  std::string s("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
  for (size_t at = 0; at == 0 || at < contents.size(); at += 65535) {
    const std::string block = contents.substr(at, 65535);
    s += char(at + 65535 >= contents.size());
    s += little(uint32_t(block.size()), 2) + little(~uint32_t(block.size()), 2) + block;
  }
  uint32_t crc = ~0u;
  for (char c : contents) {
    crc ^= uint8_t(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return s + little(~crc, 4) + little(uint32_t(contents.size()), 4);
}

}  // namespace tandem::test
