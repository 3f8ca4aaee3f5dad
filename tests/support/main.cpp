#define DOCTEST_CONFIG_IMPLEMENT
#include "tests/support/test_device.h"

#include <tandem/core/context.h>

int main(int argc, char** argv) {
  tandem::DeviceGuard here(tandem::test::test_device());
  return doctest::Context(argc, argv).run();
}
