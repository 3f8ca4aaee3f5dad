#include "tests/data/cifar_pickle_writer.h"
#include "tests/support/op_case.h"

#include <tandem/core/error.h>
#include <tandem/core/generator.h>
#include <tandem/data/cifar_pickle.h>

#include <doctest/doctest.h>

using namespace tandem;
using namespace tandem::data;
using namespace tandem::test;

namespace {

CifarPickle parse(const std::string& s) {
  return read_cifar_pickle({reinterpret_cast<const uint8_t*>(s.data()), s.size()}, "a file");
}

std::string pixels(size_t images) {
  std::string s(images * 3072, '\0');
  for (size_t i = 0; i < s.size(); ++i) s[i] = char(i * 7 % 251);
  return s;
}

}  // namespace

TEST_CASE("a pickled batch is read") {
  const std::string file = cifar_pickle({3, 0, 9}, pixels(3)), data = pixels(3);
  const CifarPickle p = parse(file);
  CHECK(p.rows == 3);
  CHECK(p.labels == std::vector<int64_t>{3, 0, 9});
  CHECK(std::string(p.pixels.begin(), p.pixels.end()) == data);
  CHECK(parse(cifar_pickle(std::vector<int>(300, 1), pixels(300))).rows ==
        300);  // more names than a short index counts
}

TEST_CASE("a pickle that asks for anything to be executed is refused") {
  CHECK_THROWS_WITH_AS(parse("\x80\x02"
                             "cos\nsystem\n(U\x04"
                             "truetR."),
                       "[CIFAR10] a file asks for os system, which is refused", IoError);
  CHECK_THROWS_AS(parse("\x80\x02"
                        "(U\x04"
                        "trueios\nsystem\n."),
                  IoError);  // the older way to say it
  CHECK_THROWS_AS(parse("\x80\x02"
                        "(cos\nsystem\nU\x04"
                        "trueo."),
                  IoError);  // and another
  CHECK_THROWS_AS(parse("\x80\x02"
                        "cnumpy\ndtype\nU\x02u1\x85R."),
                  IoError);  // wrong arguments
  CHECK_THROWS_AS(parse("\x80\x02"
                        "cnumpy\nndarray\nU\x02u1K\0K\x01\x87R."),
                  IoError);  // no call of this
}

TEST_CASE("a pickle of something else is refused") {
  const std::string good = cifar_pickle({3, 0}, pixels(2));
  CHECK_THROWS_AS(parse(""), IoError);
  CHECK_THROWS_AS(parse("\x80\x03}."), IoError);
  CHECK_THROWS_AS(parse("\x80\x02]."), IoError);
  CHECK_THROWS_WITH_AS(parse("\x80\x02}."), "[CIFAR10] a file lacks \"data\" or \"labels\"", IoError);
  CHECK_THROWS_AS(parse(good + "."), IoError);
  CHECK_THROWS_AS(parse(cifar_pickle({3, 0, 1}, pixels(2))), IoError);  // a label too many
  CHECK_THROWS_AS(parse(cifar_pickle({3}, pixels(2))), IoError);
  CHECK_THROWS_AS(parse("\x80\x02" + std::string(300'000, '}') + "."), IoError);  // values without end
  CHECK_THROWS_AS(parse("\x80\x02}r\xff\xff\xff\xff."), IoError);
  CHECK_THROWS_AS(parse(std::string("\x80\x02"
                                    "h\x05.",
                                    5)),
                  IoError);
}

TEST_CASE("a list that contains itself does no harm") {
  CHECK_THROWS_AS(parse(std::string("\x80\x02]q\x01h\x01"
                                    "a.",
                                    8)),
                  IoError);
}

TEST_CASE("a pickle that is cut off or damaged anywhere is read or refused, never worse") {
  CAPTURE(test_seed());
  const std::string good = cifar_pickle({3, 0}, std::string(2 * 3072, '\x29'));  // ')' everywhere
  for (size_t n = 0; n < good.size(); n += n < 200 || n + 200 > good.size() ? 1 : 97)
    CHECK_THROWS_AS(parse(good.substr(0, n)), IoError);
  Generator g(test_seed());
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good;
    const size_t header = good.size() - 6144;
    const size_t at = g.random() % (header + 20);
    bad[at < header - 60 ? at : good.size() - 1 - at % 60] = char(g.random());
    try {
      parse(bad);
    } catch (const IoError&) {
      ++refused;
    }
  }
  CHECK(refused > 1000);
}
