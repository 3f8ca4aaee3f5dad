/// cifar10: train, evaluate and use small networks on CIFAR-10.
#include "apps/cifar10/commands.h"
#include "apps/heap.h"

#include <exception>
#include <iostream>

using namespace tandem::cifar10;

int main(int argc, char** argv) {
  tandem::return_large_blocks();
  Options o;
  if (int code = parse(argc, argv, o); code >= 0) return code;
  try {
    if (o.command == "train") return train(o.train);
    if (o.command == "eval") return evaluate(o.eval);
    if (o.command == "predict") return predict(o.predict);
    return export_weights(o.export_);
  } catch (const std::exception& e) {
    std::cerr << "cifar10: " << e.what() << '\n';
    return 1;
  }
}
