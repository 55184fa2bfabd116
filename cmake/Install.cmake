# cmake --install: the configurations to start from, and the papers. Each program installs itself where it is defined.
include(GNUInstallDirs)
install(DIRECTORY configs/ DESTINATION "${CMAKE_INSTALL_DATADIR}/babelring/configs" FILES_MATCHING PATTERN "*.yaml")
install(FILES LICENSE NOTICE README.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs/ DESTINATION "${CMAKE_INSTALL_DOCDIR}/docs" FILES_MATCHING PATTERN "*.md" PATTERN "*.png" PATTERN "*.svg")
