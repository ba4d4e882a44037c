# bifrost_stubs(TARGET c|cpp FILE.theta...): makes the stubs of a program when the target is built, and adds their
# folder to its headers. BIFROST_BIN is the program `bifrost`.
function(bifrost_stubs target language)
  set(bin "${BIFROST_BIN}")
  if(NOT bin)
    set(bin bifrost)
  endif()
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${target}_stubs")
  if(language STREQUAL "c")
    set(header "${folder}/bifrost_stubs.h")
  else()
    set(header "${folder}/bifrost_stubs.hpp")
  endif()
  set(files)
  foreach(file IN LISTS ARGN)
    get_filename_component(file "${file}" ABSOLUTE)
    list(APPEND files "${file}")
  endforeach()
  add_custom_command(OUTPUT "${header}"
    COMMAND "${CMAKE_COMMAND}" -E env --unset=BIFROST_BIN "${bin}" veneer --lang ${language} ${files} -o "${folder}"
    DEPENDS ${files}
    VERBATIM)
  set_property(GLOBAL APPEND PROPERTY BIFROST_STUBS_HEADERS "${header}")
  add_custom_target(${target}_stubs DEPENDS "${header}")
  add_dependencies(${target} ${target}_stubs)
  target_include_directories(${target} PRIVATE "${folder}")
endfunction()
