# Run by cmake --install and cpack: installs what systemd reads, with the prefix of this installation in place of
# /opt/babelring. A package, with the prefix /usr, also has /etc/babelring/server.yaml.
# install_service(FILE FOLDER): FILE of deploy/systemd.
function(install_service file folder)
  file(READ "${source_folder}/deploy/systemd/${file}" text)
  string(REPLACE /opt/babelring "${CMAKE_INSTALL_PREFIX}" text "${text}")
  get_filename_component(name "${file}" NAME)
  file(WRITE "${texts_folder}/${folder}/${name}" "${text}")
  file(INSTALL "${texts_folder}/${folder}/${name}" DESTINATION "${folder}")
endfunction()

install_service(babelring-server.service "${CMAKE_INSTALL_PREFIX}/lib/systemd/system")
install_service(babelring.conf "${CMAKE_INSTALL_PREFIX}/lib/tmpfiles.d")
install_service(user/babelring-server.service "${CMAKE_INSTALL_PREFIX}/lib/systemd/user")
install_service(README.md "${CMAKE_INSTALL_PREFIX}/share/babelring/deploy/systemd")
install_service(tls.conf "${CMAKE_INSTALL_PREFIX}/share/babelring/deploy/systemd")
install_service(server.yaml "${CMAKE_INSTALL_PREFIX}/share/babelring/deploy/systemd")
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  install_service(server.yaml /etc/babelring)
endif()
