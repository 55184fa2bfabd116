# cmake --install: configurations to start from, documents and licence. Each program is installed where it is defined.
include(GNUInstallDirs)
install(DIRECTORY configs/ DESTINATION "${CMAKE_INSTALL_DATADIR}/babelring/configs" FILES_MATCHING PATTERN "*.yaml")
install(DIRECTORY deploy/ DESTINATION "${CMAKE_INSTALL_DATADIR}/babelring/deploy")
install(FILES LICENSE NOTICE README.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs/ DESTINATION "${CMAKE_INSTALL_DOCDIR}/docs" FILES_MATCHING PATTERN "*.md" PATTERN "*.png" PATTERN "*.svg")
