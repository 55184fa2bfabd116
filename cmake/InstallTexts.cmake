# Run by cmake --install and cpack: lets `program_file` print the man page and the completions of `program`, keeps them in
# `texts_folder`, and installs them where man and the shells look.
if(program STREQUAL "nmt")
  set(completion completion)
else()
  set(completion --completion)
endif()
# Debian's zsh reads completions of packages elsewhere than zsh as its authors build it.
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(zsh_folder share/zsh/vendor-completions)
else()
  set(zsh_folder share/zsh/site-functions)
endif()

# install_text(FOLDER FILE ARGUMENT...): what the program prints when it is called with these arguments.
function(install_text folder file)
  execute_process(COMMAND "${program_file}" ${ARGN} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  set(made "${texts_folder}/${folder}/${file}")
  file(WRITE "${made}" "${text}")
  file(INSTALL "${made}" DESTINATION "${CMAKE_INSTALL_PREFIX}/${folder}")
endfunction()

install_text(share/man/man1 ${program}.1 --man-page)
install_text(share/bash-completion/completions ${program} ${completion} bash)
install_text(${zsh_folder} _${program} ${completion} zsh)
install_text(share/fish/vendor_completions.d ${program}.fish ${completion} fish)
