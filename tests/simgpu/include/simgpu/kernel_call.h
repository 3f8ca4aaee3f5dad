/// Launching a kernel: the call is kept with its arguments, by value, until its stream gets there.
#pragma once
#include <simgpu/builtins.h>

#include <array>
#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace simgpu {

struct KernelCall {
  const void* function;
  std::shared_ptr<const void> arguments;
  void (*run)(const void* arguments);  // as one thread
  size_t argument_bytes;
  const void* const* pointers;  // the arguments that are pointers to objects; read during launch_kernel alone
  size_t pointer_count;
};
cudaError_t launch_kernel(const cudaLaunchConfig_t& config, const KernelCall& call);

template <class... P>
struct Arguments {
  void (*kernel)(P...);
  std::tuple<std::remove_const_t<P>...> values;

  SIMGPU_UNCHECKED static void run(const void* self) {
    const auto& a = *static_cast<const Arguments*>(self);
    call(a, std::index_sequence_for<P...>());
  }
  template <size_t... I>
  SIMGPU_UNCHECKED static void call(const Arguments& a, std::index_sequence<I...>) {
    a.kernel(std::get<I>(a.values)...);
  }
};

template <class T>
const void* object_pointer(const T& value) {
  if constexpr (std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>>)
    return reinterpret_cast<const void*>(value);
  else
    return nullptr;
}

}  // namespace simgpu

template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(P...), A&&... arguments) {
  static_assert(sizeof...(P) == sizeof...(A), "as many arguments as the kernel has parameters");
  static_assert((std::is_trivially_copyable_v<P> && ...), "parameters of kernels are trivially copyable");
  static_assert((!std::is_reference_v<P> && ...), "parameters of kernels are values");
  using Call = simgpu::Arguments<P...>;
  auto call = std::make_shared<const Call>(Call{kernel, {static_cast<P>(std::forward<A>(arguments))...}});
  const std::array<const void*, sizeof...(P)> pointers =
      std::apply([](const auto&... v) { return std::array<const void*, sizeof...(P)>{simgpu::object_pointer(v)...}; },
                 call->values);
  return simgpu::launch_kernel(*config, {reinterpret_cast<const void*>(kernel), call, &Call::run,
                                         (size_t{0} + ... + sizeof(P)), pointers.data(), pointers.size()});
}

// Templates that the toolkit's header shows to nvcc alone.
template <class T>
cudaError_t cudaFuncSetAttribute(T* kernel, cudaFuncAttribute attribute, int value) {
  return ::cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
template <class T>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, T* kernel) {
  return ::cudaFuncGetAttributes(attributes, reinterpret_cast<const void*>(kernel));
}
