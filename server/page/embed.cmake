# cmake -DDIST=folder -DRUNTIME=file -DOUT=folder -DGZIP=program -P embed.cmake
# Writes page.S (the compressed bytes) and page.cc (the table of page.h) for every file of DIST, and for RUNTIME, ONNX Runtime's
# WebAssembly file, under the name that DIST's onnx_runtime.sha256 gives the file with that digest. Without such a file, also if RUNTIME
# is another one, the page tells how to get it.
file(GLOB_RECURSE files RELATIVE "${DIST}" "${DIST}/*")
list(REMOVE_ITEM files onnx_runtime.sha256)

set(runtime_name "")
if(EXISTS "${DIST}/onnx_runtime.sha256")
  file(STRINGS "${DIST}/onnx_runtime.sha256" line)
  if(NOT line MATCHES "^([0-9a-f]+)  ([A-Za-z0-9_./-]+)$")
    message(FATAL_ERROR "${DIST}/onnx_runtime.sha256: found '${line}', expected a SHA-256 digest, two spaces and a name")
  endif()
  set(expected "${CMAKE_MATCH_1}")
  set(wanted "${CMAKE_MATCH_2}")
  set(advice "the page cannot translate offline; for that run 'npm ci' in server/page and build again")
  if(NOT RUNTIME OR NOT EXISTS "${RUNTIME}")
    message(STATUS "Without ONNX Runtime's WebAssembly file ${advice}")
  else()
    file(SHA256 "${RUNTIME}" digest)
    if(digest STREQUAL expected)
      set(runtime_name "${wanted}")
      list(APPEND files "${runtime_name}")
    else()
      message(WARNING "${RUNTIME}: its SHA-256 is ${digest}, expected ${expected}; it is left out: ${advice}")
    endif()
  endif()
endif()
list(SORT files)

set(types_html "text/html; charset=utf-8")
set(types_js "text/javascript; charset=utf-8")
set(types_css "text/css; charset=utf-8")
set(types_svg "image/svg+xml")
set(types_png "image/png")
set(types_ico "image/x-icon")
set(types_json "application/json")
set(types_woff2 "font/woff2")
set(types_wasm "application/wasm")

set(assembly ".section .rodata\n")
set(declarations "")
set(rows "")
set(count 0)
foreach(file ${files})
  set(source "${DIST}/${file}")
  if(file STREQUAL runtime_name)
    set(source "${RUNTIME}")
  endif()
  execute_process(COMMAND "${GZIP}" -9 -n -c "${source}" OUTPUT_FILE "${OUT}/page${count}.gz" RESULT_VARIABLE code)
  if(code)
    message(FATAL_ERROR "gzip ${file}: exit code ${code}")
  endif()
  file(SHA256 "${source}" digest)
  file(SIZE "${source}" size)
  file(SIZE "${OUT}/page${count}.gz" packed)
  string(REGEX REPLACE "^.*\\." "" extension "${file}")
  set(type "${types_${extension}}")
  if(NOT type)
    set(type "application/octet-stream")
  endif()
  # Vite puts a hash of the content into the names below assets/.
  set(immutable false)
  if(file MATCHES "^assets/.*-[A-Za-z0-9_-]+\\.[a-z0-9]+$")
    set(immutable true)
  endif()
  string(APPEND assembly ".global babelring_page_${count}\n.balign 16\nbabelring_page_${count}:\n.incbin \"${OUT}/page${count}.gz\"\n")
  string(APPEND declarations "extern \"C\" const char babelring_page_${count}[];\n")
  string(APPEND rows "    {\"${file}\", \"${type}\", \"\\\"${digest}\\\"\", ${size}, ${immutable}, {babelring_page_${count}, ${packed}}},\n")
  math(EXPR count "${count} + 1")
endforeach()
string(APPEND assembly ".section .note.GNU-stack,\"\",%progbits\n")

file(WRITE "${OUT}/page.S" "${assembly}")
file(WRITE "${OUT}/page.cc" "#include \"server/http/static_files.h\"

#include <array>

${declarations}
namespace babelring::http {
namespace {

const std::array<PageFile, ${count}> files = {{
${rows}}};

}  // namespace

std::span<const PageFile> page_files() { return files; }

}  // namespace babelring::http
")
