#include "tests/support/op_case.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_device.h"

#include <tandem/core/copy.h>
#include <tandem/nn/safetensors.h>

#include <doctest/doctest.h>

#include <cstring>

using namespace tandem;
using namespace tandem::test;

namespace {

// A file with this header and so many bytes of data (1, 0, 1, 0, ...).
std::string file_of(const std::string& header, size_t data_bytes) {
  uint64_t length = header.size();
  std::string s(8, '\0');
  std::memcpy(s.data(), &length, 8);
  s += header;
  for (size_t i = 0; i < data_bytes; ++i) s += char(i % 2 == 0);
  return s;
}

SafetensorsFile load_text(const std::string& s) { return load(std::as_bytes(std::span(s.data(), s.size())), "it"); }

std::string error_of(const std::string& bytes) {
  try {
    load_text(bytes);
  } catch (const IoError& e) {
    return e.what();
  }
  return "no error";
}

// One tensor of four floats, with a part replaced.
std::string header_with(std::string from = "", const std::string& to = "") {
  std::string h = R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";
  if (!from.empty()) h.replace(h.find(from), from.size(), to);
  return h;
}

}  // namespace

TEST_CASE("safetensors: every dtype, shape and layout comes back as it was") {
  TemporaryFolder folder;
  NamedTensors in;
  for (Dtype t : {Dtype::u8, Dtype::f32, Dtype::boolean, Dtype::f64, Dtype::f16, Dtype::i64, Dtype::bf16, Dtype::i32})
    for (const Dims& shape :
         {Dims{}, Dims{0}, Dims{3}, Dims{2, 0, 3}, Dims{2, 3, 2, 5}, Dims{1, 1, 1, 1, 1, 1, 1, 2}}) {
      bool yes_no = t == Dtype::boolean;
      Tensor x = random_tensor(shape, {.dtype = Dtype::f64}, yes_no ? -1 : 0, yes_no ? 1 : 100);
      in.emplace_back(to_string(t) + to_string(shape), copy_of(x, {.dtype = t}));
    }
  Tensor image = random_tensor({2, 3, 4, 5}, {.dtype = Dtype::f32});
  in.emplace_back("channels-last", copy_of(image, {.layout = Layout::channels_last}));
  in.emplace_back("strided", image.alias({3, 5}, {20, 1}, 10));
  in.emplace_back("expanded", image.alias({4, 5}, {0, 1}, 3));
  in.emplace_back("\xc3\xa9 \"\\\n", image);  // a name is any UTF-8
  Metadata metadata{{"format", "pt"}, {"quoted", "{\"a\": [1, 2]}\n"}};

  std::string path = folder / "all.safetensors";
  save(path, in, metadata);
  CHECK(folder.entries() == 1);
  std::string bytes = read_text(path);
  for (const SafetensorsFile& out : {load(path), load_text(bytes)}) {
    CHECK(out.metadata == metadata);
    REQUIRE(out.tensors.size() == in.size());
    for (size_t i = 0; i < in.size(); ++i) {
      INFO(in[i].first);
      CHECK(out.tensors[i].first == in[i].first);
      CHECK(same_bits(out.tensors[i].second, in[i].second));
      CHECK(out.tensors[i].second.is_contiguous());
    }
    CHECK(same_bits(out.find("strided"), in[in.size() - 3].second));
    CHECK_FALSE(out.find("nobody").defined());
  }

  SafetensorsHeader header = load_header(path);
  REQUIRE(header.tensors.size() == in.size());
  CHECK(header.metadata == metadata);
  CHECK(header.data_begin % 8 == 0);
  for (auto& e : header.tensors) {
    INFO(e.name);
    CHECK(e.begin % size_of(e.dtype) == 0);
  }
}

TEST_CASE("safetensors: nothing at all is a file too") {
  TemporaryFolder folder;
  save(folder / "empty", {});
  CHECK(load(folder / "empty").tensors.empty());
  CHECK(load(folder / "empty").metadata.empty());
}

TEST_CASE("safetensors: a file of the reference implementation") {
  // As safetensors 0.8.0 for Python wrote it.
  std::string header =
      R"({"__metadata__":{"z":"ü","format":"pt"},"i":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("e":{"dtype":"F64","shape":[0,3],"data_offsets":[8,8]},"w":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},)"
      R"("h":{"dtype":"F16","shape":[2,1],"data_offsets":[16,20]},"b":{"dtype":"BOOL","shape":[2],"data_offsets":[20,22]}})"
      "    ";
  std::string data("\x05\0\0\0\0\0\0\0\0\0\x80\x3f\0\0\0\xc0\0\x3c\0\x38\x01\0", 22);
  SafetensorsFile f = load_text(file_of(header, 0) + data);
  CHECK(f.metadata == Metadata{{"format", "pt"}, {"z", "ü"}});
  REQUIRE(f.tensors.size() == 5);
  CHECK(f.tensors[1].first == "e");
  CHECK(f.find("i").item<int64_t>() == 5);
  CHECK(f.find("i").shape() == Dims{});
  CHECK(f.find("e").shape() == Dims{0, 3});
  CHECK(f.find("w").to_vector() == std::vector<float>{1, -2});
  CHECK(f.find("h").dtype() == Dtype::f16);
  CHECK(f.find("h").to_vector() == std::vector<float>{1, 0.5f});
  CHECK(f.find("b").to_vector<bool>() == std::vector<bool>{true, false});
}

TEST_CASE("safetensors: tensors go to the device asked for" * cpu_only()) {
  set_cpu_devices(2);
  TemporaryFolder folder;
  save(folder / "f", {{"a", ones({3}, {.device = cpu(1)})}});
  CHECK(load(folder / "f").find("a").device() == cpu(0));
  Tensor there = load(folder / "f", cpu(1)).find("a");
  CHECK(there.device() == cpu(1));
  CHECK(there.to_vector() == std::vector<float>{1, 1, 1});
  CHECK_THROWS_AS(load(folder / "f", cpu(63)), DeviceError);
}

TEST_CASE("safetensors: a hostile file is refused by name, before anything is allocated") {
  REQUIRE(load_text(file_of(header_with(), 16)).tensors.size() == 1);
  const std::string a = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  auto b = [](const std::string& offsets, int n) {
    return R"(,"b":{"dtype":"U8","shape":[)" + std::to_string(n) + R"(],"data_offsets":[)" + offsets + "]}}";
  };
  std::string huge(8, '\xff'), long_header(8, '\0'), deep(100000, '[');
  const uint64_t just_over = 100'000'001;
  std::memcpy(long_header.data(), &just_over, 8);
  struct Case {
    std::string bytes, says;
  };
  const Case cases[] = {
      {"", "0 bytes are too few"},
      {"1234567", "7 bytes are too few"},
      {std::string(8, '\0'), "does not begin with {"},
      {"PK\x03\x04 archive/data.pkl", "it is a zip archive"},
      {huge + "{}", "18446744073709551615 bytes, the file has 2 after"},
      {long_header + "{}", "100000001 bytes, the file has 2 after"},
      {long_header + std::string(just_over, ' '), "the format allows 100000000"},
      {file_of("{}", 1), "bytes 0 to 1 belong to no tensor"},
      {file_of(" {}", 0), "does not begin with {"},
      {file_of("[]", 0), "does not begin with {"},
      {file_of("{", 0), "not valid JSON, at byte"},
      {file_of("{}}", 0), "not valid JSON, at byte"},
      {file_of("{} x", 0), "not valid JSON, at byte"},
      {file_of(std::string("{}\0{}", 5), 0), "zero byte"},
      {file_of("{\"\xff\":1}", 0), "not valid JSON"},
      {file_of("{\"\\ud800\":1}", 0), "not valid JSON"},
      {file_of("{\"a\":" + deep, 0), "\"a\" is or has a list"},
      {file_of("{\"a\":{\"shape\":" + deep, 0), "shape of tensor \"a\" is or has a list"},
      {file_of(R"({"a":{"a":{"a":{)", 0), "unknown field \"a\""},
      {file_of(R"({"a":1})", 0), "\"a\" is or has a number"},
      {file_of(R"({"a":null})", 0), "\"a\" is or has null"},
      {file_of(R"({"a":{}})", 0), "lacks dtype"},
      {file_of(header_with(R"("shape":[2,2],)", ""), 16), "lacks shape"},
      {file_of(header_with(R"(,"data_offsets":[0,16])", ""), 16), "lacks data_offsets"},
      {file_of(header_with("F32", "I16"), 16), "dtype \"I16\", which is not supported"},
      {file_of(header_with("F32", "f32"), 16), "dtype \"f32\", which is not supported"},
      {file_of(header_with("\"F32\"", "7"), 16), "dtype of tensor \"a\" is or has a number"},
      {file_of(header_with("\"F32\"", "{}"), 16), "dtype of tensor \"a\" is or has an object"},
      {file_of(header_with("\"F32\"", "[4]"), 16), "dtype of tensor \"a\" is or has a list"},
      {file_of(header_with("[2,2]", "4"), 16), "shape of tensor \"a\" is or has a number"},
      {file_of(header_with("[2,2]", "[2,-2]"), 16), "shape of tensor \"a\" is or has a negative number"},
      {file_of(header_with("[2,2]", "[2,2.0]"), 16), "a number that is no 64-bit integer"},
      {file_of(header_with("[2,2]", "[2,\"2\"]"), 16), "shape of tensor \"a\" is or has a string"},
      {file_of(header_with("[2,2]", "[2,true]"), 16), "shape of tensor \"a\" is or has true or false"},
      {file_of(header_with("[2,2]", "[18446744073709551616]"), 16), "a number that is no 64-bit integer"},
      {file_of(header_with("[2,2]", "[9223372036854775808]"), 16), "has a size of 9223372036854775808"},
      {file_of(header_with("[2,2]", "[1,1,1,1,1,1,1,2,2]"), 16), "more than 8 dimensions"},
      {file_of(header_with("[2,2]", "[4611686018427387904,4]"), 16), "larger than any file"},
      {file_of(header_with("[2,2]", "[4294967296,4294967296,0]"), 16), "larger than any file"},
      {file_of(header_with("[2,2]", "[2,3]"), 16), "takes 24 bytes, its data_offsets give 16"},
      {file_of(header_with("[2,2]", "[0]"), 16), "takes 0 bytes, its data_offsets give 16"},
      {file_of(header_with("[0,16]", "16"), 16), "data_offsets of tensor \"a\" is or has a number"},
      {file_of(header_with("[0,16]", "[16]"), 16), "1 data_offsets, not 2"},
      {file_of(header_with("[0,16]", "[]"), 16), "0 data_offsets, not 2"},
      {file_of(header_with("[0,16]", "[0,16,16]"), 16), "more than two data_offsets"},
      {file_of(header_with("[0,16]", "[16,0]"), 16), "lies at bytes 16 to 0"},
      {file_of(header_with("[0,16]", "[0,1600]"), 16), "lies at bytes 0 to 1600, the file has 16"},
      {file_of(header_with("[0,16]", "[18446744073709551600,18446744073709551615]"), 16),
       "the file has 16 bytes of data"},
      {file_of(header_with("[0,16]", "[-16,0]"), 16), "a negative number"},
      {file_of(header_with(), 15), "the file has 15 bytes of data"},
      {file_of(header_with(), 17), "bytes 16 to 17 belong to no tensor"},
      {file_of(header_with("[0,16]", "[4,20]"), 20), "bytes 0 to 4 belong to no tensor"},
      {file_of(header_with("\"shape\"", "\"dtype\""), 16), "has dtype twice"},
      {file_of(header_with("\"shape\"", "\"extra\""), 16), "unknown field \"extra\""},
      {file_of("{" + a + "," + a + "}", 4), "\"a\" stands twice"},
      {file_of("{" + a + b("2,6", 4), 6), "\"b\" begins at byte 2, inside the tensor before it, which ends at 4"},
      {file_of("{" + a + b("0,4", 4), 4), "begins at byte 0, inside"},
      {file_of("{" + a + b("2,2", 0), 4), "begins at byte 2, inside"},
      {file_of("{" + a + b("5,9", 4), 9), "bytes 4 to 5 belong to no tensor"},
      {file_of(R"({"__metadata__":{"a":1}})", 0), "metadata \"a\" is or has a number"},
      {file_of(R"({"__metadata__":{"a":{}}})", 0), "metadata \"a\" is or has an object"},
      {file_of(R"({"__metadata__":[]})", 0), "\"__metadata__\" is or has a list"},
      {file_of(R"({"__metadata__":{"a":"1","a":"2"}})", 0), "the metadata has \"a\" twice"},
      {file_of(R"({"__metadata__":{},"__metadata__":{}})", 0), "\"__metadata__\" stands twice"},
      {file_of(header_with("F32\",\"shape\":[2,2]", "BOOL\",\"shape\":[16]"), 15) + "\x02",
       "a byte other than 0 and 1"},
      {file_of("{\"" + std::string(1000, 'x') + "\\u001b[2J\":1}", 0), "\"xxx"},
  };
  for (auto& c : cases) {
    std::string error = error_of(c.bytes);
    CAPTURE(c.says);
    CAPTURE(error);
    CHECK(error.find(c.says) != error.npos);
    CHECK(error.starts_with("[load] it"));
    CHECK(error.size() < 400);
    CHECK(error.find('\x1b') == error.npos);
  }
}

TEST_CASE("safetensors: cut anywhere or with any byte changed, a file is refused or read, never worse") {
  std::string good = file_of(R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"BOOL","shape":[1,2],"data_offsets":[8,10]}})",
                             10);
  REQUIRE(load_text(good).tensors.size() == 2);
  for (size_t n = 0; n < good.size(); ++n) CHECK(error_of(good.substr(0, n)) != "no error");
  int refused = 0;
  for (size_t i = 0; i < good.size(); ++i)
    for (char c : {'\0', '"', '{', '}', '[', ']', ',', ':', '0', '9', '-', 'e', '\\', '\x7f', '\xff', ' '}) {
      std::string bad = good;
      bad[i] = c;
      refused += error_of(bad) != "no error";
    }
  CHECK(refused > 1000);
}

TEST_CASE("safetensors: no bit of a saved file changes unnoticed") {
  TemporaryFolder folder;
  const NamedTensors in{{"a", from_vector<float>({1, -2, 0.5f}, {3})}, {"b", from_vector<uint8_t>({7, 0}, {1, 2})}};
  const Metadata metadata{{"epoch", "12"}};
  save(folder / "f", in, metadata);
  const std::string good = read_text(folder / "f");
  const size_t key = good.find("tandem.checksum"), key_end = key + std::strlen("tandem.checksum");
  REQUIRE(key != good.npos);
  for (size_t i = 0; i < good.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = char(uint8_t(bad[i]) ^ (1u << bit));
      CAPTURE(i);
      CAPTURE(bit);
      if (i < key || i >= key_end)
        CHECK(error_of(bad) != "no error");
      else if (error_of(bad) == "no error")  // under another key it is a text like any other
        CHECK(load_text(bad).metadata.size() == 2);
    }
  std::string bad = good;
  bad.back() ^= 1;
  write_text(folder / "bad", bad);
  CHECK_THROWS_WITH_AS(load(folder / "bad"),
                       ("[load] " + (folder / "bad") +
                        " does not have the checksum that its tandem.checksum says: it is damaged, or was changed by a "
                        "program that kept this text")
                           .c_str(),
                       IoError);
}

TEST_CASE("safetensors: errors name the file") {
  TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(load(folder / "none"),
                       ("[load] can't open " + (folder / "none") + ": No such file or directory").c_str(), IoError);
  CHECK_THROWS_AS(load(folder.path()), IoError);
  CHECK_THROWS_WITH_AS(load("/dev/zero"), "[load] /dev/zero is not a regular file", IoError);
  write_text(folder / "bad", "junk");
  CHECK_THROWS_WITH_AS(load_header(folder / "bad"),
                       ("[load] " + (folder / "bad") + ": 4 bytes are too few for a safetensors file").c_str(),
                       IoError);
}

TEST_CASE("safetensors: what can't be saved") {
  TemporaryFolder folder;
  std::string path = folder / "f";
  Tensor x = ones({2});
  CHECK_THROWS_WITH_AS(save(path, {{"x", Tensor()}}), "[save] tensor \"x\" is undefined", Error);
  CHECK_THROWS_WITH_AS(save(path, {{"x", x}, {"x", x}}), "[save] two tensors are called \"x\"", Error);
  CHECK_THROWS_AS(save(path, {{"__metadata__", x}}), Error);
  CHECK_THROWS_AS(save(path, {{"\xff", x}}), Error);
  CHECK_THROWS_AS(save(path, {{"x", x}}, {{"k", "\xc3"}}), Error);
  CHECK_THROWS_AS(save(path, {{"x", x}}, {{"tandem.checksum", ""}}), Error);
  CHECK(folder.entries() == 0);
}
