"""``sagpool``: runs a command, and shows its errors."""

import logging
import sys

from sagpool.errors import SagpoolError


def main() -> None:
    logging.basicConfig(format="sagpool: %(message)s", level=logging.WARNING)
    try:
        # Here, where Ctrl-C is looked after: what the commands need takes seconds to load.
        from sagpool.cli.commands import app

        app()
    except (SagpoolError, OSError) as error:
        print(f"sagpool: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
