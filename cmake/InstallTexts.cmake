# Run by cmake --install and cpack: links the installed `program` into bin, lets `program_file` print its man page and its
# completions, keeps these in `texts_folder`, and installs them where man and the shells look.
# server and worker are too general names for /usr/bin. The programs lie in lib/babelring, where they find each other.
if(program STREQUAL "nmt")
  set(completion completion)
  set(called nmt)
else()
  set(completion --completion)
  set(called babelring-${program})
endif()
# Debian's zsh reads completions of packages elsewhere than zsh as its authors build it.
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(zsh_folder share/zsh/vendor-completions)
else()
  set(zsh_folder share/zsh/site-functions)
endif()

# install_link(TARGET): bin/`called`, which leads to TARGET.
function(install_link target)
  file(MAKE_DIRECTORY "${texts_folder}/bin")
  file(CREATE_LINK "${target}" "${texts_folder}/bin/${called}" SYMBOLIC)
  file(INSTALL "${texts_folder}/bin/${called}" DESTINATION "${CMAKE_INSTALL_PREFIX}/bin")
endfunction()

# install_text(FOLDER FILE ARGUMENT...): what the program prints when it is called by its installed name with these arguments.
function(install_text folder file)
  execute_process(COMMAND "${texts_folder}/called/${called}" ${ARGN} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  set(made "${texts_folder}/${folder}/${file}")
  file(WRITE "${made}" "${text}")
  file(INSTALL "${made}" DESTINATION "${CMAKE_INSTALL_PREFIX}/${folder}")
endfunction()

install_link("../lib/babelring/${program}")
file(MAKE_DIRECTORY "${texts_folder}/called")
file(CREATE_LINK "${program_file}" "${texts_folder}/called/${called}" SYMBOLIC)
install_text(share/man/man1 ${called}.1 --man-page)
install_text(share/bash-completion/completions ${called} ${completion} bash)
install_text(${zsh_folder} _${called} ${completion} zsh)
install_text(share/fish/vendor_completions.d ${called}.fish ${completion} fish)
