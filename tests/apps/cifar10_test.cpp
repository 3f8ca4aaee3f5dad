#include "tests/support/op_case.h"
#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

#include <tandem/core/generator.h>
#include <tandem/nn/safetensors.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <map>
#include <regex>
#include <sstream>
#include <thread>

using namespace tandem;
using namespace tandem::test;
namespace fs = std::filesystem;

namespace {

// A run small enough for a test: 2 epochs of 20 steps of the net that has state of every kind.
std::vector<std::string> small_run(const std::string& folder, std::vector<std::string> more = {}) {
  std::vector<std::string> args = {
      "train", "--dataset",    "synthetic", "--net", "small", "--limit-train", "320", "--limit-test", "100", "--epochs",
      "2",     "--batch-size", "16",        "--lr",  "0.05",  "--log-every",   "1",   "--checkpoint", folder};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::string last_checkpoint(const std::string& folder) {
  std::string last;
  for (auto& e : fs::directory_iterator(folder))
    if (std::string name = e.path().filename().string(); name.starts_with("step-"))
      last = std::max(last, e.path().string());
  return last;
}

std::vector<nlohmann::json> metrics(const std::string& folder) {
  std::vector<nlohmann::json> lines;
  std::istringstream in(read_text(folder + "/metrics.jsonl"));
  for (std::string line; std::getline(in, line);)
    if (auto j = nlohmann::json::parse(line, nullptr, false); !j.is_discarded()) lines.push_back(j);
  return lines;
}

// By step, of the lines written after each.
std::map<int64_t, double> losses(const std::string& folder) {
  std::map<int64_t, double> all;
  for (auto& line : metrics(folder))
    if (line["event"] == "train") all[line["step"]] = line["loss"];
  return all;
}

int64_t last_step(const std::string& folder) {
  if (!fs::exists(folder + "/metrics.jsonl")) return 0;
  int64_t step = 0;
  for (auto& line : metrics(folder)) step = line.value("step", step);
  return step;
}

}  // namespace

TEST_CASE("cifar10 train: learns, reports, and keeps the last checkpoints and the best") {
  TemporaryFolder tmp;
  Finished r = run_program("cifar10", small_run(tmp / "run", {"--epochs", "4", "--keep", "1"}));
  INFO(r.output);
  REQUIRE(r.code == 0);
  CHECK(r.output.find("data: made-up patterns") != std::string::npos);
  CHECK(r.output.find("epoch 4/4") != std::string::npos);
  CHECK(std::regex_search(r.output, std::regex("done in [0-9:]+( s)?: 4 epochs, 80 steps; best test accuracy ")));
  CHECK(fs::exists(tmp / "run/best.safetensors"));
  CHECK(fs::path(last_checkpoint(tmp / "run")).filename() == "step-00000080.safetensors");
  std::vector<double> losses;
  for (auto& line : metrics(tmp / "run"))
    if (line["event"] == "epoch") losses.push_back(line["loss"]);
  REQUIRE(losses.size() == 4);
  CHECK(losses.back() < losses.front());
}

TEST_CASE("cifar10 train: an existing run is not overwritten by accident") {
  TemporaryFolder tmp;
  REQUIRE(run_program("cifar10", small_run(tmp / "run", {"--epochs", "1"})).code == 0);
  std::string before = read_text(last_checkpoint(tmp / "run"));
  Finished again = run_program("cifar10", small_run(tmp / "run", {"--epochs", "1"}));
  CHECK(again.code == 1);
  CHECK(again.output.find("--resume auto") != std::string::npos);
  CHECK(read_text(last_checkpoint(tmp / "run")) == before);
  CHECK(run_program("cifar10", small_run(tmp / "run", {"--epochs", "1", "--force"})).code == 0);
}

TEST_CASE("cifar10 train: killed at ten random steps and resumed each time, it ends in the straight run's file") {
  TemporaryFolder tmp;
  REQUIRE(run_program("cifar10", small_run(tmp / "straight", {"--save-every", "3"})).code == 0);
  const std::string want = read_text(last_checkpoint(tmp / "straight"));
  Generator g(test_seed());
  INFO("seed ", test_seed());
  for (const char* workers : {"0", "8"}) {
    const std::string folder = tmp / (std::string("killed-") + workers);
    int kills = 0;
    for (int k = 0; k < 10; ++k) {
      Program p("cifar10", small_run(folder, {"--save-every", "3", "--workers", workers, "--resume", "auto"}));
      const int64_t at = last_step(folder) + g.randint(1, 7);
      auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (p.running() && last_step(folder) < at && std::chrono::steady_clock::now() < deadline)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (p.running()) {
        p.signal(SIGKILL);
        ++kills;
      }
      p.wait();
    }
    CHECK(kills >= 5);  // a quick machine may be at the end before the tenth
    Finished end =
        run_program("cifar10", small_run(folder, {"--save-every", "3", "--workers", workers, "--resume", "auto"}));
    INFO(end.output);
    REQUIRE(end.code == 0);
    CHECK(read_text(last_checkpoint(folder)) == want);
    // No more than one checkpoint interval was done again.
    int64_t step = 0;
    for (auto& line : metrics(folder)) {
      if (line["event"] == "resume") CHECK(line["step"].get<int64_t>() >= step - 3);
      step = line.value("step", step);
    }
  }
}

TEST_CASE("cifar10 train: Ctrl-C finishes the step, saves and says how to go on") {
  TemporaryFolder tmp;
  REQUIRE(run_program("cifar10", small_run(tmp / "straight")).code == 0);
  {
    Program p("cifar10", small_run(tmp / "run"));
    while (p.running() && last_step(tmp / "run") < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    p.signal(SIGINT);
    CHECK(p.wait() == 130);
    INFO(p.output());
    CHECK(p.output().find("--resume auto") != std::string::npos);
  }
  Finished end = run_program("cifar10", small_run(tmp / "run", {"--resume", "auto"}));
  INFO(end.output);
  REQUIRE(end.code == 0);
  CHECK(read_text(last_checkpoint(tmp / "run")) == read_text(last_checkpoint(tmp / "straight")));
  CHECK(losses(tmp / "run") == losses(tmp / "straight"));
}

TEST_CASE("cifar10 train: a run is resumed with its own options alone, from a file or a folder") {
  TemporaryFolder tmp;
  REQUIRE(run_program("cifar10", small_run(tmp / "run", {"--epochs", "1"})).code == 0);
  Finished other = run_program("cifar10", small_run(tmp / "run", {"--resume", "auto", "--lr", "0.1", "--net", "mlp"}));
  CHECK(other.code == 1);
  CHECK(other.output.find("lr: 0.05 there, 0.1 now") != std::string::npos);
  CHECK(other.output.find("net: small there, mlp now") != std::string::npos);
  Finished more = run_program("cifar10", small_run(tmp / "more", {"--resume", tmp / "run", "--workers", "2"}));
  INFO(more.output);
  CHECK(more.code == 0);
  CHECK(more.output.find("epoch 2/2") != std::string::npos);
  CHECK(more.output.find("since it was resumed: 2 epochs, 40 steps") != std::string::npos);
}

TEST_CASE("cifar10 train: what is resumed from an earlier step gives up its later past, and no other run's") {
  TemporaryFolder tmp;
  REQUIRE(run_program("cifar10", small_run(tmp / "run", {"--save-every", "5", "--keep", "99"})).code == 0);
  const std::string early = "/step-00000010.safetensors", best = "/best.safetensors";
  auto files = [](const std::string& folder) {
    std::map<std::string, std::string> all;
    for (auto& e : fs::directory_iterator(folder)) all[e.path().filename().string()] = read_text(e.path().string());
    return all;
  };
  const auto before = files(tmp / "run");
  const std::vector<std::string> to_other = small_run(tmp / "other", {"--resume", tmp / "run" + early});
  REQUIRE(run_program("cifar10", to_other).code == 0);
  CHECK(files(tmp / "run") == before);
  CHECK(read_text(last_checkpoint(tmp / "other")) == read_text(last_checkpoint(tmp / "run")));

  const auto other = files(tmp / "other");
  Finished again = run_program("cifar10", to_other);
  CHECK(again.code == 1);
  CHECK(again.output.find("other holds a run already") != std::string::npos);
  CHECK(files(tmp / "other") == other);

  // In its own folder, and only until step 20: nothing of the other past is left.
  REQUIRE(run_program("cifar10", small_run(tmp / "run", {"--resume", tmp / "run" + early, "--epochs", "1"})).code == 0);
  CHECK(fs::path(last_checkpoint(tmp / "run")).filename() == "step-00000020.safetensors");
  CHECK(read_text(tmp / "run" + best) == before.at("step-00000020.safetensors"));
}

TEST_CASE("cifar10 train: what can't be resumed is said before data are looked for") {
  TemporaryFolder tmp;
  write_text(tmp / "damaged.safetensors", "no checkpoint");
  fs::create_directory(tmp / "empty");
  for (const char* name : {"missing.safetensors", "damaged.safetensors", "empty"}) {
    Finished r = run_program("cifar10", {"train", "--data", tmp / "nowhere", "--resume", tmp / name});
    INFO(r.output);
    CHECK(r.code == 1);
    CHECK(r.output.find(tmp / name) != std::string::npos);
    CHECK(r.output.find("nowhere") == std::string::npos);
  }
}

TEST_CASE("cifar10 train: on a second CPU device") {
  TemporaryFolder tmp;
  REQUIRE(run_program("cifar10", small_run(tmp / "first", {"--epochs", "1"})).code == 0);
  Finished second = run_program("cifar10", small_run(tmp / "second", {"--epochs", "1", "--device", "cpu:1"}));
  INFO(second.output);
  REQUIRE(second.code == 0);
  CHECK(read_text(last_checkpoint(tmp / "second")) == read_text(last_checkpoint(tmp / "first")));
}

TEST_CASE("cifar10 train: --data takes Fashion-MNIST, its folder or the parent, and says what it took") {
  TemporaryFolder tmp;
  const std::string raw = tmp / "FashionMNIST/raw";
  fs::create_directories(raw);
  constexpr int kImages = 40;
  const std::string sizes("\0\0\0\x28\0\0\0\x1c\0\0\0\x1c", 12);
  for (std::string part : {"train", "t10k"}) {
    write_text(raw + "/" + part + "-images-idx3-ubyte",
               std::string("\0\0\x08\x03", 4) + sizes + std::string(kImages * 28 * 28, 'x'));
    write_text(raw + "/" + part + "-labels-idx1-ubyte",
               std::string("\0\0\x08\x01", 4) + sizes.substr(0, 4) + std::string(kImages, '\3'));
  }
  for (const std::string& folder : {tmp.path(), raw}) {
    Finished r = run_program("cifar10", {"train", "--data", folder, "--net", "small", "--epochs", "1", "--force",
                                         "--checkpoint", tmp / "run"});
    INFO(r.output);
    CHECK(r.code == 0);
    CHECK(r.output.find("data: Fashion-MNIST from " + folder + ", the folder asked for") != std::string::npos);
  }
  fs::remove(raw + "/train-images-idx3-ubyte");  // testing needs the test images alone
  Finished e = run_program("cifar10", {"eval", "--data", raw, "--checkpoint", tmp / "run"});
  INFO(e.output);
  CHECK(e.code == 0);
  CHECK(e.output.find("test accuracy") != std::string::npos);
  Finished none = run_program("cifar10", {"train", "--data", tmp / "run", "--checkpoint", tmp / "other"});
  CHECK(none.code == 1);
  CHECK(none.output.find("cifar-10-batches-bin") != std::string::npos);
}

TEST_CASE("cifar10 export, eval, predict use a checkpoint") {
  TemporaryFolder tmp;
  REQUIRE(run_program("cifar10", small_run(tmp / "run", {"--epochs", "1"})).code == 0);
  Finished none = run_program("cifar10", {"eval", "--checkpoint", tmp / "nowhere"});
  CHECK(none.code == 1);
  CHECK(none.output.find("nowhere: there is no such checkpoint") != std::string::npos);
  Finished e = run_program("cifar10", {"export", "--checkpoint", tmp / "run", "--out", tmp / "net.safetensors"});
  INFO(e.output);
  REQUIRE(e.code == 0);
  SafetensorsFile file = load(tmp / "net.safetensors");
  CHECK(file.find("conv1.weight").defined());
  CHECK(file.find("bn1.num_batches_tracked").defined());
  for (auto& [name, tensor] : file.tensors) CHECK(!name.starts_with("tandem."));
  CHECK(run_program("cifar10", {"export", "--checkpoint", tmp / "run", "--out", tmp / "net.safetensors"}).code == 1);

  Finished v = run_program("cifar10", {"eval", "--checkpoint", tmp / "run"});
  INFO(v.output);
  CHECK(v.code == 0);
  CHECK(v.output.find("test accuracy") != std::string::npos);
  CHECK(v.output.find("pattern 9") != std::string::npos);  // the set that it was trained on
  CHECK(run_program("cifar10", {"eval", "--checkpoint", tmp / "run", "--device", "cpu:1"}).output == v.output);

  std::string ppm = "P6\n40 32\n255\n" + std::string(40 * 32 * 3, '\x40');
  write_text(tmp / "grey.ppm", ppm);
  Finished p = run_program("cifar10", {"predict", tmp / "grey.ppm", "--checkpoint", tmp / "run", "--top", "2"});
  INFO(p.output);
  CHECK(p.code == 0);
  CHECK(p.output.find("grey.ppm:  pattern ") != std::string::npos);
  CHECK(run_program("cifar10", {"predict", tmp / "grey.ppm", "--checkpoint", tmp / "run", "--top", "2", "--device",
                                "cpu:1", "--threads", "1"})
            .output == p.output);
  write_text(tmp / "broken.png", "no picture");
  Finished b = run_program("cifar10", {"predict", tmp / "broken.png", "--checkpoint", tmp / "run"});
  CHECK(b.code == 1);
  CHECK(b.output.find("broken.png") != std::string::npos);
}

TEST_CASE("cifar10: options are checked, near ones suggested, a JSON file read") {
  TemporaryFolder tmp;
  Finished wrong = run_program("cifar10", {"train", "--bach-size", "3"});
  CHECK(wrong.code == 2);
  CHECK(wrong.output.find("did you mean --batch-size?") != std::string::npos);
  CHECK(run_program("cifar10", {"train", "--batch-size", "-3"}).code == 2);
  Finished command = run_program("cifar10", {"trian"});
  CHECK(command.code == 2);
  CHECK(command.output ==
        "cifar10: there is no command trian; the commands are train, eval, predict, export\n  did you mean train?\n");
  CHECK(run_program("cifar10", {"bogus"}).output.find("did you mean") == std::string::npos);
  Finished help = run_program("cifar10", {"train", "--help"});
  CHECK(help.code == 0);
  CHECK(help.output.find("128") != std::string::npos);
  CHECK(help.output.find("Checkpoints:") != std::string::npos);

  write_text(tmp / "config.json", R"({"epochs": 1, "lr": 0.125, "net": "small", "batch_size": 32, "log-every": 7})");
  Finished r = run_program("cifar10", {"train", "--config", tmp / "config.json", "--dataset", "synthetic",
                                       "--limit-train", "64", "--limit-test", "10", "--checkpoint", tmp / "run"});
  INFO(r.output);
  REQUIRE(r.code == 0);
  CHECK(metrics(tmp / "run").front()["lr"] == 0.125);
  CHECK(metrics(tmp / "run").front()["batch_size"] == 32);
  write_text(tmp / "misspelt.json", R"({"epoch": 1, "bach_size": 3})");
  Finished misspelt = run_program("cifar10", {"train", "--config", tmp / "misspelt.json"});
  CHECK(misspelt.code == 2);
  CHECK(misspelt.output.find("did you mean --epochs?") != std::string::npos);
  CHECK(misspelt.output.find("did you mean --batch-size?") != std::string::npos);
  write_text(tmp / "broken.json", "{");
  CHECK(run_program("cifar10", {"train", "--config", tmp / "broken.json"}).code == 2);
}
