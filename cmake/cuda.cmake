# CUDA's parts, wherever they lie: the toolkit's folders, the system's, below TANDEM_CUDA_ROOT, CUDAToolkit_ROOT,
# cuDNN_ROOT and NCCL_ROOT (variables or environment), or in the nvidia/* folders of Python wheels.
#
#   with_cuda        libtandem_cuda is built, by nvcc: TANDEM_CUDA, by default where there are a GPU and all parts
#   with_nccl        ... with NCCL in it
#   with_simgpu      the CUDA sources are tested on simulated GPUs: TANDEM_SIMGPU, by default where the headers are
#   tandem_cuda_headers, tandem_cuda_libraries    what those two compile with and link

set(TANDEM_CUDA AUTO CACHE STRING "The CUDA library: ON, OFF, or AUTO for where there is a GPU")
set(TANDEM_NCCL AUTO CACHE STRING "NCCL in the CUDA library: ON, OFF, or AUTO for what the machine has")
set(TANDEM_SIMGPU AUTO CACHE STRING "Tests on simulated GPUs: ON, OFF, or AUTO for where CUDA's headers are")
set_property(CACHE TANDEM_CUDA TANDEM_NCCL TANDEM_SIMGPU PROPERTY STRINGS AUTO ON OFF)
set(TANDEM_CUDA_ARCHITECTURES "" CACHE STRING
  "GPU architectures, as CMAKE_CUDA_ARCHITECTURES; empty for the GPUs present, else sm_75 to sm_100")

set(with_cuda OFF)
set(with_nccl OFF)
set(with_simgpu OFF)

find_package(CUDAToolkit QUIET)
find_package(Python3 QUIET COMPONENTS Interpreter)  # its site-packages may hold the nvidia wheels
file(GLOB wheel_folders "${Python3_SITELIB}/nvidia/*" "$ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/*")
set(cuda_folders ${TANDEM_CUDA_ROOT} $ENV{TANDEM_CUDA_ROOT} ${CUDAToolkit_ROOT} $ENV{CUDAToolkit_ROOT} $ENV{CUDA_HOME}
  ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_LIBRARY_DIR} /usr/local/cuda ${wheel_folders})

# part(NAME HEADER LIBRARY...): NAME_INCLUDE_DIR and NAME_LIBRARY; wheels hold libraries by their full names alone.
function(tandem_cuda_part name header)
  set(roots ${${name}_ROOT} $ENV{${name}_ROOT} ${cuda_folders})
  find_path(${name}_INCLUDE_DIR ${header} HINTS ${roots} PATH_SUFFIXES include)
  find_library(${name}_LIBRARY NAMES ${ARGN} HINTS ${roots} PATH_SUFFIXES lib lib64)
  mark_as_advanced(${name}_INCLUDE_DIR ${name}_LIBRARY)
endfunction()
tandem_cuda_part(cudart cuda_runtime.h cudart_static)
tandem_cuda_part(cublasLt cublasLt.h cublasLt libcublasLt.so.13 libcublasLt.so.12)
tandem_cuda_part(cuDNN cudnn.h cudnn libcudnn.so.9)
tandem_cuda_part(NCCL nccl.h nccl libnccl.so.2)

# Lists what of `parts` lacks `kind` (INCLUDE_DIR or LIBRARY) in `result`.
function(tandem_cuda_lacking result kind)
  set(lacking)
  foreach(part ${ARGN})
    if(NOT ${part}_${kind})
      list(APPEND lacking ${part})
    endif()
  endforeach()
  list(JOIN lacking ", " lacking)
  set(${result} "${lacking}" PARENT_SCOPE)
endfunction()

add_library(tandem_cuda_headers INTERFACE)
foreach(part cudart cublasLt cuDNN NCCL)
  if(${part}_INCLUDE_DIR)
    target_include_directories(tandem_cuda_headers SYSTEM INTERFACE ${${part}_INCLUDE_DIR})
  endif()
endforeach()

if(TANDEM_SIMGPU AND with_tests)
  tandem_cuda_lacking(lacking INCLUDE_DIR cudart cublasLt cuDNN NCCL)
  if(NOT lacking)
    set(with_simgpu ON)
  elseif(NOT TANDEM_SIMGPU STREQUAL "AUTO")
    message(FATAL_ERROR "TANDEM_SIMGPU needs CUDA's headers; lacking: ${lacking}")
  else()
    message(STATUS "what runs on simulated GPUs is left out: this machine lacks the headers of ${lacking}")
  endif()
endif()

if(TANDEM_CUDA AND (NOT TANDEM_CUDA STREQUAL "AUTO" OR EXISTS /dev/nvidia0))
  include(CheckLanguage)
  check_language(CUDA)
  tandem_cuda_lacking(lacking LIBRARY cudart cublasLt cuDNN)
  if(NOT CMAKE_CUDA_COMPILER)
    string(PREPEND lacking "nvcc ")
  endif()
  if(NOT lacking)
    set(with_cuda ON)
  else()
    set(advice "the CUDA library is left out: this machine lacks ${lacking} (the CUDA toolkit, and for cuDNN the package "
      "libcudnn9-dev-cuda-13 or the wheel nvidia-cudnn-cu13; cuDNN_ROOT and the like name folders)")
    list(JOIN advice "" advice)
    if(NOT TANDEM_CUDA STREQUAL "AUTO")
      message(FATAL_ERROR "TANDEM_CUDA=ON, but ${advice}")
    endif()
    message(STATUS "${advice}")
  endif()
endif()

if(with_cuda)
  if(TANDEM_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES ${TANDEM_CUDA_ARCHITECTURES})
  elseif(EXISTS /dev/nvidia0 AND CMAKE_VERSION VERSION_GREATER_EQUAL 3.24)
    set(CMAKE_CUDA_ARCHITECTURES native)
  else()
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90-real 100)
  endif()
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know yet that nvcc has C++20
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  add_library(tandem_cuda_libraries INTERFACE)
  target_link_libraries(tandem_cuda_libraries INTERFACE tandem_cuda_headers ${cudart_LIBRARY} ${cublasLt_LIBRARY}
    ${cuDNN_LIBRARY} ${CMAKE_DL_LIBS} rt)
  if(TANDEM_NCCL AND NCCL_LIBRARY)
    set(with_nccl ON)
    target_link_libraries(tandem_cuda_libraries INTERFACE ${NCCL_LIBRARY})
    target_compile_definitions(tandem_cuda_libraries INTERFACE TANDEM_NCCL)
  elseif(TANDEM_NCCL AND NOT TANDEM_NCCL STREQUAL "AUTO")
    message(FATAL_ERROR "TANDEM_NCCL=ON, but NCCL was not found (libnccl-dev, the wheel nvidia-nccl-cu13, or NCCL_ROOT)")
  endif()
endif()
