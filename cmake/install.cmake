# `cmake --install`: the library, its headers, and what find_package and pkg-config read.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS tandem EXPORT tandem-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(with_mpi)
  install(TARGETS tandem_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
foreach(header ${tandem_public_headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem/${folder})
endforeach()
install(FILES ${tandem_include_root}/tandem/tandem.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
install(EXPORT tandem-targets NAMESPACE tandem:: DESTINATION ${package_dir})
configure_package_config_file(cmake/tandem-config.cmake.in ${PROJECT_BINARY_DIR}/tandem-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tandem-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tandem-config.cmake ${PROJECT_BINARY_DIR}/tandem-config-version.cmake
  DESTINATION ${package_dir})

# The prefix is found from where the file lies, so that an install tree can be moved.
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH prefix_from_pc /${pkgconfig_dir} /)
string(REGEX REPLACE "/$" "" prefix_from_pc ${prefix_from_pc})
configure_file(cmake/tandem.pc.in ${PROJECT_BINARY_DIR}/tandem.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tandem.pc DESTINATION ${pkgconfig_dir})
