#ifdef TANDEM_ONEDNN
#  include <tandem/core/build_info.h>
#  include <tandem/ops/onednn.h>

#  include <dnnl.hpp>

namespace tandem::detail {

dnnl::engine& onednn_engine() {
  static auto* e = new dnnl::engine(dnnl::engine::kind::cpu, 0);  // outlives every thread's plans
  return *e;
}

dnnl::stream& onednn_stream() {
  static thread_local dnnl::stream s(onednn_engine());
  return s;
}

LentScratch::LentScratch(dnnl::memory& m, Device d)
    : memory_(empty({int64_t(m.get_desc().get_size())}, {.dtype = Dtype::u8, .device = d})) {
  m.set_data_handle(memory_.raw());
}

void lend(dnnl::memory& m, const void* p) { m.set_data_handle(const_cast<void*>(p)); }

dnnl::primitive_attr onednn_attributes(bool add) {
  dnnl::primitive_attr a;
  a.set_fpmath_mode(dnnl::fpmath_mode::strict);
  a.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (add) {
    dnnl::post_ops ops;
    ops.append_sum(1.f);
    a.set_post_ops(ops);
  }
  return a;
}

void rethrow_onednn_error() {
  try {
    throw;
  } catch (const dnnl::error& e) {
    throw Error(message("[", context().op, "] oneDNN: ", e.what()));
  }
}

namespace {
std::string onednn_version() {
  const dnnl_version_t* v = dnnl_version();
  return message(v->major, '.', v->minor, '.', v->patch);
}
[[maybe_unused]] const bool registered = add_build_info("oneDNN", onednn_version);
}  // namespace

}  // namespace tandem::detail
#endif
