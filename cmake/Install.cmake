# cmake --install and cpack. Components: server, worker, nmt, library, cuda, and common (configurations to start from, documents,
# deploy/ and licence).
include(GNUInstallDirs)
install(DIRECTORY configs/ DESTINATION "${CMAKE_INSTALL_DATADIR}/babelring/configs" COMPONENT common
        FILES_MATCHING PATTERN "*.yaml")
install(DIRECTORY deploy/ DESTINATION "${CMAKE_INSTALL_DATADIR}/babelring/deploy" COMPONENT common
        PATTERN systemd EXCLUDE PATTERN babelring-mpirun EXCLUDE)
install(CODE "set(source_folder \"${CMAKE_SOURCE_DIR}\")\nset(texts_folder \"${CMAKE_BINARY_DIR}/texts\")" COMPONENT server)
install(SCRIPT cmake/InstallService.cmake COMPONENT server)
install(PROGRAMS deploy/babelring-mpirun DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT worker)
install(FILES LICENSE NOTICE README.md DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT common)
install(DIRECTORY docs/ DESTINATION "${CMAKE_INSTALL_DOCDIR}/docs" COMPONENT common
        FILES_MATCHING PATTERN "*.md" PATTERN "*.png" PATTERN "*.svg")
# Man pages and completions, which the programs themselves print.
foreach(program server worker nmt)
  install(CODE "set(program ${program})
set(program_file \"$<TARGET_FILE:${program}>\")
set(texts_folder \"${CMAKE_BINARY_DIR}/texts\")" COMPONENT ${program})
  install(SCRIPT cmake/InstallTexts.cmake COMPONENT ${program})
endforeach()
