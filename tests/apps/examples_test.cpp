#include "tests/support/environment.h"
#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace tandem::test;

namespace {

// One that nobody listens at, at this moment.
int free_port() {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof a;
  const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(::bind(s, reinterpret_cast<sockaddr*>(&a), size) == 0);
  REQUIRE(::getsockname(s, reinterpret_cast<sockaddr*>(&a), &size) == 0);
  ::close(s);
  return ntohs(a.sin_port);
}

// CIFAR-10's training files, whose images have one colour for each class.
void write_cifar10(const std::string& root) {
  std::string file;
  for (int i = 0; i < 10000; ++i) {
    file += char(i % 10);
    file.append(3072, char(i % 10 * 25));
  }
  std::filesystem::create_directories(root + "/cifar-10-batches-bin");
  for (int b = 1; b <= 5; ++b)
    write_text(root + "/cifar-10-batches-bin/data_batch_" + std::to_string(b) + ".bin", file);
}

}  // namespace

TEST_CASE("own_dataset: three batches of 30") {
  Finished r = run_program("own_dataset", {});
  REQUIRE(r.code == 0);
  const std::string inside = "  In Model: input size [30,5] output size [30,2]\n",
                    outside = "Outside: input size [30,5] output_size [30,2]\n";
  CHECK(r.output == inside + outside + inside + outside + inside + outside);
}

TEST_CASE("own_training: the saved network has learnt the curve") {
  TemporaryFolder tmp;
  Finished r = run_program("own_training", {tmp / "curve.safetensors"});
  INFO(r.output);
  REQUIRE(r.code == 0);
  const std::string says = "the network says ";
  auto at = r.output.find(says);
  REQUIRE(at != std::string::npos);
  CHECK(std::abs(std::stod(r.output.substr(at + says.size())) - std::sin(1.0)) < 0.05);
}

TEST_CASE("toy_data_parallel: a batch of 30 on three devices is three of 10") {
  Variable devices("TANDEM_CPU_DEVICES", "3");
  Finished r = run_program("toy_data_parallel", {});
  INFO(r.output);
  CHECK(r.code == 0);
  CHECK(r.output.starts_with("Let's use 3 devices!\n"));
  CHECK(count(r.output, "  In Model: input size [10,5] output size [10,2]\n") == 9);
  CHECK(count(r.output, "Outside: input size [30,5] output_size [30,2]\n") == 3);
}

TEST_CASE("toy_data_parallel: on one device the wrapper is the network itself") {
  Finished r = run_program("toy_data_parallel", {});
  CHECK(r.code == 0);
  CHECK(count(r.output, "  In Model: input size [30,5] output size [30,2]\n") == 3);
  CHECK(count(r.output, "devices!") == 0);
}

TEST_CASE("cifar10_data_parallel: the Net on two devices") {
  TemporaryFolder tmp;
  write_cifar10(tmp / "data");
  Variable devices("TANDEM_CPU_DEVICES", "2");
  Finished r = run_program("cifar10_data_parallel", {"1", tmp / "data", "300"});
  INFO(r.output);
  CHECK(r.code == 0);
  const std::string says = "[1,     3] loss: ";
  REQUIRE(r.output.starts_with(says));
  CHECK(std::stod(r.output.substr(says.size())) < 2.4);  // from ln 10 = 2.3 on downwards
}

TEST_CASE("cifar10_distributed: the Net in two processes that the program starts itself") {
  TemporaryFolder tmp;
  write_cifar10(tmp / "data");
  Finished r = run_program("cifar10_distributed", {"1", tmp / "data", std::to_string(free_port()), "2", "300"});
  INFO(r.output);
  CHECK(r.code == 0);
  CHECK(count(r.output, "[1,     2] loss: ") == 2);  // each rank's own
}

TEST_CASE("toy_distributed: two processes, started by tandem-run, train one model") {
  Finished r = run_program("tandem-run", {"-n", "2", std::string(TANDEM_PROGRAM_DIR) + "/toy_distributed", "2"});
  INFO(r.output);
  CHECK(r.code == 0);
  for (const char* rank : {"rank 0 of 2: loss ", "rank 1 of 2: loss "}) CHECK(count(r.output, rank) == 4);
}
