"""Translates text with a checkpoint and shows how sure the model is of each translation.

python3 translate.py CHECKPOINT < text.en
"""

import sys

import babelring


def main() -> None:
    with babelring.Translator(sys.argv[1]) as translator:
        lines = sys.stdin.read().splitlines()
        translations = translator.translate(lines, beam=4)
        for line, text, scores in zip(lines, translations, translator.score(lines, translations)):
            print(f"{line}\t{text}\t{scores.mean():.3f} nats a token")


if __name__ == "__main__":
    main()
