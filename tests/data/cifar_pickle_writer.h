/// Writes what Python 2 wrote into cifar-10-batches-py, for images and labels of a test's own.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::test {

class CifarPickleWriter {
 public:
  std::string write(const std::vector<int>& labels, const std::string& pixels) {
    s_ = "\x80\x02}";
    put();
    s_ += '(';
    text("batch_label");
    text("training batch 1 of 5");
    text("labels");
    s_ += ']';
    put();
    s_ += '(';
    for (int l : labels) s_ += std::string("K") + char(l);
    s_ += 'e';
    text("data");
    array(int(labels.size()), pixels);
    text("filenames");
    s_ += ']';
    put();
    s_ += '(';
    for (size_t i = 0; i < labels.size(); ++i) text("leptodactylus_pentadactylus_s_" + std::to_string(i) + ".png");
    return s_ + "eu.";
  }

 private:
  void little(uint32_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) s_ += char(v >> 8 * i);
  }
  // Every value gets a number, counted from 1.
  void put() {
    const uint32_t i = ++memo_;
    s_ += i < 256 ? 'q' : 'r';
    little(i, i < 256 ? 1 : 4);
  }
  void text(const std::string& t) {
    s_ += t.size() < 256 ? 'U' : 'T';
    little(uint32_t(t.size()), t.size() < 256 ? 1 : 4);
    s_ += t;
    put();
  }
  void number(int v) {
    s_ += v < 256 ? 'K' : 'M';
    little(uint32_t(v), v < 256 ? 1 : 2);
  }
  void raw(const char* t) {
    s_ += t;
    put();
  }
  void array(int rows, const std::string& pixels) {
    raw("cnumpy.core.multiarray\n_reconstruct\n");
    raw("cnumpy\nndarray\n");
    number(0);
    raw("\x85");
    text("b");
    raw("\x87");
    raw("R");
    s_ += '(';
    number(1);
    number(rows);
    number(3072);
    raw("\x86");
    raw("cnumpy\ndtype\n");
    text("u1");
    number(0);
    number(1);
    raw("\x87");
    raw("R");
    s_ += '(';
    number(3);
    text("|");
    s_ += "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff";
    number(0);
    raw("t");
    s_ += 'b';
    s_ += '\x89';
    text(pixels);
    raw("t");
    s_ += 'b';
  }

  std::string s_;
  uint32_t memo_ = 0;
};

inline std::string cifar_pickle(const std::vector<int>& labels, const std::string& pixels) {
  return CifarPickleWriter().write(labels, pixels);
}

}  // namespace tandem::test
