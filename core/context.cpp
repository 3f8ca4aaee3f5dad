#include <tandem/core/context.h>
#include <tandem/core/generator.h>

namespace tandem {

Context& context() {
  static thread_local Context c;
  return c;
}

}  // namespace tandem
