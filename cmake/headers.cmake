# One spelling of an include everywhere, <tandem/core/tensor.h>, in the tree as when installed: a folder of links stands
# for the include root, and the umbrella header is generated beside them.

set(tandem_include_root ${PROJECT_BINARY_DIR}/headers)
set(tandem_public_headers)  # relative to the source folder
set(umbrella "/// Everything. Generated from what the folders hold.\n#pragma once\n")

foreach(folder core ops cuda nn data parallel amp)
  if(NOT IS_DIRECTORY ${PROJECT_SOURCE_DIR}/${folder})
    continue()
  endif()
  file(MAKE_DIRECTORY ${tandem_include_root}/tandem)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${tandem_include_root}/tandem/${folder} SYMBOLIC)
  file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${folder}/*.h)
  foreach(header ${headers})
    # A header for our own sources alone says so in its first line.
    file(STRINGS ${header} first_line LIMIT_COUNT 1)
    if(NOT first_line MATCHES "^/// Not installed")
      list(APPEND tandem_public_headers ${header})
      string(APPEND umbrella "#include <tandem/${header}>\n")
    endif()
  endforeach()
endforeach()

file(CONFIGURE OUTPUT ${tandem_include_root}/tandem/tandem.h CONTENT "${umbrella}" @ONLY)
