/// What is exported from the shared library. Everything else is hidden.
#pragma once

#if defined(__GNUC__)
#  define TANDEM_API __attribute__((visibility("default")))
#else
#  define TANDEM_API
#endif

#if defined(__CUDACC__)
#  define TANDEM_HOST_DEVICE __host__ __device__
#else
#  define TANDEM_HOST_DEVICE
#endif
