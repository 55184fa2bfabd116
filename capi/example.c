/* Translates the lines of standard input with a checkpoint, one by one: the C interface as a program uses it.
 *
 *   cc example.c -lbabelring -o example && ./example CHECKPOINT < text.en > text.de
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capi/babelring.h"

/* Prints the error and frees it. Returns the exit code for it. */
static int failed(babelring_error* error) {
  const int code = babelring_error_kind(error);
  fprintf(stderr, "example: %s\n", babelring_error_message(error));
  babelring_error_free(error);
  return code;
}

/* The line as a JSON string within `before` and `after`. The caller frees it. */
static char* in_json(const char* before, const char* line, const char* after) {
  char* text = malloc(strlen(before) + 6 * strlen(line) + strlen(after) + 3);
  char* end = text;
  if (text == NULL) return NULL;
  end += sprintf(end, "%s\"", before);
  for (; *line != '\0'; ++line) {
    const unsigned char byte = (unsigned char)*line;
    if (byte < 0x20) {
      end += sprintf(end, "\\u%04x", byte);
    } else {
      if (byte == '"' || byte == '\\') *end++ = '\\';
      *end++ = *line;
    }
  }
  sprintf(end, "\"%s", after);
  return text;
}

static babelring_error* translate(babelring_translator* translator, const char* line) {
  char* request = in_json("{\"beam\": 4, \"text\": [", line, "]}");
  char* answer = NULL;
  babelring_error* error = babelring_translate(translator, request, &answer);
  if (error == NULL) puts(answer);
  babelring_free(answer);
  free(request);
  return error;
}

int main(int count, char** arguments) {
  static char line[1 << 16];
  babelring_translator* translator = NULL;
  babelring_error* error = NULL;
  if (count != 2) {
    fprintf(stderr, "usage: %s CHECKPOINT < TEXT\n", arguments[0]);
    return BABELRING_USAGE;
  }
  char* options = in_json("{\"checkpoint\": ", arguments[1], "}");
  error = babelring_translator_open(options, &translator);
  free(options);
  if (error != NULL) return failed(error);
  while (error == NULL && fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    error = translate(translator, line);
  }
  babelring_translator_close(translator);
  return error == NULL ? 0 : failed(error);
}
