"""Prints the runs of a server with their last loss. BABELRING_TOKEN holds the token, if the server needs one.

python3 runs.py http://HOST:PORT
"""

import sys

import babelring


def main() -> None:
    server = babelring.Server(sys.argv[1])
    for run in server.runs():
        losses = run.history("loss")["value"] if "loss" in run.metrics() else []
        last = f"{losses[-1]:.3f} after {len(losses)} steps" if len(losses) else "none yet"
        print(f"{run.name}\t{run.state}\tloss {last}")


if __name__ == "__main__":
    main()
