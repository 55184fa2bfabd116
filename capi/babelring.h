/* The C interface: translates with checkpoints and scores pairs, in the calling process.
 *
 * ABI: functions are only added while babelring_abi() stays the same; structures are opaque. Texts are UTF-8 and end
 * with a zero byte. Errors are values: a function that can fail returns NULL, or an error that the caller frees; then
 * its results are unchanged. Results are freed with babelring_free(). All functions may be called from any thread;
 * calls with one translator take turns, so open several to translate side by side. A child process made by fork() must
 * not use translators that were opened before.
 */
#ifndef BABELRING_H
#define BABELRING_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define BABELRING_API __attribute__((visibility("default")))
#else
#define BABELRING_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct babelring_error babelring_error;
typedef struct babelring_translator babelring_translator;

/* Kinds of errors. */
#define BABELRING_FAILURE 1 /* a file that is missing or damaged, or a fault of the machine */
#define BABELRING_USAGE 2   /* an option or a text that is refused */

/* The version of this interface: 1. Another number has other functions. */
BABELRING_API int babelring_abi(void);
/* The version of Babelring, such as "0.1.0". Never freed. */
BABELRING_API const char* babelring_version(void);

BABELRING_API int babelring_error_kind(const babelring_error* error);
/* One line that names what was found, where, and what was expected. Lives as long as the error. */
BABELRING_API const char* babelring_error_message(const babelring_error* error);
BABELRING_API void babelring_error_free(babelring_error* error); /* NULL is allowed */
BABELRING_API void babelring_free(void* result);                 /* NULL is allowed */

/* Loads a checkpoint. `options` is a JSON object:
 *   "checkpoint": folder of a checkpoint or a run, or an array of several for an ensemble; needed
 *   "weights": numbers above 0, one for each of an ensemble; "combine": "probabilities" or "logarithms"
 *   "precision": "f32", "bf16" or "int8"; "device": "auto", "cpu" or "cuda"; "threads": 0 for all */
BABELRING_API babelring_error* babelring_translator_open(const char* options, babelring_translator** translator);
/* Waits for calls in other threads. NULL is allowed. */
BABELRING_API void babelring_translator_close(babelring_translator* translator);

/* Translates. `request` is a JSON object with "text", an array of lines, and options, such as "beam": 4; `answer`
 * receives a JSON object with "items", one for each line. Members: docs/formats.md, under `nmt translate --serve`. */
BABELRING_API babelring_error* babelring_translate(babelring_translator* translator, const char* request,
                                                   char** answer);

/* Called with the best text so far of a line, which a beam may revise. `last`: the translation is complete. A return
 * value other than 0 ends the search. Called from the thread that called babelring_translate_stream(). */
typedef int (*babelring_on_text)(void* context, size_t line, const char* text, int last);
/* Translates like babelring_translate() and calls `on_text` while texts grow. Ended by `on_text`, it returns NULL. */
BABELRING_API babelring_error* babelring_translate_stream(babelring_translator* translator, const char* request,
                                                          babelring_on_text on_text, void* context);

/* Scores pairs. `request` is a JSON object with two arrays of lines of one length, "source" and "target". For pair i,
 * `counts`[i] receives the number of tokens, the target's pieces and </s>; `log_probabilities` receives those of all
 * tokens of all pairs, one after another: natural logarithms, given the source and the pieces before. Not for
 * ensembles. The first call takes memory for another copy of the packed weights. */
BABELRING_API babelring_error* babelring_score(babelring_translator* translator, const char* request,
                                               float** log_probabilities, int64_t** counts);

/* The pieces of a line as ids, without </s>. `target_side`: 0 as a source, else as a target, which differ only in
 * models with two segmenters. */
BABELRING_API babelring_error* babelring_encode(babelring_translator* translator, const char* line, int target_side,
                                                int32_t** ids, size_t* count);
/* The text of pieces. */
BABELRING_API babelring_error* babelring_decode(babelring_translator* translator, const int32_t* ids, size_t count,
                                                char** text);

#ifdef __cplusplus
}
#endif

#endif
