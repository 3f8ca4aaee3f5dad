#include <tandem/data/cifar10.h>
#include <tandem/data/cifar_pickle.h>

#include <cstring>
#include <fstream>
#include <optional>

namespace tandem::data {
namespace {

namespace fs = std::filesystem;

constexpr const char *kBinaryFolder = "cifar-10-batches-bin", *kPickleFolder = "cifar-10-batches-py";
constexpr int64_t kPixels = 3072, kRecord = kPixels + 1, kRecords = 10000;  // of a file
constexpr int64_t kMaxPickle = 40'000'000;                                  // theirs have 31 million bytes

std::vector<std::string> file_names(bool train, const char* ending) {
  std::vector<std::string> names;
  for (int i = 1; train && i <= 5; ++i) names.push_back(message("data_batch_", i, ending));
  if (!train) names.push_back(message("test_batch", ending));
  return names;
}

struct Found {
  fs::path folder;
  bool pickle = false;
};

bool has_all(const fs::path& folder, const std::vector<std::string>& names) {
  std::error_code ignored;
  for (auto& n : names)
    if (!fs::is_regular_file(folder / n, ignored)) return false;
  return true;
}

// Binary files of another size are worth fetching again.
bool is_whole(const Found& found, bool train) {
  std::error_code ignored;
  for (auto& n : file_names(train, ".bin"))
    if (!found.pickle && int64_t(fs::file_size(found.folder / n, ignored)) != kRecords * kRecord) return false;
  return true;
}

std::optional<Found> find(const fs::path& root, bool train) {
  for (bool pickle : {false, true})
    for (const fs::path& folder : {root, root / (pickle ? kPickleFolder : kBinaryFolder)})
      if (has_all(folder, file_names(train, pickle ? "" : ".bin"))) return Found{folder, pickle};
  return {};
}

std::ifstream open(const fs::path& file, int64_t& bytes) {
  std::ifstream in(file, std::ios::binary);
  std::error_code error;
  bytes = int64_t(fs::file_size(file, error));
  check<IoError>(in.is_open() && !error, "[CIFAR10] ", file.string(), " can't be read");
  return in;
}

// Where the images of one file go.
struct Part {
  uint8_t* images;  // [kRecords,3072]
  int64_t* labels;  // [kRecords]
};

void put_label(Part part, int64_t i, int64_t label, const fs::path& file) {
  check<IoError>(label >= 0 && label < 10, "[CIFAR10] ", file.string(), ": image ", i, " has label ", label,
                 ", they go from 0 to 9");
  part.labels[i] = label;
}

void check_binary_size(const fs::path& file) {
  int64_t bytes = 0;
  open(file, bytes);
  check<IoError>(bytes == kRecords * kRecord, "[CIFAR10] ", file.string(), " has ", bytes, " bytes, ",
                 kRecords * kRecord, " are wanted");
}

void read_binary(const fs::path& file, Part part) {
  constexpr int64_t kAtOnce = 500;
  int64_t bytes = 0;
  std::ifstream in = open(file, bytes);
  std::vector<char> buffer(size_t(kAtOnce * kRecord));
  for (int64_t i = 0; i < kRecords; ++i) {
    if (i % kAtOnce == 0)
      check<IoError>(bool(in.read(buffer.data(), kAtOnce * kRecord)), "[CIFAR10] ", file.string(), " ended early");
    const char* record = buffer.data() + i % kAtOnce * kRecord;
    put_label(part, i, uint8_t(record[0]), file);
    std::memcpy(part.images + i * kPixels, record + 1, kPixels);
  }
}

void read_pickle(const fs::path& file, Part part) {
  int64_t bytes = 0;
  std::ifstream in = open(file, bytes);
  check<IoError>(bytes <= kMaxPickle, "[CIFAR10] ", file.string(), " has ", bytes, " bytes, at most ", kMaxPickle,
                 " are expected");
  std::vector<uint8_t> all(static_cast<size_t>(bytes));
  check<IoError>(bool(in.read(reinterpret_cast<char*>(all.data()), bytes)), "[CIFAR10] ", file.string(),
                 " ended early");
  const CifarPickle p = read_cifar_pickle(all, file.string());
  check<IoError>(p.rows == kRecords, "[CIFAR10] ", file.string(), " has ", p.rows, " images, ", kRecords,
                 " are wanted");
  std::memcpy(part.images, p.pixels.data(), p.pixels.size());
  for (int64_t i = 0; i < kRecords; ++i) put_label(part, i, p.labels[size_t(i)], file);
}

const std::vector<ArchivedFile> kArchivedFiles{
    {"data_batch_1.bin", kRecords* kRecord, "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
    {"data_batch_2.bin", kRecords* kRecord, "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
    {"data_batch_3.bin", kRecords* kRecord, "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
    {"data_batch_4.bin", kRecords* kRecord, "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
    {"data_batch_5.bin", kRecords* kRecord, "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
    {"test_batch.bin", kRecords* kRecord, "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"}};

Found find_or_fetch(const fs::path& root, const CIFAR10::Options& o) {
  auto found = find(root, o.train);
  if (o.download && !(found && is_whole(*found, o.train))) {
    const fs::path plain = root.has_filename() ? root : root.parent_path();  // without a slash at its end
    const fs::path parent = plain.filename() == kBinaryFolder ? plain.parent_path() : root;
    download({o.url, kBinaryFolder, kArchivedFiles}, parent, {.progress = o.progress});
    found = find(parent, o.train);
  }
  auto first = [&](const char* ending) { return file_names(o.train, ending).front(); };
  check<IoError>(found.has_value(), "[CIFAR10] no ", o.train ? "training" : "test", " images: looked for ",
                 first(".bin"), o.train ? " to data_batch_5.bin" : "", " in ", root.string(), " and ",
                 (root / kBinaryFolder).string(), ", and for ", first(""), o.train ? " to data_batch_5" : "", " in ",
                 root.string(), " and ", (root / kPickleFolder).string(), "; download = true fetches them");
  return *found;
}

ByteImages read(const fs::path& root, const CIFAR10::Options& o) {
  const Found found = find_or_fetch(root, o);
  const auto names = file_names(o.train, found.pickle ? "" : ".bin");
  if (!found.pickle)
    for (auto& name : names) check_binary_size(found.folder / name);
  const int64_t n = int64_t(names.size()) * kRecords;
  ByteImages data{empty({n, 3, 32, 32}, {.dtype = Dtype::u8, .device = cpu()}),
                  empty({n}, {.dtype = Dtype::i64, .device = cpu()})};
  for (size_t i = 0; i < names.size(); ++i) {
    const Part part{data.images.data<uint8_t>() + int64_t(i) * kRecords * kPixels,
                    data.labels.data<int64_t>() + int64_t(i) * kRecords};
    (found.pickle ? read_pickle : read_binary)(found.folder / names[i], part);
  }
  return data;
}

}  // namespace

bool has_cifar10(const fs::path& root, bool train) { return find(root, train).has_value(); }

CIFAR10::CIFAR10(const fs::path& root, Options o) : ImageDataset(read(root, o)) {}

}  // namespace tandem::data
