"""`python -m book COMMAND`: writes the pages, the slides or the PDF files (see `book.command`)."""

import errno
import sys


def run() -> int:
    """Do what the command line says, and return the exit status; a sentence tells why it stops."""
    try:
        from book.command import main  # takes seconds, in which one may press Ctrl-C, too

        return main()
    except KeyboardInterrupt:
        print("\nStopped. The same command goes on from here.", file=sys.stderr)
        return 130
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        told = (
            "The disk is full: build/ takes half a GB. Make room, then run the same command again."
        )
        print(f"\n{told}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(run())
