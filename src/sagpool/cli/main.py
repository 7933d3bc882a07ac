"""``sagpool``: runs a command and prints its errors."""

import logging
import sys

from sagpool.errors import SagpoolError


def main() -> None:
    logging.basicConfig(format="sagpool: %(message)s", level=logging.WARNING)
    try:
        # Inside the try block, so that Ctrl-C during the imports prints no traceback.
        from sagpool.cli.commands import app_for

        app_for(sys.argv[1:])()
    except (SagpoolError, OSError) as error:
        print(f"sagpool: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
